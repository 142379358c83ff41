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
#include "engine/model/slot.h"
#include "engine/op/param.h"

enum spec_dim {
    DIM_OF_NONE, /* the k of a vector */
    DIM_OF_MODEL,
    DIM_OF_VOCAB,
    DIM_OF_POS,
    DIM_OF_SEGMENT,
    DIM_OF_PLE_VOCAB,
    DIM_OF_PLE,     /* an embedding of one layer's own */
    DIM_OF_PLES,    /* of all layers */
    DIM_OF_TRACKS,  /* how many */
    DIM_OF_PREDICT, /* a weight for each two of them */
    DIM_OF_LAUREL,
    DIM_OF_LABELS,
    DIM_OF_DENSE, /* numbers that the product gives */
    DIM_OF_DENSE_2,
    DIM_OF_FF,
    DIM_OF_GATE_UP, /* both */
    DIM_OF_EXPERT,  /* d_ff of one */
    DIM_OF_EXPERTS, /* how many */
    DIM_OF_SHARED,  /* d_ff of the shared one */
    DIM_OF_LATENT,
    DIM_OF_LATENT_Q,  /* d_latent_q, or the width */
    DIM_OF_LATENT_KV, /* d_latent, and what turns of a key */
    DIM_OF_KV_UP,     /* of all heads: what does not turn of a key, and a value */
    DIM_OF_VALUES,    /* n_head * d_value */
    DIM_OF_ONE,
    DIM_OF_Q,         /* n_head * d_head */
    DIM_OF_QUERY,     /* that, and as much again where attention is gated */
    DIM_OF_KV,        /* n_kv_head * d_head */
    DIM_OF_QKV,       /* all three */
    DIM_OF_HEAD,      /* d_head */
    DIM_OF_HEADS,     /* how many */
    DIM_OF_CONV_IN,   /* three times the width */
    DIM_OF_TAPS,      /* a convolution's columns times its taps */
    DIM_OF_STATE_QKV, /* queries, keys and values that make states */
    DIM_OF_SCAN_IN,   /* the gate, these, and a step for each head */
    DIM_OF_STATE_V,
    DIM_OF_DELTA_QKVZ,
    DIM_OF_DELTA_BA,
    DIM_OF_STATE_HEADS, /* n_state_v */
    DIM_OF_STATE_HEAD,  /* d_state_v */
    DIM_OF_COUNT
};

enum spec_when {
    WHEN_ALWAYS,
    WHEN_QKV_BIAS,
    WHEN_O_BIAS,
    WHEN_MLP_BIAS,
    WHEN_CONV_BIAS,
    WHEN_SCAN_BIAS,
    WHEN_SINKS,
    WHEN_Q_LATENT,
    WHEN_Q_LATENT_BIAS,
    WHEN_NO_Q_LATENT,
    WHEN_CHOICE_BIAS,
    WHEN_OWN_KV, /* keys and values are not another layer's */
    WHEN_OWN_V,  /* and values are not the keys */
    WHEN_PLE,
    WHEN_TRACKS,
    WHEN_TRACK_SCALE,
    WHEN_QK_NORM,
    WHEN_WHOLE_QK_NORM,
    WHEN_NORM_BEFORE, /* a half is normed before, ... */
    WHEN_NORM_AFTER,
    WHEN_NORM_BEFORE_ONLY,
    WHEN_NORM_BOTH,
    WHEN_APART, /* q, k and v are three matrices, gate and up two */
    WHEN_JOINED,
    WHEN_DELTA_APART,
    WHEN_DELTA_JOINED,
    WHEN_SHARED, /* a mixture has an expert that every row goes to */
    WHEN_UNTIED,
    WHEN_DENSE,
    WHEN_DENSE_BIAS,
    WHEN_DENSE_2,
    WHEN_DENSE_2_BIAS,
    WHEN_CLASSIFIER_POOLER, /* as enum config_classifier says */
    WHEN_CLASSIFIER_DENSE,
    WHEN_CLASSIFIER_BARE,
    WHEN_CLASSIFIER_NORMED,
    WHEN_CLASSIFIER_NORMED_BIAS, /* of the dense one, ... */
    WHEN_CLASSIFIER_NORM_BIAS,
    WHEN_NORM_BIAS,
    WHEN_NOT_FIRST_NORM, /* in all layers but perhaps the first */
    WHEN_NOT_FIRST_NORM_BIAS
};

/* What a layer's feed-forward must be: plain, a mixture whose parts are called mlp, one whose parts
 * are called block_sparse_moe, or one whose router is called so and has biases, as its experts. */
enum spec_ff { FF_IS_ANY, FF_IS_PLAIN, FF_IS_MIXTURE, FF_IS_BLOCK_MIXTURE, FF_IS_BIASED_MIXTURE };

#define MIXER_IS(mixer) (1u << (mixer))

struct spec_row {
    enum slot slot;
    const char *name; /* with %d for the layer, then for the expert, behind the family's prefix */
    enum spec_dim n, k;
    enum spec_when when;
    enum spec_ff ff;
    unsigned mixers;    /* MIXER_IS() of those that a layer's must be one of; 0: any */
    bool is_each;       /* once for each expert, packed back to back */
    const char *stack;  /* what adapters call the tensor of all of these; of gate it is up's, too */
    int8_t group;       /* rows of one layer with the same group above 0 are packed back to back */
    bool is_transposed; /* [k, n] in the file */
    bool takes_lora;
    bool is_fixed; /* no gradient comes to it */
};

struct spec {
    const struct spec_row *row;
    int n_row;
    const char *const *prefix; /* what may stand before each name, NULL at the end; "" is one */
};

/* The family's prefixes, or those of a text model in another. */
const char *const *spec_prefix(const struct config *c);
/* That of the modules of the class that others load the model as: of vectors the bare body. */
const char *spec_prefix_of_class(const struct config *c);

/* layer -1: of a row without one. */
int64_t spec_dim_of(const struct config *c, enum spec_dim d, int64_t layer);
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
