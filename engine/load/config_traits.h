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

enum { CONFIG_WIDTH_MAX = 1 << 20, CONFIG_CTX_MAX = 1 << 28, CONFIG_VOCAB_MAX = 1 << 24 };

/* Whether sliding_window is obeyed: never, always (4096 where it is absent), where it is told,
 * where use_sliding_window says so (from max_window_layers on, or all, or every other one up to
 * there), there but by layers without positions alone, or by all layers but every n-th. */
enum window_rule {
    WINDOW_OFF,
    WINDOW_ON,
    WINDOW_TOLD,
    WINDOW_SWITCHED,
    WINDOW_SWITCHED_ALL,
    WINDOW_SWITCHED_TURNS,
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
    OBEYS_CONV = 256,        /* conv_L_cache and the fields around it */
    OBEYS_BOTH_WAYS = 512,   /* use_bidirectional_attention */
    OBEYS_CLAMP = 4096,      /* swiglu_limit, of experts with biases; and heads have sinks */
    OBEYS_GEMMA4 = 1 << 20,  /* num_kv_shared_layers, hidden_size_per_layer_input, ... */
    OBEYS_TRACKS = 1 << 21,  /* altup_num_inputs, laurel_rank, activation_sparsity_pattern, ... */
    OBEYS_DELTA = 8192,      /* linear_num_value_heads and the fields around it */
    OBEYS_SHARED = 16384,    /* shared_expert_intermediate_size */
    OBEYS_LATENT = 32768,    /* kv_lora_rank, n_routed_experts and the fields around them */
    OBEYS_SCAN = 65536,      /* mamba_n_heads and the fields around it */
    OBEYS_GROWTH = 1 << 22,  /* llama_4_scaling_beta, which must be there */
    OBEYS_OLD_LONGROPE = 64  /* scalings "su" and "yarn": what longrope was called before */
};

/* Mixtures of experts: what their fields are called, and what is absent. */
struct config_experts {
    const char *count, *width; /* num_experts, moe_intermediate_size */
    int32_t n, top;
    int64_t d_ff;        /* 0: the width must be there */
    bool normalises;     /* whatever the file says */
    bool may_be_plain;   /* some layers: decoder_sparse_step, mlp_only_layers */
    bool may_be_none;    /* a count of 0: no layer has them */
    bool are_stacked;    /* all of a layer in one tensor */
    bool is_normal;      /* norm_topk_prob where it is absent */
    int64_t d_shared;    /* OBEYS_SHARED, where it is absent */
    double balance;      /* router_aux_loss_coef where it is absent */
    const char *top_key; /* NULL: num_experts_per_tok */
    const char
        *switch_key; /* true: all layers have them, and all is told; NULL: nothing is asked */
};

/* Attention through a latent, and the router that goes with it: what is absent. */
struct config_latent {
    int32_t q_rank, kv_rank, nope, rope, v;
    int32_t n_shared, n_plain;  /* experts of every row; layers without any */
    int32_t n_group, top_group; /* 0: null */
    double scale;
    bool is_sigmoid;  /* scores are sigmoids, and experts picked with a bias */
    bool has_methods; /* V2: topk_method; groups are picked by their best, else by their best two */
};

/* What a class has where its config leaves them out, as the text_config of others does. */
struct config_sizes {
    int64_t n_vocab, d_model, d_ff, n_layer, n_head, max_pos;
    int32_t n_kv_head; /* 0: as many as heads */
};

struct config_traits {
    enum config_mixer mixer; /* that some layers have in place of attention */
    enum window_rule window;
    int32_t d_head;         /* where head_dim is absent; 0: the width over the heads */
    bool may_omit_kv_heads; /* num_key_value_heads: as many as heads */
    bool reads_attn_bias, reads_mlp_bias;
    bool has_attn_bias; /* where the file does not say it */
    bool has_qkv_bias;  /* whatever the file says, but for qkv_bias where that is read */
    bool reads_qkv_bias;
    enum config_norms norms;
    enum config_qk_norm qk_norm;
    bool is_tied;           /* where the file does not say it */
    double norm_eps, theta; /* where the file does not say it; 0: 1e-6, 10000 */
    double local_theta;     /* OBEYS_LOCAL_ROPE, likewise; 0: 10000 */
    double partial;         /* of a head that turns, where the file does not say it; 0: all */
    int32_t pattern;        /* WINDOW_PATTERN: every n-th layer sees all */
    int32_t span;           /* where sliding_window is absent; 0: 4096 */
    enum config_act act;    /* gated families: whose sort their activations are of */
    bool norm_plus_one, is_joined, is_delta_joined;
    int64_t d_ff;        /* where intermediate_size is absent; 0: it must be there */
    bool pos_behind_pad; /* the first position is the row behind pad_token_id's */
    struct config_sizes sizes;
    const char *body_arch; /* the class without an lm_head; NULL: as the family's is called; "": it
                            * gives no vectors here */
    const char *act_key;   /* where the activation stands; NULL: hidden_act */
    const char *eps_key;   /* where the norms' eps stands; NULL: rms_norm_eps */
    const char *ff_alias;  /* what rules over intermediate_size; NULL: nothing */
    unsigned obeys;        /* OBEYS_ */
    struct config_experts experts;     /* count NULL: none */
    struct config_latent latent;       /* of OBEYS_LATENT */
    enum config_classifier classifier; /* of its ...ForSequenceClassification; NONE: not read */
};

const struct config_traits *config_traits_of(const struct config *c);

/* The family, and where the text model's fields stand. */
int config_family_find(struct config *c, const struct json *root, struct json *text, struct err *e);

/* Of a model around a text model, behind the text_config: whether its head is the embedding, which
 * later versions say themselves, where the text_config may have what its class has. The files have
 * the word over both (tied_head.h). */
int config_outer_tie_parse(struct config *c, const struct json *root, struct err *e);

/* Parts of what most families name alike. */
int config_sizes_parse(struct config *c, const struct json *root, struct err *e);
int config_act_parse(struct config *c, const struct json *root, const char *key, struct err *e);
int config_eps_parse(struct config *c, const struct json *root, const char *key, struct err *e);
/* key: the width's, for errors. */
int config_split_width(struct config *c, const struct json *root, const char *key, struct err *e);

int config_count_opt(const struct json *v, const char *key, int64_t hi, int32_t *out,
                     struct err *e);

/* quantization_config, of weights that are packed; and, where there is none, the file beside
 * config.json that older tools write. */
int config_packing_parse(struct packing *p, const struct json *root, struct err *e);
int config_packing_load(struct packing *p, const char *dir, struct err *e);

/* The config of a module of its own folder, that stands behind the pooling. */
int config_dense_parse(struct config *c, const struct json *root, const char *folder,
                       struct err *e);
int config_classifier_load(struct config *c, const char *dir, struct err *e);
int config_classifier_parse(struct config *c, const struct json *root, struct err *e);
int config_nomicbert_parse(struct config *c, const struct json *root, struct err *e);
int config_modernbert_parse(struct config *c, const struct json *root, struct err *e);
/* layer_types, where windows are known. */
int config_layer_types_parse(struct config *c, const struct json *list, struct err *e);
int config_layers_parse(struct config *c, const struct json *root, struct err *e);
/* Makers train with the scale of embeddings rounded to the type that their weights have. */
double config_round_scale(const struct config *c, double scale);
int config_scales_parse(struct config *c, const struct json *root, struct err *e);
int config_experts_parse(struct config *c, const struct json *root, struct err *e);
int config_conv_parse(struct config *c, const struct json *root, struct err *e);
int config_scan_parse(struct config *c, const struct json *root, struct err *e);
int config_latent_parse(struct config *c, const struct json *root, struct err *e);
int config_gemma4_parse(struct config *c, const struct json *root, struct err *e);
int config_gemma3n_parse(struct config *c, const struct json *root, struct err *e);
int config_delta_parse(struct config *c, const struct json *root, struct err *e);

#endif
