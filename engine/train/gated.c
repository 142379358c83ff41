/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank waits for it waits for without the gate: another rank may need this one's serving to
 * come so far.
 */
#include "engine/train/gated.h"

#include <stddef.h>

#include "engine/base/gate.h"
#include "engine/comm/comm.h"
#include "engine/device/device.h"

static int64_t go_on_or_wait(void *gate)
{
    return gate_go_on(gate) * 1000;
}

static void let_go(void *gate)
{
    gate_leave(gate, GATE_TRAIN);
}

static void take_again(void *gate)
{
    gate_enter(gate, GATE_TRAIN);
}

void gated_enter(struct gate *g, struct stream *s, struct comm *model)
{
    if (!g)
        return;
    gate_enter(g, GATE_TRAIN);
    stream_between(s, go_on_or_wait, g);
    if (model)
        comm_around(model, let_go, take_again, g);
}

void gated_leave(struct gate *g, struct stream *s, struct comm *model)
{
    if (!g)
        return;
    if (model)
        comm_around(model, NULL, NULL, NULL);
    stream_between(s, NULL, NULL);
    gate_leave(g, GATE_TRAIN);
}
