/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of config.json share: what a family's class says beside the fields of its body,
 * and the parts that have files of their own.
 *
 * Thread: any; traits are constant.
 */
#ifndef ENGINE_LOAD_CONFIG_TRAITS_H
#define ENGINE_LOAD_CONFIG_TRAITS_H

#include "engine/load/config.h"

enum { CONFIG_WIDTH_MAX = 1 << 20, CONFIG_CTX_MAX = 1 << 28 };

/* Whether sliding_window is obeyed: never, always (4096 where it is absent), where it is told,
 * where use_sliding_window says so (from max_window_layers on, or all), there but by layers without
 * positions alone, or by all layers but every n-th. */
enum window_rule {
    WINDOW_OFF,
    WINDOW_ON,
    WINDOW_TOLD,
    WINDOW_SWITCHED,
    WINDOW_SWITCHED_ALL,
    WINDOW_UNTURNED,
    WINDOW_PATTERN
};

/* Groups of fields that only some families obey. */
enum {
    OBEYS_MULTIPLIERS = 1,   /* of embeddings, residuals, attention and logits */
    OBEYS_NO_ROPE = 2,       /* no_rope_layers */
    OBEYS_QUERY_SCALE = 4,   /* query_pre_attn_scalar; and embeddings are scaled by the width */
    OBEYS_CAPS = 8,          /* attn_logit_softcapping and final_logit_softcapping */
    OBEYS_LOCAL_ROPE = 16,   /* rope_local_base_freq */
    OBEYS_PARTIAL_ROPE = 32, /* partial_rotary_factor */
    OBEYS_EXPERTS = 128,     /* num_experts or num_local_experts, as `experts` says */
    OBEYS_OLD_LONGROPE = 64  /* scalings "su" and "yarn": what longrope was called before */
};

/* Mixtures of experts: what their fields are called, and what is absent. */
struct config_experts {
    const char *count, *width; /* num_experts, moe_intermediate_size */
    int32_t n, top;
    int64_t d_ff;      /* 0: the width must be there */
    bool normalises;   /* whatever the file says */
    bool may_be_plain; /* some layers: decoder_sparse_step, mlp_only_layers */
};

/* What a class has where its config leaves them out, as the text_config of others does. */
struct config_sizes {
    int64_t n_vocab, d_model, d_ff, n_layer, n_head, max_pos;
    int32_t n_kv_head; /* 0: as many as heads */
};

struct config_traits {
    enum window_rule window;
    int32_t d_head;         /* where head_dim is absent; 0: the width over the heads */
    bool may_omit_kv_heads; /* num_key_value_heads: as many as heads */
    bool reads_attn_bias, reads_mlp_bias;
    bool has_qkv_bias; /* whatever the file says */
    enum config_norms norms;
    enum config_qk_norm qk_norm;
    bool is_tied;           /* where the file does not say it */
    double norm_eps, theta; /* where the file does not say it; 0: 1e-6, 10000 */
    int32_t pattern;        /* WINDOW_PATTERN: every n-th layer sees all */
    enum config_act act;    /* gated families: whose sort their activations are of */
    bool norm_plus_one, is_joined;
    bool pos_behind_pad; /* the first position is the row behind pad_token_id's */
    struct config_sizes sizes;
    const char *act_key;           /* where the activation stands; NULL: hidden_act */
    unsigned obeys;                /* OBEYS_ */
    struct config_experts experts; /* count NULL: none */
};

const struct config_traits *config_traits_of(const struct config *c);

/* The family, and where the text model's fields stand. */
int config_family_find(struct config *c, const struct json *root, struct json *text, struct err *e);

int config_count_opt(const struct json *v, const char *key, int64_t hi, int32_t *out,
                     struct err *e);

/* quantization_config, of weights that are packed. */
int config_packing_check(const struct json *root, struct err *e);

int config_layers_parse(struct config *c, const struct json *root, struct err *e);
int config_scales_parse(struct config *c, const struct json *root, struct err *e);
int config_experts_parse(struct config *c, const struct json *root, struct err *e);

#endif
