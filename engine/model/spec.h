/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parameters a family has: one row each, with its place in the model's function, its name in
 * the files, its shape in terms of the config, and its neighbours. From the rows follow the list of
 * parameters, their sizes, the loading, and what can take adapters.
 *
 * Thread: any; rows are constant.
 */
#ifndef ENGINE_MODEL_SPEC_H
#define ENGINE_MODEL_SPEC_H

#include "engine/load/config.h"
#include "engine/op/param.h"

/* Where a parameter stands in its family's function. */
enum slot {
    SLOT_TOKEN_EMBED,
    SLOT_POS_EMBED,
    SLOT_SEGMENT_EMBED,
    SLOT_EMBED_NORM,
    SLOT_EMBED_NORM_BIAS,
    SLOT_FINAL_NORM,
    SLOT_FINAL_NORM_BIAS,
    SLOT_LM_HEAD,
    SLOT_GLOBAL_COUNT,
    SLOT_ATTN_NORM = SLOT_GLOBAL_COUNT, /* from here on once per layer */
    SLOT_ATTN_NORM_BIAS,
    SLOT_Q,
    SLOT_K,
    SLOT_V,
    SLOT_Q_BIAS,
    SLOT_K_BIAS,
    SLOT_V_BIAS,
    SLOT_QKV,
    SLOT_QKV_BIAS,
    SLOT_Q_NORM,
    SLOT_K_NORM,
    SLOT_O,
    SLOT_O_BIAS,
    SLOT_MLP_NORM,
    SLOT_MLP_NORM_BIAS,
    SLOT_ATTN_OUT_NORM, /* of what a half gives, before it is added */
    SLOT_MLP_OUT_NORM,
    SLOT_GATE,
    SLOT_UP,
    SLOT_GATE_UP,
    SLOT_DOWN,
    SLOT_GATE_BIAS,
    SLOT_UP_BIAS,
    SLOT_DOWN_BIAS,
    SLOT_ROUTER,
    SLOT_EXPERT_GATE, /* of the first of them: the others follow it in the list of parameters */
    SLOT_EXPERT_UP,
    SLOT_EXPERT_DOWN,
    SLOT_COUNT,
    SLOT_LAYER_COUNT = SLOT_COUNT - SLOT_GLOBAL_COUNT
};

enum spec_dim {
    DIM_OF_NONE, /* the k of a vector */
    DIM_OF_MODEL,
    DIM_OF_VOCAB,
    DIM_OF_POS,
    DIM_OF_SEGMENT,
    DIM_OF_FF,
    DIM_OF_GATE_UP, /* both */
    DIM_OF_EXPERT,  /* d_ff of one */
    DIM_OF_EXPERTS, /* how many */
    DIM_OF_Q,       /* n_head * d_head */
    DIM_OF_KV,      /* n_kv_head * d_head */
    DIM_OF_QKV,     /* all three */
    DIM_OF_HEAD,    /* d_head */
    DIM_OF_COUNT
};

enum spec_when {
    WHEN_ALWAYS,
    WHEN_QKV_BIAS,
    WHEN_O_BIAS,
    WHEN_MLP_BIAS,
    WHEN_QK_NORM,
    WHEN_WHOLE_QK_NORM,
    WHEN_NORM_BEFORE, /* a half is normed before, ... */
    WHEN_NORM_AFTER,
    WHEN_NORM_BEFORE_ONLY,
    WHEN_NORM_BOTH,
    WHEN_APART, /* q, k and v are three matrices, gate and up two */
    WHEN_JOINED,
    WHEN_UNTIED
};

/* What a layer's feed-forward must be: plain, a mixture whose parts are called mlp, or one whose
 * parts are called block_sparse_moe. */
enum spec_ff { FF_IS_ANY, FF_IS_PLAIN, FF_IS_MIXTURE, FF_IS_BLOCK_MIXTURE };

struct spec_row {
    enum slot slot;
    const char *name; /* with %d for the layer, then for the expert, behind the family's prefix */
    enum spec_dim n, k;
    enum spec_when when;
    enum spec_ff ff;
    bool is_each;       /* once for each expert, packed back to back */
    int8_t group;       /* rows of one layer with the same group above 0 are packed back to back */
    bool is_transposed; /* [k, n] in the file */
    bool takes_lora;
};

struct spec {
    const struct spec_row *row;
    int n_row;
    const char *const *prefix; /* what may stand before each name, NULL at the end; "" is one */
};

/* The family's prefixes, or those of a text model in another. */
const char *const *spec_prefix(const struct config *c);

int64_t spec_dim_of(const struct config *c, enum spec_dim d);
/* Whether a layer has it; -1: of the rows without one. */
bool spec_row_is_used(const struct config *c, const struct spec_row *r, int64_t layer);
bool spec_row_is_vector(const struct spec_row *r);

const struct spec *spec_of(enum config_family f);

/* The parameters in the order of their list and of memory: the rows without a layer and each
 * layer's, in row order, and of a row that each expert has all of these. */
struct spec_walk {
    const struct config *cfg;
    int64_t layer, expert; /* of the row that was given last; -1: none */
    int row;               /* where it goes on */
};

struct spec_walk spec_walk_begin(const struct config *c);
const struct spec_row *spec_walk_next(struct spec_walk *w); /* NULL: none is left */

/* Whether the matrices that take adapters are [k, n] in files (PEFT's fan_in_fan_out). */
bool spec_is_transposed(const struct spec *s);

#endif
