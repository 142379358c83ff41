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

struct json;

enum config_family {
#define FAMILY(name, ...) FAMILY_##name,
#include "engine/load/family.def"
#undef FAMILY
    FAMILY_COUNT
};

enum config_act { ACT_SILU, ACT_GELU, ACT_GELU_TANH };

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_DYNAMIC, ROPE_LLAMA3, ROPE_YARN, ROPE_LONGROPE };

/* Where a half of a layer, f, is normed. */
enum config_norms {
    NORMS_INPUT,  /* x + f(norm(x)) */
    NORMS_SUM,    /* norm(x + f(x)) */
    NORMS_OUTPUT, /* x + norm(f(x)) */
    NORMS_BOTH    /* x + norm(f(norm(x))) */
};

/* Queries and keys before they turn: each head of them is normed, or all together. */
enum config_qk_norm { QK_NORM_NONE, QK_NORM_HEADS, QK_NORM_WHOLE };

enum pool_kind { POOL_CLS, POOL_MEAN, POOL_LAST };

enum {
    CONFIG_ROPE_FACTOR_MAX = 256,
    CONFIG_EOS_MAX = 16,
    CONFIG_LAYER_MAX = 1024,
    CONFIG_EXPERT_MAX = 1024
};

struct config_rope {
    enum rope_kind kind;
    double theta, partial; /* partial: share of a head that turns, 1 for all of it */
    double factor, low_freq_factor, high_freq_factor;    /* llama3; factor: all */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn; mscale 0: absent */
    double attention_factor;                             /* yarn, longrope; 0: computed */
    int64_t original_max_pos;                            /* 0: max_pos */
    bool truncate;                                       /* yarn: whole-numbered bounds */
    int n_factor;                                        /* longrope: d_rot / 2 */
    double short_factor[CONFIG_ROPE_FACTOR_MAX], long_factor[CONFIG_ROPE_FACTOR_MAX];
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
    bool normalises_top;                /* a row's weights of its experts sum to 1 */
    bool wants_balance; /* what made it adds a loss of the router's balance in training */
    bool is_wrapped;    /* the text part of a model that sees images: other names of tensors */
    bool is_bf16;       /* what the config says that the weights are */
    bool is_tied;       /* the head is the embedding */
    bool is_encoder;    /* a text, seen whole at once, becomes one vector */
    bool sees_ahead;    /* its tokens see those behind them too */
    bool has_rope;      /* positions turn queries and keys; else they are embedded */
    bool is_gated;      /* act(gate x) * up x, else act(up x) */
    bool is_unturned[CONFIG_LAYER_MAX]; /* by layer: has no positions, though others turn */
    enum config_norms norms;
    enum config_qk_norm qk_norm;
    double embed_scale, residual_scale; /* of embeddings; of a half before it is added */
    double logit_scale;
    double attn_scale;          /* 0: as the next two say */
    double attn_cap, logit_cap; /* soft bounds of scores and logits; 0: none */
    double local_theta;         /* of rotary positions in layers that slide; 0: as in the others */
    bool norm_plus_one;         /* norms by 1 + their weights */
    bool is_joined;             /* q, k and v are one matrix, and gate and up */
    bool has_qkv_bias, has_o_bias, has_mlp_bias;
    bool scales_attn_by_layer; /* GPT-2: scale_attn_by_inverse_layer_idx */
    bool scales_attn;          /* 1 / sqrt(d_head), else 1 */
    enum pool_kind pool;       /* encoders: from 1_Pooling/config.json */
    bool normalizes;           /* encoders: 2_Normalize follows */
    int64_t max_text;          /* encoders: tokens that a text is cut to; 0: not told */

    int32_t bos; /* -1: none */
    int32_t eos[CONFIG_EOS_MAX], n_eos;
    int32_t pad; /* -1: none */
};

/* config.json of a model directory, and of encoders the pooling files beside it. */
int config_load(struct config *c, const char *dir, struct err *e);

/* config.json's text alone: what the fuzz target and tests feed. */
int config_parse(struct config *c, const char *text, size_t len, const char *name, struct err *e);

const char *config_family_name(enum config_family f); /* "llama" */
const char *config_act_name(enum config_act a);
const char *config_rope_name(enum rope_kind k);

/* Parts that have files of their own, and what generation.h reads alike. */
int config_rope_parse(struct config *c, const struct json *root, struct err *e);
int config_pooling_load(struct config *c, const char *dir, struct err *e);
int config_id_opt(const struct json *v, const char *key, int32_t *id, struct err *e);
int config_eos_opt(const struct json *v, int32_t *eos, int32_t *n_eos, struct err *e);

#endif
