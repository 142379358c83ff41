/* SPDX-License-Identifier: Apache-2.0
 *
 * What GGUF files call a model's parameters, and how llama.cpp's converter has changed them: rows
 * of heads in another order, numbers that were worked out beforehand. Here they are told, and
 * undone in gguf_weights.c, so that a file gives what the model's makers published.
 *
 * Thread: any; rows are constant.
 */
#ifndef ENGINE_LOAD_GGUF_NAMES_H
#define ENGINE_LOAD_GGUF_NAMES_H

#include <stdbool.h>

#include "engine/load/st_header.h"

/* Whose names they are. */
enum gguf_style {
    GGUF_STYLE_PLAIN,
    GGUF_STYLE_LLAMA,  /* queries and keys are permuted; mixtures are called block_sparse_moe */
    GGUF_STYLE_ROUTED, /* gpt-oss: a router with biases */
    GGUF_STYLE_CONV,   /* LFM2 */
    GGUF_STYLE_DELTA,  /* gated delta rules: heads of values by turns of those of keys */
    GGUF_STYLE_DELTA_JOINED /* of Qwen3-Next: these in their order, b and a in one tensor */
};

/* Which row of the file one of ours is. */
enum gguf_order {
    GGUF_ORDER_SAME,
    GGUF_ORDER_TURNED,  /* GGUF_STYLE_LLAMA: heads of queries and keys, evens before odds */
    GGUF_ORDER_V_ROWS,  /* heads of values, ... */
    GGUF_ORDER_QKV,     /* behind those of queries and keys */
    GGUF_ORDER_V_HEADS, /* a row each */
    GGUF_ORDER_V_COLS,  /* columns of theirs */
    GGUF_ORDER_B,       /* of each head of keys first those of b, then those of a */
    GGUF_ORDER_A
};

enum gguf_change {
    GGUF_CHANGE_NONE,
    GGUF_CHANGE_MINUS_ONE, /* norms by 1 + weight: the file has the sum */
    GGUF_CHANGE_LOG        /* the file has -exp(x) */
};

/* The shape that ours has beside the file's. */
enum gguf_form { GGUF_FORM_SAME, GGUF_FORM_CONV /* [n, 1, k] */, GGUF_FORM_ROW /* [1, k] */ };

struct gguf_name {
    const char *there, *here; /* of a layer where `there` begins with a dot */
    enum gguf_order order;
    enum gguf_change change;
    enum gguf_form form;
};

/* Tensors whose rest behind the layer is this, [*n]: two where one tensor is two parameters, which
 * stand side by side; NULL: no parameter. */
const struct gguf_name *gguf_name_find(enum gguf_style style, const char *rest, int *n);

/* The layer of "blk.7.attn_q.weight", *rest at the dot behind it; -1: of no layer. */
int gguf_name_layer(const char *name, const char **rest);

/* Of a mixture: the stacks of all experts' with what one is called. */
struct gguf_stack {
    const char *there, *mlp, *block; /* where mixtures are called mlp, block_sparse_moe */
    bool is_vector;
};

const struct gguf_stack *gguf_stack_find(const char *rest); /* NULL: none */

/* What a file calls a parameter ("layers.7.self_attn.q_proj.weight") of GGUF_STYLE_PLAIN or _LLAMA,
 * whether llama.cpp permutes it where it permutes any, and which expert's it is of the stack that
 * the name is of (-1: of none); false: there is no name. */
bool gguf_tensor_name(const char *param, char name[ST_MAX_NAME_BYTES], bool *is_permuted,
                      int64_t *expert);

#endif
