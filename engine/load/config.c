/* SPDX-License-Identifier: Apache-2.0
 *
 * See config.h. One function per group of families reads what is theirs; the defaults are those
 * of the classes that wrote the files.
 */
#include "engine/load/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "engine/load/path.h"
#include "kernels/attention.h"

typedef int parse_fn(struct config *c, const struct json *root, struct err *e);

static parse_fn parse_llama, parse_hybrid, parse_granite_hybrid, parse_lfm2, parse_gemma4,
    parse_gpt2, parse_bert;

static int parse_latent(struct config *c, const struct json *root, struct err *e)
{
    return config_latent_parse(c, root, e);
}

static int parse_modernbert(struct config *c, const struct json *root, struct err *e)
{
    return config_modernbert_parse(c, root, e);
}

static int parse_nomicbert(struct config *c, const struct json *root, struct err *e)
{
    return config_nomicbert_parse(c, root, e);
}

static const struct {
    parse_fn *parse;
    struct config_traits traits;
} family_row[FAMILY_COUNT] = {
#define FAMILY(name, type, arch, body, ...) {parse_##body, {__VA_ARGS__}},
#include "engine/load/family.def"
#undef FAMILY
};

const struct config_traits *config_traits_of(const struct config *c)
{
    return &family_row[c->family].traits;
}

/* The names under which files call the activations that there are. */
static const struct {
    const char *name;
    enum config_act act;
} act_row[] = {
    {"silu", ACT_SILU},          {"swish", ACT_SILU},          {"gelu", ACT_GELU},
    {"gelu_new", ACT_GELU_TANH}, {"gelu_fast", ACT_GELU_TANH}, {"gelu_pytorch_tanh", ACT_GELU_TANH},
};

/* Fields that would change the arithmetic of a model whose family does not obey them. At `neutral`,
 * or absent, or null, they change nothing. */
static const struct {
    const char *key;
    double neutral;
    unsigned obeyed; /* by families that have one of these traits */
} foreign[] = {
    {"activation_sparsity_pattern", 0, OBEYS_TRACKS},
    {"add_cross_attention", 0, 0},
    {"alibi", 0, 0},
    {"altup_num_inputs", 0, OBEYS_TRACKS},
    {"attention_multiplier", 1, OBEYS_MULTIPLIERS},
    {"attention_k_eq_v", 0, OBEYS_GEMMA4},
    {"attn_logit_softcapping", 0, OBEYS_CAPS},
    {"clip_qkv", 0, 0},
    {"conv_L_cache", 0, OBEYS_CONV},
    {"embedding_multiplier", 1, OBEYS_MULTIPLIERS},
    {"enable_moe_block", 0, OBEYS_GEMMA4},
    {"final_logit_softcapping", 0, OBEYS_CAPS | OBEYS_GEMMA4 | OBEYS_TRACKS},
    {"global_head_dim", 0, OBEYS_GEMMA4},
    {"hidden_size_per_layer_input", 0, OBEYS_GEMMA4 | OBEYS_TRACKS},
    {"index_topk", 0, 0},
    {"is_encoder_decoder", 0, 0},
    {"lm_head_bias", 0, 0},
    {"mamba_n_heads", 0, OBEYS_SCAN},
    {"kv_lora_rank", 0, OBEYS_LATENT},
    {"laurel_rank", 0, OBEYS_TRACKS},
    {"linear_num_value_heads", 0, OBEYS_DELTA},
    {"logit_scale", 1, 0},
    {"logits_scaling", 1, OBEYS_MULTIPLIERS},
    {"moe_intermediate_size", 0, OBEYS_EXPERTS},
    {"moe_layer_freq", 1, 0},
    {"n_routed_experts", 0, OBEYS_LATENT},
    {"n_shared_experts", 0, OBEYS_LATENT},
    {"no_rope_layers", 0, OBEYS_NO_ROPE},
    {"num_experts", 0, OBEYS_EXPERTS},
    {"num_global_key_value_heads", 0, OBEYS_GEMMA4},
    {"num_kv_shared_layers", 0, OBEYS_GEMMA4 | OBEYS_TRACKS},
    {"num_local_experts", 0, OBEYS_EXPERTS},
    {"parallel_attn", 0, 0},
    {"per_layer_config", 0, OBEYS_GEMMA4},
    {"qk_layernorm", 0, 0},
    {"query_pre_attn_scalar", 0, OBEYS_QUERY_SCALE},
    {"residual_multiplier", 1, OBEYS_MULTIPLIERS},
    {"rope_local_base_freq", 0, OBEYS_LOCAL_ROPE},
    {"router_jitter_noise", 0, 0},
    {"shared_intermediate_size", 0, OBEYS_SCAN},
    {"shared_expert_intermediate_size", 0, OBEYS_SHARED},
    {"swiglu_alpha", 0, OBEYS_CLAMP},
    {"swiglu_limit", 0, OBEYS_CLAMP},
    {"top_k_experts", 0, OBEYS_GEMMA4},
    {"use_bidirectional_attention", 0, OBEYS_BOTH_WAYS | OBEYS_GEMMA4},
    {"use_double_wide_mlp", 0, OBEYS_GEMMA4},
};

const char *config_act_name(enum config_act a)
{
    static const char *const name[] = {"silu", "gelu", "gelu_tanh"};
    return name[a];
}

static int refuse_foreign(const struct config *c, const struct json *root, struct err *e)
{
    unsigned obeys = config_traits_of(c)->obeys;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        struct json m = json_member(root, foreign[i].key);
        double num;
        bool flag;
        if (json_absent(&m) || (foreign[i].obeyed & obeys))
            continue;
        if (json_is(&m, JSON_BOOL) && json_as_bool(&m, &flag, e) == 0 &&
            flag == (foreign[i].neutral != 0))
            continue;
        if (json_is(&m, JSON_NUMBER) && json_as_num(&m, &num, e) == 0 && num == foreign[i].neutral)
            continue;
        if (json_is(&m, JSON_NUMBER))
            return json_err(&m, e, ERR_UNSUPPORTED, "%g is not supported; %g is", num,
                            foreign[i].neutral);
        return json_err(&m, e, ERR_UNSUPPORTED, "is not supported with this value");
    }
    return 0;
}

int config_act_parse(struct config *c, const struct json *root, const char *key, struct err *e)
{
    struct json m = json_member(root, key);
    const char *name;
    bool wants_silu = c->is_gated && config_traits_of(c)->act == ACT_SILU;
    if (json_absent(&m))
        return 0;
    if (json_as_str(&m, &name, e))
        return -1;
    for (size_t i = 0; i < sizeof act_row / sizeof act_row[0]; i++) {
        if (strcmp(name, act_row[i].name) != 0 || wants_silu != (act_row[i].act == ACT_SILU))
            continue;
        c->act = act_row[i].act;
        return 0;
    }
    return json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; %s", name,
                    wants_silu ? "silu is" : "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh are");
}

int config_eps_parse(struct config *c, const struct json *root, const char *key, struct err *e)
{
    struct json m = json_member(root, key);
    if (json_opt_num(root, key, &c->norm_eps, e))
        return -1;
    if (!(c->norm_eps >= 0 && c->norm_eps < 1))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number from 0 to 1, found %g",
                        c->norm_eps);
    return 0;
}

/* A whole number from 1 to `hi` that must be there. */
static int get_count(const struct json *v, const char *key, int64_t hi, int32_t *out, struct err *e)
{
    int64_t n;
    if (json_get_int(v, key, 1, hi, &n, e))
        return -1;
    *out = (int32_t)n;
    return 0;
}

int config_count_opt(const struct json *v, const char *key, int64_t hi, int32_t *out, struct err *e)
{
    int64_t n = *out;
    if (json_opt_int(v, key, 1, hi, &n, e))
        return -1;
    *out = (int32_t)n;
    return 0;
}

/* -1 is how some files say none. */
int config_id_opt(const struct json *v, const char *key, int32_t *id, struct err *e)
{
    int64_t n = *id;
    if (json_opt_int(v, key, -1, INT32_MAX, &n, e))
        return -1;
    *id = (int32_t)n;
    return 0;
}

/* eos_token_id: an id, or a list of them. */
int config_eos_opt(const struct json *v, int32_t *eos, int32_t *n_eos, struct err *e)
{
    struct json m = json_member(v, "eos_token_id"), one;
    int64_t id;
    if (json_absent(&m))
        return 0;
    *n_eos = 0;
    if (!json_is(&m, JSON_ARRAY)) {
        if (config_id_opt(v, "eos_token_id", eos, e))
            return -1;
        *n_eos = eos[0] >= 0;
        return 0;
    }
    json_each(one, m)
    {
        if (json_as_int(&one, 0, INT32_MAX, &id, e))
            return -1;
        if (*n_eos == CONFIG_EOS_MAX)
            return json_err(&m, e, ERR_TOO_LARGE, "more than %d ids", CONFIG_EOS_MAX);
        eos[(*n_eos)++] = (int32_t)id;
    }
    return 0;
}

_Static_assert(K_HEAD_MAX <= 2 * CONFIG_ROPE_FACTOR_MAX, "room for the factors of a head");

/* The width must split among the heads where the head's own is not told. */
int config_split_width(struct config *c, const struct json *root, const char *key, struct err *e)
{
    if (c->d_model % c->n_head)
        return json_err(root, e, ERR_BAD_INPUT, "%s: %lld cannot be divided among %d heads", key,
                        (long long)c->d_model, c->n_head);
    int64_t d = c->d_model / c->n_head;
    if (d < 2 || d > K_HEAD_MAX)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "%s: heads of %lld numbers are not supported; 2 to %d are", key,
                        (long long)d, K_HEAD_MAX);
    c->d_head = (int32_t)d;
    return 0;
}

static int parse_heads(struct config *c, const struct json *root, struct err *e)
{
    struct json kv = json_member(root, "num_key_value_heads"), dim = json_member(root, "head_dim");
    int32_t absent = c->is_wrapped ? config_traits_of(c)->sizes.n_kv_head : 0;
    c->n_kv_head = absent ? absent : c->n_head;
    if (!kv.node && !absent && !config_traits_of(c)->may_omit_kv_heads)
        return json_err(root, e, ERR_BAD_INPUT, "num_key_value_heads is missing");
    if (config_count_opt(root, "num_key_value_heads", c->n_head, &c->n_kv_head, e))
        return -1;
    if (c->n_head % c->n_kv_head)
        return json_err(root, e, ERR_BAD_INPUT, "num_key_value_heads: %d heads cannot share %d",
                        c->n_head, c->n_kv_head);
    if (!json_absent(&dim))
        return get_count(root, "head_dim", K_HEAD_MAX, &c->d_head, e);
    c->d_head = config_traits_of(c)->d_head;
    return c->d_head ? 0 : config_split_width(c, root, "hidden_size", e);
}

/* A whole number from 1 to `hi`; where it is absent, what a class has that leaves it out (0: it
 * must be there). */
static int get_size(const struct json *v, const char *key, int64_t absent, int64_t hi, int64_t *out,
                    struct err *e)
{
    *out = absent;
    return absent ? json_opt_int(v, key, 1, hi, out, e) : json_get_int(v, key, 1, hi, out, e);
}

/* A width for each layer, where a family's files may say so; d_ff is the largest. */
static int parse_widths(struct config *c, const struct json *list, struct err *e)
{
    struct json m;
    int64_t l = 0, n;
    if (json_count(list) != (size_t)c->n_layer)
        return json_err(list, e, ERR_BAD_INPUT, "expected one for each of %lld layers, found %zu",
                        (long long)c->n_layer, json_count(list));
    c->d_ff = 0;
    json_each(m, *list)
    {
        if (json_as_int(&m, 1, CONFIG_WIDTH_MAX, &n, e))
            return -1;
        c->own_d_ff[l++] = (int32_t)n;
        c->d_ff = n > c->d_ff ? n : c->d_ff;
    }
    return 0;
}

static int get_width(struct config *c, const struct json *root, const char *key, int64_t absent,
                     struct err *e)
{
    struct json m = json_member(root, key);
    bool may_list = config_traits_of(c)->obeys & OBEYS_TRACKS;
    return may_list && json_is(&m, JSON_ARRAY)
               ? parse_widths(c, &m, e)
               : get_size(root, key, absent, CONFIG_WIDTH_MAX, &c->d_ff, e);
}

/* As most families name them. */
int config_sizes_parse(struct config *c, const struct json *root, struct err *e)
{
    const char *alias = config_traits_of(c)->ff_alias, *ff = "intermediate_size";
    struct config_sizes s = {0};
    int64_t n_head;
    if (alias && json_member(root, alias).node)
        ff = alias;
    if (c->is_wrapped)
        s = config_traits_of(c)->sizes;
    s.d_ff = s.d_ff ? s.d_ff : config_traits_of(c)->d_ff;
    if (get_size(root, "vocab_size", s.n_vocab, CONFIG_VOCAB_MAX, &c->n_vocab, e) ||
        get_size(root, "hidden_size", s.d_model, CONFIG_WIDTH_MAX, &c->d_model, e) ||
        get_size(root, "num_hidden_layers", s.n_layer, CONFIG_LAYER_MAX, &c->n_layer, e) ||
        get_width(c, root, ff, s.d_ff, e) ||
        get_size(root, "num_attention_heads", s.n_head, CONFIG_WIDTH_MAX, &n_head, e) ||
        get_size(root, "max_position_embeddings", s.max_pos, CONFIG_CTX_MAX, &c->max_pos, e))
        return -1;
    c->n_head = (int32_t)n_head;
    return 0;
}

/* Llama, Mistral, Mixtral, Qwen, OLMo 2, OLMoE, SmolLM3, Granite, Gemma, Phi-3, gpt-oss. */
static int parse_llama(struct config *c, const struct json *root, struct err *e)
{
    const struct config_traits *t = config_traits_of(c);
    bool attn_bias = t->has_attn_bias, mlp_bias = false, qkv_bias = t->has_qkv_bias;
    c->norm_eps = t->norm_eps > 0 ? t->norm_eps : 1e-6, c->act = t->act;
    c->has_rope = c->is_gated = true;
    c->norm_plus_one = t->norm_plus_one, c->is_joined = t->is_joined;
    c->norms = t->norms, c->qk_norm = t->qk_norm, c->is_tied = t->is_tied;
    if (config_sizes_parse(c, root, e) ||
        json_opt_bool(root, "tie_word_embeddings", &c->is_tied, e) ||
        json_opt_bool(root, "mlp_bias", &mlp_bias, e) ||
        json_opt_bool(root, "attention_bias", &attn_bias, e) ||
        (t->reads_qkv_bias && json_opt_bool(root, "qkv_bias", &qkv_bias, e)) ||
        parse_heads(c, root, e) ||
        config_eps_parse(c, root, t->eps_key ? t->eps_key : "rms_norm_eps", e) ||
        config_act_parse(c, root, t->act_key ? t->act_key : "hidden_act", e) ||
        config_layers_parse(c, root, e) ||
        ((t->obeys & OBEYS_GEMMA4) && config_gemma4_parse(c, root, e)) ||
        ((t->obeys & OBEYS_TRACKS) && config_gemma3n_parse(c, root, e)) ||
        config_scales_parse(c, root, e) || config_experts_parse(c, root, e) ||
        config_rope_parse(c, root, e))
        return -1;
    c->has_o_bias = attn_bias && t->reads_attn_bias;
    c->has_qkv_bias = c->has_o_bias || qkv_bias;
    c->has_mlp_bias = mlp_bias && t->reads_mlp_bias;
    return 0;
}

/* Qwen3-Next, Qwen3.5: as others, but for layers with a delta rule. */
static int parse_hybrid(struct config *c, const struct json *root, struct err *e)
{
    return parse_llama(c, root, e) || config_delta_parse(c, root, e) ? -1 : 0;
}

/* Granite 4: as Granite 3, but for layers with a scan, and what stands beside its experts. */
static int parse_granite_hybrid(struct config *c, const struct json *root, struct err *e)
{
    return parse_llama(c, root, e) || config_scan_parse(c, root, e) ? -1 : 0;
}

static int parse_gemma4(struct config *c, const struct json *root, struct err *e)
{
    return parse_llama(c, root, e);
}

static int parse_lfm2(struct config *c, const struct json *root, struct err *e)
{
    return parse_llama(c, root, e) || config_conv_parse(c, root, e) ? -1 : 0;
}

static int parse_gpt2(struct config *c, const struct json *root, struct err *e)
{
    c->norm_eps = 1e-5, c->act = ACT_GELU_TANH, c->is_tied = true;
    c->has_qkv_bias = c->has_o_bias = c->has_mlp_bias = true;
    if (json_get_int(root, "vocab_size", 1, CONFIG_VOCAB_MAX, &c->n_vocab, e) ||
        json_get_int(root, "n_embd", 1, CONFIG_WIDTH_MAX, &c->d_model, e) ||
        json_get_int(root, "n_layer", 1, CONFIG_LAYER_MAX, &c->n_layer, e) ||
        get_count(root, "n_head", CONFIG_WIDTH_MAX, &c->n_head, e) ||
        json_get_int(root, "n_positions", 1, CONFIG_CTX_MAX, &c->max_pos, e) ||
        json_opt_bool(root, "tie_word_embeddings", &c->is_tied, e) ||
        json_opt_bool(root, "scale_attn_weights", &c->scales_attn, e) ||
        json_opt_bool(root, "scale_attn_by_inverse_layer_idx", &c->scales_attn_by_layer, e) ||
        config_split_width(c, root, "n_embd", e) ||
        config_eps_parse(c, root, "layer_norm_epsilon", e) ||
        config_act_parse(c, root, "activation_function", e))
        return -1;
    c->d_ff = 4 * c->d_model;
    c->n_kv_head = c->n_head;
    return json_opt_int(root, "n_inner", 1, CONFIG_WIDTH_MAX, &c->d_ff, e);
}

/* Positions count from behind the padding's id, whose row and those before it nobody has. */
static int begin_positions(struct config *c, const struct json *root, struct err *e)
{
    c->pad = c->pad < 0 ? 1 : c->pad;
    if (c->pad + 1 >= c->max_pos)
        return json_err(root, e, ERR_BAD_INPUT,
                        "max_position_embeddings: %lld rows leave none behind pad_token_id, %d",
                        (long long)c->max_pos, c->pad);
    c->pos_from = c->pad + 1;
    c->max_pos -= c->pos_from;
    return 0;
}

static int parse_bert(struct config *c, const struct json *root, struct err *e)
{
    const char *position = "absolute";
    bool is_decoder = false;
    c->norm_eps = 1e-12, c->act = ACT_GELU, c->n_segment = 2, c->pool = POOL_MEAN;
    c->is_encoder = c->sees_ahead = true, c->norms = NORMS_SUM;
    c->has_qkv_bias = c->has_o_bias = c->has_mlp_bias = true;
    if (config_sizes_parse(c, root, e) ||
        config_count_opt(root, "type_vocab_size", CONFIG_VOCAB_MAX, &c->n_segment, e) ||
        json_opt_str(root, "position_embedding_type", &position, e) ||
        json_opt_bool(root, "is_decoder", &is_decoder, e) ||
        config_split_width(c, root, "hidden_size", e) ||
        config_eps_parse(c, root, "layer_norm_eps", e) ||
        config_act_parse(c, root, "hidden_act", e))
        return -1;
    c->n_kv_head = c->n_head;
    if (config_traits_of(c)->pos_behind_pad && begin_positions(c, root, e))
        return -1;
    if (is_decoder)
        return json_err(root, e, ERR_UNSUPPORTED, "is_decoder: true is not supported for encoders");
    if (strcmp(position, "absolute") != 0)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "position_embedding_type: '%.40s' is not supported; absolute is", position);
    return 0;
}

/* What both a model around a text model and its text_config may say: the outer one rules. */
static int parse_shared(struct config *c, const struct json *v, struct err *e)
{
    const char *type = c->is_bf16 ? "bfloat16" : "";
    if (config_id_opt(v, "bos_token_id", &c->bos, e) ||
        config_id_opt(v, "pad_token_id", &c->pad, e) || config_eos_opt(v, c->eos, &c->n_eos, e) ||
        json_opt_str(v, "torch_dtype", &type, e) || json_opt_str(v, "dtype", &type, e))
        return -1;
    c->is_bf16 = strcmp(type, "bfloat16") == 0;
    return 0;
}

static int parse_root(struct config *c, const struct json *root, struct err *e)
{
    struct json text;
    *c = (struct config){.bos = -1,
                         .pad = -1,
                         .scales_attn = true,
                         .embed_scale = 1,
                         .residual_scale = 1,
                         .route_scale = 1,
                         .logit_scale = 1};
    if (json_want(root, JSON_OBJECT, e) || config_family_find(c, root, &text, e) ||
        refuse_foreign(c, root, e) || config_packing_parse(&c->packing, root, e) ||
        parse_shared(c, &text, e))
        return -1;
    if (c->is_wrapped && (refuse_foreign(c, &text, e) ||
                          config_packing_parse(&c->packing, &text, e) || parse_shared(c, root, e)))
        return -1;
    if (family_row[c->family].parse(c, &text, e) ||
        (c->is_wrapped && config_outer_tie_parse(c, root, e)))
        return -1;
    if (c->sees_ahead && !c->is_encoder)
        return json_err(root, e, ERR_UNSUPPORTED,
                        "use_bidirectional_attention: true is not supported in a model that writes "
                        "text; it is in one of vectors");
    return c->classifier ? config_classifier_parse(c, root, e) : 0;
}

static int parse_doc(struct config *c, struct json_doc *doc, struct err *e)
{
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = parse_root(c, &root, e);
    json_free(doc);
    return rc;
}

int config_parse(struct config *c, const char *text, size_t len, const char *name, struct err *e)
{
    return parse_doc(c, json_parse(text, len, name, &json_rules_config, e), e);
}

int config_load(struct config *c, const char *dir, struct err *e)
{
    char *path = path_join(dir, "config.json");
    int rc = parse_doc(c, json_read(path, "config.json", &json_rules_config, e), e);
    free(path);
    if (rc == 0 && c->packing.method == PACKING_NONE)
        rc = config_packing_load(&c->packing, dir, e);
    if (rc == 0 && c->classifier)
        rc = config_classifier_load(c, dir, e);
    else if (rc == 0 && (c->is_encoder || path_exists(dir, "modules.json")))
        rc = config_pooling_load(c, dir, e);
    if (rc == 0 && c->is_encoder && c->n_kv_shared)
        return err_set(e, ERR_UNSUPPORTED, "modules.json: vectors of %s are not supported",
                       config_family_name(c->family));
    return rc;
}
