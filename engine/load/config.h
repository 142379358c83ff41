/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of a model's arithmetic, in one form for all families: n_embd and
 * hidden_size are one field here. A field that is absent has the default of its family's class; a
 * value that would change the arithmetic and that nothing here implements is an error that names
 * the field ("config.json: hidden_act: 'relu6' is not supported; silu is"). Decoration (dropout,
 * versions, ids of tasks) is passed over.
 *
 * Thread: constant once loaded.
 */
#ifndef ENGINE_LOAD_CONFIG_H
#define ENGINE_LOAD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/load/config_rope.h"
#include "engine/load/packing.h"
#include "engine/load/scores.h"

struct json;

enum config_family {
#define FAMILY(name, ...) FAMILY_##name,
#include "engine/load/family.def"
#undef FAMILY
    FAMILY_COUNT
};

enum config_act { ACT_SILU, ACT_GELU, ACT_GELU_TANH };

/* Where a half of a layer, f, is normed. */
enum config_norms {
    NORMS_INPUT,  /* x + f(norm(x)) */
    NORMS_SUM,    /* norm(x + f(x)) */
    NORMS_OUTPUT, /* x + norm(f(x)) */
    NORMS_BOTH    /* x + norm(f(norm(x))) */
};

/* Queries and keys before they turn: each head of them is normed, or all together. */
enum config_qk_norm { QK_NORM_NONE, QK_NORM_HEADS, QK_NORM_WHOLE };

/* How a layer's rows see each other. All but attention keep rows of a short convolution in cells;
 * those with heads of states keep a state of each sequence too. */
enum config_mixer {
    MIXER_ATTENTION,
    MIXER_CONV,  /* gated short convolution */
    MIXER_DELTA, /* gated delta rule behind a short convolution */
    MIXER_SCAN,  /* state-space scan behind one */
    MIXER_COUNT
};

enum pool_kind { POOL_CLS, POOL_MEAN, POOL_LAST };

/* What a classifier makes of a text's row: a number for each label. */
enum config_classifier {
    CLASSIFIER_NONE,
    CLASSIFIER_POOLER, /* out(tanh(dense(x))), where dense is the body's pooler */
    CLASSIFIER_DENSE,  /* the same, where it is the classifier's own */
    CLASSIFIER_BARE,   /* out(x), without a bias */
    CLASSIFIER_NORMED  /* out(norm(gelu(dense(x)))) */
};

enum {
    CONFIG_EOS_MAX = 16,
    CONFIG_LAYER_MAX = 1024,
    CONFIG_EXPERT_MAX = 1024,
    CONFIG_LABEL_MAX = 4096,
    CONFIG_DENSE_MAX = 2,
    CONFIG_FOLDER_BYTES = 65,
    CONFIG_STATE_HEAD_MAX = 256
};

/* A product of vectors behind the pooling, whose weights have a folder of their own. */
struct config_dense {
    char folder[CONFIG_FOLDER_BYTES];
    int64_t n, k;
    bool has_bias, is_tanh;
};

struct config {
    enum config_family family;
    char architecture[64]; /* "LlamaForCausalLM" */
    int64_t n_vocab, n_layer, d_model, d_ff, max_pos;
    int32_t n_head, n_kv_head, d_head;
    int32_t pos_from;  /* the row of the table of positions that the first token has */
    int32_t n_segment; /* BERT's token types; 0 elsewhere */
    enum config_act act;
    double norm_eps;
    struct config_rope rope;            /* where has_rope */
    int32_t window;                     /* keys seen at most by layers that slide; 0: none does */
    bool slides[CONFIG_LAYER_MAX];      /* by layer */
    int32_t n_expert, n_top;            /* 0: no mixtures; experts that a row goes to */
    int64_t d_expert;                   /* d_ff of an expert */
    bool has_experts[CONFIG_LAYER_MAX]; /* by layer: its feed-forward is a mixture */
    bool has_stacked_experts;           /* all of a layer are one tensor in files */
    int64_t d_shared;             /* d_ff of the one that every row goes to; 0: there is none */
    bool normalises_top;          /* a row's weights of its experts sum to 1 */
    bool has_expert_bias;         /* and the router has one */
    int32_t n_group, n_top_group; /* of experts; groups that a row picks from; 0: all are one */
    int32_t route_best;           /* a group is as good as its best, or its best two */
    double route_scale;           /* of a row's weights of its experts */
    bool is_sigmoid_route;        /* scores are sigmoids, not a softmax */
    bool has_route_bias;          /* added to scores where experts are picked */
    double swiglu_limit, swiglu_alpha; /* of their gates, clamped; limit 0: silu(gate) up */
    bool has_sinks;                    /* each head of attention has a score that is no key's */
    double balance;    /* what the loss that balances experts counts in training; 0: nothing */
    bool is_wrapped;   /* the text part of a model that sees images: other names of tensors */
    bool is_threefold; /* and has positions for pictures, which are one where there is none */
    bool is_bf16;      /* what the config says that the weights are */
    bool is_tied;      /* the head is the embedding */
    bool is_encoder;   /* a text, seen whole at once, becomes one vector */
    bool sees_ahead;   /* its tokens see those behind them too */
    bool has_rope;     /* positions turn queries and keys; else they are embedded */
    bool is_gated;     /* act(gate x) * up x, else act(up x) */
    bool is_unturned[CONFIG_LAYER_MAX]; /* by layer: has no positions, though others turn */
    enum config_norms norms;
    enum config_qk_norm qk_norm;
    double embed_scale, residual_scale; /* of embeddings; of a half before it is added */
    double logit_scale;
    double attn_scale;          /* 0: as the next two say */
    double attn_cap, logit_cap; /* soft bounds of scores and logits; 0: none */
    double local_theta;         /* of rotary positions in layers that slide; 0: as in the others */
    bool norm_plus_one;         /* norms by 1 + their weights */
    bool norm_by_mean;          /* LayerNorm, also without a bias */
    bool has_norm_bias;         /* where norms may lack theirs */
    bool skips_first_norm; /* the first layer's attention reads what the embeddings' norm gave */
    bool is_joined;        /* q, k and v are one matrix, and gate and up */
    bool has_qkv_bias, has_o_bias, has_mlp_bias;
    uint8_t mixer[CONFIG_LAYER_MAX]; /* by layer: enum config_mixer */
    int32_t d_latent, d_latent_q;    /* what keys and values are made of; queries: 0: of the rows */
    int32_t d_turned, d_value;       /* of a head behind a latent: numbers that turn; its value's */
    double query_growth;             /* with the position (llama_4_scaling_beta); 0: none */
    bool turns_beside;               /* pairs of numbers that turn are neighbours */
    int32_t n_tap;                   /* rows that short convolutions read; 0: there are none */
    bool has_conv_bias;              /* and the products around them */
    int32_t n_state_k, n_state_v;    /* heads of keys and of values that make states; 0: none */
    int32_t d_state_k, d_state_v;    /* their widths: a head of values has a state of d_k by d_v */
    bool is_delta_joined;            /* its products are two, head by head, in place of four */
    bool has_scan_bias;              /* of the products around a scan */
    double scan_lo, scan_hi;         /* bounds of its steps */
    bool has_attn_gate;              /* of what attention gives, beside its queries */
    int32_t full_d_head, full_n_kv_head; /* of layers that see all; 0: as the others */
    bool k_is_v;                         /* in layers that see all */
    bool norms_v;                        /* each head of values, without weights */
    int32_t n_kv_shared; /* the last layers that attend to keys and values of one before */
    bool widens_shared;  /* and have twice the d_ff */
    int64_t d_ple;       /* width of embeddings of each layer's own; 0: there are none */
    int64_t n_ple_vocab; /* and how many tokens have them */
    double ple_scale;    /* of them */
    int32_t n_track;     /* residual streams of a row, side by side; 0: one, and no more */
    bool scales_track;   /* what layers' own embeddings are gated by is scaled, by column */
    double coef_bound;   /* of weights that weigh tracks, in training; 0: none */
    int64_t d_laurel;    /* width of the product beside attention */
    float sparsity[CONFIG_LAYER_MAX];   /* by layer: the share of a gate that is cut off */
    int32_t own_d_ff[CONFIG_LAYER_MAX]; /* by layer; 0: d_ff, which is the most */
    bool has_layer_scale;      /* a layer's output is multiplied by a number in the files */
    bool scales_attn_by_layer; /* GPT-2: scale_attn_by_inverse_layer_idx */
    bool scales_attn;          /* 1 / sqrt(d_head), else 1 */
    enum pool_kind pool;       /* encoders: from 1_Pooling/config.json */
    struct config_dense dense[CONFIG_DENSE_MAX]; /* encoders: [n_dense] */
    int32_t n_dense;
    bool normalizes;                   /* encoders: 2_Normalize follows */
    int64_t max_text;                  /* encoders: tokens that a text is cut to; 0: not told */
    enum config_classifier classifier; /* an encoder whose texts become a number for each label */
    int32_t n_label;                   /* of a classifier */
    enum config_scores scores;         /* of a classifier */
    bool is_regression;                /* whose labels are numbers of any size */
    bool has_pooler_bias;              /* where it may lack one */

    struct packing packing; /* of matrices that are codes */

    int32_t bos; /* -1: none */
    int32_t eos[CONFIG_EOS_MAX], n_eos;
    int32_t pad; /* -1: none */
};

/* config.json of a model directory, and of encoders the pooling files beside it. */
int config_load(struct config *c, const char *dir, struct err *e);

/* config.json's text alone: what the fuzz target and tests feed. */
int config_parse(struct config *c, const char *text, size_t len, const char *name, struct err *e);

int64_t config_vector_cols(const struct config *c); /* numbers of what an encoder gives */
int64_t config_conv_width(const struct config *c);  /* columns of short convolutions */
bool config_has_states(const struct config *c, int64_t layer); /* of sequences */
const char *config_family_name(enum config_family f);          /* "llama" */
const char *config_act_name(enum config_act a);
const char *config_rope_name(enum rope_kind k);

/* Parts that have files of their own, and what generation.h reads alike. */
int config_rope_parse(struct config *c, const struct json *root, struct err *e);
int config_pooling_load(struct config *c, const char *dir, struct err *e);
int config_id_opt(const struct json *v, const char *key, int32_t *id, struct err *e);
int config_eos_opt(const struct json *v, int32_t *eos, int32_t *n_eos, struct err *e);

#endif
