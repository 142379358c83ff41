/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values may yet come to fill all of theirs, so what is free now is not all a training's.
 */
#include "engine/train/limit.h"

#include "engine/engine.h"
#include "engine/run/crew.h"
#include "engine/serve/resident.h"

enum { LEAST_SHARE = 4 }; /* of the memory, whatever keys and values may come to take */

size_t train_limit(const struct engine *g, int64_t given)
{
    const struct resident *on = engine_resident(g);
    const struct engine_info *i = engine_info(g);
    size_t total, left, kept = (size_t)(i->kv_bytes + i->state_bytes);
    if (given > 0)
        return (size_t)given;
    if (device_get_kind(on->device) == DEVICE_CUDA) { /* what was kept at the start; 1: nothing */
        int64_t ours = i->train_bytes;
        return ours > 0 ? (size_t)ours : 1;
    }
    device_memory(on->device, &total, &left);
    if (on->crew)
        left /= (size_t)crew_memory(on->crew).n_sharer;
    return left > kept && left - kept > left / LEAST_SHARE ? left - kept : left / LEAST_SHARE;
}
