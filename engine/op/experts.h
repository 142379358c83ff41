/* SPDX-License-Identifier: Apache-2.0
 *
 * For the files of op experts: what its launches share, and what stands between its products.
 *
 * Thread: as an op's launches.
 */
#ifndef ENGINE_OP_EXPERTS_H
#define ENGINE_OP_EXPERTS_H

#include "engine/op/ops.h"

/* What a forward leaves for its backward. */
struct experts_kept {
    struct k_route_map map;
    float *gate, *up;          /* [m * top, d_ff] each, side by side in rows of twice as many */
    float *t_gate_up, *t_down; /* [m * top, rank_max] of adapters */
};

/* What the launches of one node share. */
struct experts_run {
    struct op_ctx *c;
    const struct op_experts_attr *a;
    enum dim rows;
    int64_t m;
    struct experts_kept k;
};

/* `m` of the arguments counts routed rows. */
#define LAUNCH_ROUTED(r, kernel, args)                                                             \
    op_launch((r)->c, (kernel), &(args), sizeof(args),                                             \
              &(struct op_count){.offset = (uint16_t)((char *)&(args).m - (char *)&(args)),        \
                                 .dim = (r)->rows,                                                 \
                                 .times = (r)->a->top},                                            \
              1)

/* h [m * top, d_ff] of the gate's halves. */
void experts_gate(const struct experts_run *r, float *h);

/* Of h's gradient dh those of its halves, side by side. */
void experts_gate_bwd(const struct experts_run *r, const float *dh, float *dgate);

#endif
