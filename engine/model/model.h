/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in memory: its config, its parameters packed once, its tables, and the one function that
 * says what it computes. The function is written against a builder, so the same text is recorded
 * into a graph for serving and executed on a tape for training, over the same parameters.
 *
 * Thread: constant once loaded; param.grad belongs to whoever trains.
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include "engine/device/device.h"
#include "engine/load/base_id.h"
#include "engine/model/layer.h"
#include "engine/model/spec.h"
#include "engine/op/builder.h"
#include "engine/op/collective.h"

struct model {
    struct config cfg;
    struct device *device; /* borrowed */
    struct param *param;   /* owned */
    int32_t n_param, n_lora;
    struct param *slot[SLOT_GLOBAL_COUNT]; /* in param; NULL: not there */
    struct layer *layer;                   /* owned: [n_layer] */
    struct model_rope {
        float *cos, *sin; /* owned: [model_turn_rows, d_rot / 2] */
        int32_t d_rot;    /* of a head; 0: there is no such table */
    } rope[LAYER_ROPE_COUNT];
    float *q_scale;     /* owned: [ctx] what queries are multiplied with, by position; or NULL */
    int64_t rope_short; /* tokens of a sequence that turns by the table's short form; 0: one form */
    int64_t ctx;        /* positions served: at most cfg.max_pos where that binds */
    struct model_order
        *order; /* owned: those of matrices that have one (order.h); NULL: none has */
    int32_t n_order;
    void *block; /* owned: device memory of all parameters */
    size_t block_bytes;
    char *names;         /* owned: the parameters' names, then the products' */
    enum k_type kv_type; /* of K/V cells (kernels/cell.def) */
    struct base_id base; /* what was loaded; not known of a model that was made of nothing */
    int64_t d_conv;      /* columns of convolutions whose rows are kept here */

    /* Where ranks share the model `param` says what all have together and has no memory; `part` is
     * what is here. */
    struct op_ranks ranks;
    struct param *part;              /* owned: by index; NULL: one rank */
    const struct param_share *share; /* borrowed: by index */
};

/* An order of inputs (engine/op/param.h), and what it is in the host's memory. */
struct model_order {
    struct param_order of;
    int32_t *at; /* owned */
};

/* How ranks share a model: of one of them (engine/run/ranks.h). */
struct model_share {
    struct op_ranks at;
    struct param_share *param; /* owned: by index */
    int32_t *n_kv_head;        /* owned: by layer, whose keys and values this rank keeps */
    int64_t d_conv;            /* columns whose rows of convolutions */
};

struct model_options {
    int type;        /* enum k_type of all matrices, or -1: of each as the next three say */
    bool is_trained; /* what a format that is not trained would have is stored, or else bf16 */
    const struct model *like; /* borrowed: as there; NULL: as stored */
    struct weights *files;    /* borrowed: where they are stored; NULL: as if in bf16 */
    int kv_type;  /* a format of cells, or -1: as the rows that most of the weights multiply; odd
                   * heads: always f32, which int8 is refused for */
    bool is_int8; /* products with codes multiply codes of rows, where their format can */
    int64_t ctx;  /* 0: the config's */
    const struct model_share *share; /* borrowed for the model's life; NULL: one rank */
    struct pool *pool;               /* borrowed: packs in parallel; NULL: this thread */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_ctx;
};

/* Packs the weights of an open directory, which is not needed afterwards. */
struct model *model_load(const struct model_dir *dir, const struct model_options *o,
                         struct device *d, struct err *e);

/* The options of a model that is trained in place of `served`: the same, but for formats that are
 * not trained themselves. files: of what is served. */
struct model_options model_options_trained(const struct model *served, struct weights *files);

/* The parameters of a config with memory and zeros: sizes (d NULL: no memory at all), and models
 * that are trained from nothing. */
struct model *model_new(const struct config *c, const struct model_options *o, struct device *d,
                        struct err *e);
void model_free(struct model *m);

enum k_type model_main_type(const struct model *m); /* the format of most of its numbers */
enum k_type model_pick_kv(const struct model *m, int wanted); /* as kv_type above, of the cells */

struct param *model_stored(const struct model *m); /* by index, with memory: parts, or all */
struct param *model_layer(const struct model *m, int64_t layer, enum slot s);
struct param *model_find(const struct model *m, const char *name);
const struct param *model_lm_head(const struct model *m); /* the embedding where they are tied */

/* What the function ends in. */
enum model_output {
    MODEL_LOGITS, /* [DIM_OUT, n_vocab] */
    MODEL_LOSS,   /* [DIM_OUT, OP_CE_COLS]: struct k_ce_state */
    MODEL_HIDDEN, /* [DIM_TOK, d_model], behind the final norm */
    MODEL_EMBED /* [DIM_SEQ or DIM_OUT, config_vector_cols]: a text's vector, or its labels' numbers
                 */
};

/* Builds the model's function; returns its result. */
struct val model_build(const struct model *m, struct builder *b, enum model_output output);

/* The row of the rotary table at which a sequence of at most n_tok tokens begins, all its life:
 * where there are two forms, those of the short one follow those of the long one, which fills the
 * context.
 */
int32_t model_turn(const struct model *m, int64_t n_tok);
int64_t model_turn_rows(const struct model *m);

size_t model_rope_bytes(const struct model *m); /* of the tables */

/* What a layer keeps its keys and values in, or rows of a convolution: those are no codes. */
enum k_type model_cell_type(const struct model *m, int64_t layer);
/* What a layer keeps of K_CELL tokens, its keys and values or rows of its convolution, and all
 * layers of one. */
size_t model_cell_bytes(const struct model *m, int64_t layer);
size_t model_kv_token_bytes(const struct model *m);

/* The recurrent state of a sequence in a layer, and in all of them; 0: there is none. */
size_t model_layer_state_bytes(const struct model *m, int64_t layer);
size_t model_state_bytes(const struct model *m);

/* By how many tokens a sequence may be cut back so that it goes on as if they had never been. */
int32_t model_cut_most(const struct model *m);

#endif
