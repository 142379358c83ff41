/* SPDX-License-Identifier: Apache-2.0
 *
 * Op rope_kv, for the pass that makes it.
 *
 * Thread: as ops.
 */
#ifndef ENGINE_OP_ROPE_KV_H
#define ENGINE_OP_ROPE_KV_H

#include "engine/op/ops.h"

struct op_rope_kv_attr {
    struct op_rope_attr rope;                /* of q; k's but for its heads */
    const struct param *q_weight, *k_weight; /* of rmsnorms of heads before them; NULL: none */
    float eps;
    int32_t layer, n_kv_head, plus_one; /* of the norms */
};

/* The nodes that it takes the place of; norms are NULL where there are none, or others read them.
 */
struct op_rope_kv_from {
    const struct op_node *attn, *rope_q, *rope_k, *norm_q, *norm_k;
};

/* n: the node, whose inputs are theirs; -1: they do not go together. */
int op_rope_kv_set(struct op_node *n, const struct op_rope_kv_from *f);

#endif
