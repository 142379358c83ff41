/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_config.h. Keys begin with the architecture's name ("qwen2.block_count"). A header
 * without a tensor is the embedding; biases are there where their first tensor is.
 */
#include "engine/load/gguf_config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/attention.h"

#define ROPE_FACTORS "rope_freqs.weight"

enum { KEY_BYTES = 128 };

enum {
    HAS_WINDOW = 1,  /* attention.sliding_window */
    HAS_PARTIAL = 2, /* rope.dimension_count, of a head a part */
    HAS_SHARED = 4,  /* an expert that all rows go to */
    HAS_SUMS = 8,    /* the weights of a row's experts sum to 1 */
    HAS_DELTA = 16,
    HAS_CONV = 32
};

/* Qwen3-Next as the later family, whose products are apart as the file's are. */
static const struct {
    const char *arch, *hf_arch, *hf_type;
    enum gguf_style style;
    unsigned has;
} arch_row[] = {
    {"llama", "LlamaForCausalLM", "llama", GGUF_STYLE_LLAMA, HAS_WINDOW | HAS_SUMS},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", GGUF_STYLE_PLAIN, 0},
    {"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe", GGUF_STYLE_PLAIN, HAS_SHARED},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", GGUF_STYLE_PLAIN, 0},
    {"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", GGUF_STYLE_PLAIN, HAS_SUMS},
    {"olmoe", "OlmoeForCausalLM", "olmoe", GGUF_STYLE_PLAIN, 0},
    {"gpt-oss", "GptOssForCausalLM", "gpt_oss", GGUF_STYLE_ROUTED, HAS_WINDOW | HAS_SUMS},
    {"lfm2", "Lfm2ForCausalLM", "lfm2", GGUF_STYLE_CONV, HAS_CONV},
    {"qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text", GGUF_STYLE_DELTA, HAS_PARTIAL | HAS_DELTA},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", GGUF_STYLE_DELTA,
     HAS_PARTIAL | HAS_DELTA | HAS_SHARED | HAS_SUMS},
    {"qwen3next", "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", GGUF_STYLE_DELTA_JOINED,
     HAS_PARTIAL | HAS_DELTA | HAS_SHARED | HAS_SUMS},
};

/* Whole numbers and fractions with the members that they become. */
static const struct {
    const char *key, *member;
    bool is_fraction;
} number_row[] = {
    {"embedding_length", "hidden_size", false},
    {"feed_forward_length", "intermediate_size", false},
    {"attention.head_count", "num_attention_heads", false},
    {"context_length", "max_position_embeddings", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"attention.layer_norm_rms_epsilon", "norm_eps", true}, /* LFM2's */
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false},
    {"shortconv.l_cache", "conv_L_cache", false},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", false},
    {"rope.freq_base", "rope_theta", true},
    /* config.c refuses these where they are not neutral */
    {"attn_logit_softcapping", "attn_logit_softcapping", true},
    {"final_logit_softcapping", "final_logit_softcapping", true},
    {"attention.clamp_kqv", "clip_qkv", true},
    {"attention.max_alibi_bias", "alibi", true},
    {"attention.scale", "attention_multiplier", true},
    {"embedding_scale", "embedding_multiplier", true},
    {"residual_scale", "residual_multiplier", true},
    {"logit_scale", "logit_scale", true},
};

void gguf_json_str(struct buf *out, const char *p, size_t n)
{
    buf_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\')
            buf_char(out, '\\');
        if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_char(out, (char)c);
    }
    buf_char(out, '"');
}

bool gguf_is_rope_factors(const struct gguf_tensor *t)
{
    return strcmp(t->name, ROPE_FACTORS) == 0;
}

static const char *key_of(char key[KEY_BYTES], const struct gguf_shape *s, const char *name)
{
    snprintf(key, KEY_BYTES, "%s.%s", s->arch, name);
    return key;
}

/* ---- shape --------------------------------------------------------------------------------- */

static int find_arch(struct gguf_shape *s, const struct gguf *g, struct err *e)
{
    const char *name = NULL;
    if (gguf_opt_str(g, "general.architecture", &name, e))
        return -1;
    if (!name)
        return err_set(e, ERR_BAD_INPUT, "%s: general.architecture is missing", g->name);
    for (size_t i = 0; i < sizeof arch_row / sizeof *arch_row; i++)
        if (strcmp(name, arch_row[i].arch) == 0) {
            s->arch = arch_row[i].arch;
            s->hf_arch = arch_row[i].hf_arch;
            s->hf_type = arch_row[i].hf_type;
            s->style = arch_row[i].style;
            s->has = arch_row[i].has;
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: general.architecture: '%.80s' is not supported in GGUF; llama (Mistral's "
                   "and Mixtral's too), qwen2, qwen2moe, qwen3, qwen3moe, olmoe, gpt-oss, lfm2, "
                   "qwen35, qwen35moe and qwen3next are",
                   g->name, name);
}

static int get_int(const struct gguf *g, const struct gguf_shape *s, const char *name, int64_t most,
                   int64_t *out, struct err *e)
{
    char key[KEY_BYTES];
    *out = -1;
    if (gguf_opt_int(g, key_of(key, s, name), out, e))
        return -1;
    if (*out == -1)
        return err_set(e, ERR_BAD_INPUT, "%s: %s is missing", g->name, key);
    if (*out < 1 || *out > most)
        return err_set(e, ERR_BAD_INPUT, "%s: %s: expected 1 to %lld, found %lld", g->name, key,
                       (long long)most, (long long)*out);
    return 0;
}

/* A length that must be that of a head where it is told. */
static int check_d_head(const struct gguf *g, const struct gguf_shape *s, const char *name,
                        struct err *e)
{
    char key[KEY_BYTES];
    int64_t n = s->d_head;
    if (gguf_opt_int(g, key_of(key, s, name), &n, e))
        return -1;
    if (n == s->d_head)
        return 0;
    return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld is not supported; that of a head, %d, is",
                   g->name, key, (long long)n, s->d_head);
}

/* Heads of keys and values of gated delta rules. */
static int read_delta(struct gguf_shape *s, const struct gguf *g, struct err *e)
{
    int64_t width;
    if (!(s->has & HAS_DELTA))
        return 0;
    if (get_int(g, s, "ssm.group_count", 1 << 20, &s->n_k, e) ||
        get_int(g, s, "ssm.time_step_rank", 1 << 20, &s->n_v, e) ||
        get_int(g, s, "ssm.state_size", CONFIG_STATE_HEAD_MAX, &s->d_k, e) ||
        get_int(g, s, "ssm.inner_size", 1 << 20, &width, e))
        return -1;
    if (s->n_v % s->n_k || width % s->n_v)
        return err_set(e, ERR_BAD_INPUT,
                       "%s: %s.ssm: %lld numbers are no %lld heads of values, %lld of them for one "
                       "of keys",
                       g->name, s->arch, (long long)width, (long long)s->n_v,
                       (long long)(s->n_v / s->n_k));
    s->d_v = width / s->n_v;
    return 0;
}

/* How many layers there are; those that guess ahead are counted with them. */
static int read_layers(struct gguf_shape *s, const struct gguf *g, struct err *e)
{
    char key[KEY_BYTES];
    if (get_int(g, s, "block_count", INT32_MAX, &s->n_layer, e) ||
        gguf_opt_int(g, key_of(key, s, "nextn_predict_layers"), &s->n_beyond, e))
        return -1;
    if (s->n_beyond && (!(s->has & HAS_DELTA) || s->n_beyond >= s->n_layer))
        return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld is not supported; 0 is", g->name, key,
                       (long long)s->n_beyond);
    s->n_layer -= s->n_beyond;
    if (s->n_layer <= CONFIG_LAYER_MAX)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "%s: %s.block_count: %lld is not supported; %d is", g->name,
                   s->arch, (long long)s->n_layer, CONFIG_LAYER_MAX);
}

int gguf_shape_read(struct gguf_shape *s, const struct gguf *g, struct err *e)
{
    char key[KEY_BYTES];
    int64_t n_head, width, d = -1;
    *s = (struct gguf_shape){.arch = NULL};
    if (find_arch(s, g, e) || get_int(g, s, "attention.head_count", 1 << 20, &n_head, e) ||
        get_int(g, s, "embedding_length", 1 << 20, &width, e) ||
        gguf_opt_int(g, key_of(key, s, "attention.key_length"), &d, e) ||
        gguf_opt_int(g, key_of(key, s, "expert_count"), &s->n_expert, e))
        return -1;
    if (d == -1 && width % n_head)
        return err_set(e, ERR_BAD_INPUT, "%s: a width of %lld cannot be divided among %lld heads",
                       g->name, (long long)width, (long long)n_head);
    d = d == -1 ? width / n_head : d;
    if (d < 2 || d > K_HEAD_MAX)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: heads of %lld numbers are not supported; 2 to %d are", g->name,
                       (long long)d, K_HEAD_MAX);
    s->n_head = (int32_t)n_head;
    s->d_head = (int32_t)d;
    return check_d_head(g, s, "attention.value_length", e) ||
                   (!(s->has & HAS_PARTIAL) && check_d_head(g, s, "rope.dimension_count", e)) ||
                   read_layers(s, g, e) || read_delta(s, g, e)
               ? -1
               : 0;
}

/* ---- members ------------------------------------------------------------------------------- */

static int put_numbers(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                       struct err *e)
{
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof number_row / sizeof *number_row; i++) {
        int64_t n = -1;
        double x = 0;
        if (!gguf_get(g, key_of(key, s, number_row[i].key)))
            continue;
        if (number_row[i].is_fraction ? gguf_opt_num(g, key, &x, e) : gguf_opt_int(g, key, &n, e))
            return -1;
        if (number_row[i].is_fraction)
            buf_printf(out, ",\"%s\":%.17g", number_row[i].member, x);
        else
            buf_printf(out, ",\"%s\":%lld", number_row[i].member, (long long)n);
    }
    return 0;
}

static bool has_tensor(const struct gguf *g, int64_t layer, const char *rest)
{
    char name[KEY_BYTES];
    snprintf(name, sizeof name, "blk.%lld%s", (long long)layer, rest);
    return gguf_tensor(g, name) != NULL;
}

/* As many in all layers that attend; LFM2's convolutions have none. */
static int get_kv_heads(const struct gguf *g, const struct gguf_shape *s, int64_t *n, struct err *e)
{
    char key[KEY_BYTES];
    const struct gguf_value *v = gguf_get(g, key_of(key, s, "attention.head_count_kv"));
    *n = s->n_head;
    if (!(s->has & HAS_CONV) || !v || v->type != GGUF_ARRAY)
        return gguf_opt_int(g, key, n, e);
    if (gguf_opt_array(g, key, GGUF_I32, &v, e))
        return -1;
    *n = 0;
    for (size_t i = 0; i < v->n; i++) {
        int32_t one = gguf_array_i32(v, i);
        if (one > 0 && *n > 0 && one != *n)
            return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld and %d in one model are not supported",
                           g->name, key, (long long)*n, one);
        *n = one > 0 ? one : *n;
    }
    return *n > 0 ? 0 : err_set(e, ERR_BAD_INPUT, "%s: %s: no layer attends", g->name, key);
}

static int put_kv_heads(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                        struct err *e)
{
    int64_t n;
    if (get_kv_heads(g, s, &n, e))
        return -1;
    buf_printf(out, ",\"num_hidden_layers\":%lld,\"num_key_value_heads\":%lld,\"head_dim\":%d",
               (long long)s->n_layer, (long long)n, s->d_head);
    return 0;
}

/* Which layers attend, by their tensors; what the others do in its place. */
static int put_mixers(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                      struct err *e)
{
    char key[KEY_BYTES];
    int64_t turned = s->d_head;
    if (!(s->has & (HAS_CONV | HAS_DELTA)))
        return 0;
    for (int64_t l = 0; l < s->n_layer; l++)
        buf_printf(out, "%s\"%s\"", l ? "," : ",\"layer_types\":[",
                   has_tensor(g, l, ".attn_q.weight") ? "full_attention"
                   : s->has & HAS_CONV                ? "conv"
                                                      : "linear_attention");
    buf_str(out, "]");
    if (s->has & HAS_CONV)
        buf_str(out, ",\"block_auto_adjust_ff_dim\":false");
    if (!(s->has & HAS_DELTA))
        return 0;
    if (gguf_opt_int(g, key_of(key, s, "rope.dimension_count"), &turned, e))
        return -1;
    buf_printf(out,
               ",\"linear_num_key_heads\":%lld,\"linear_num_value_heads\":%lld,"
               "\"linear_key_head_dim\":%lld,\"linear_value_head_dim\":%lld,"
               "\"partial_rotary_factor\":%.17g",
               (long long)s->n_k, (long long)s->n_v, (long long)s->d_k, (long long)s->d_v,
               (double)turned / s->d_head);
    return 0;
}

/* What would make vectors of texts of it, or others see ahead. */
static int check_use(const struct gguf *g, const struct gguf_shape *s, struct err *e)
{
    char key[KEY_BYTES];
    int64_t pooling = 0;
    bool is_causal = true;
    if (gguf_opt_int(g, key_of(key, s, "pooling_type"), &pooling, e))
        return -1;
    if (pooling > 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s: %lld: models of vectors are not supported in GGUF; their "
                       "directories are",
                       g->name, key, (long long)pooling);
    if (gguf_opt_bool(g, key_of(key, s, "attention.causal"), &is_causal, e))
        return -1;
    return is_causal ? 0
                     : err_set(e, ERR_UNSUPPORTED, "%s: %s: false is not supported; true is",
                               g->name, key);
}

/* Few files say so; the architecture does where they don't. 0 is no scale. */
static int check_weights(const struct gguf *g, const struct gguf_shape *s, struct err *e)
{
    char key[KEY_BYTES];
    bool own = s->has & HAS_SUMS, sums = own;
    double scale = 1;
    if (gguf_opt_bool(g, key_of(key, s, "expert_weights_norm"), &sums, e))
        return -1;
    if (sums != own)
        return err_set(e, ERR_UNSUPPORTED, "%s: %s: %s is not supported; %s is", g->name, key,
                       sums ? "true" : "false", own ? "true" : "false");
    if (gguf_opt_num(g, key_of(key, s, "expert_weights_scale"), &scale, e))
        return -1;
    return scale == 0 || scale == 1
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "%s: %s: %g is not supported; 1 is", g->name, key,
                         scale);
}

/* How experts are weighed: by a softmax; gpt-oss' by one over those that were picked, which is the
 * same as a share of their sum. */
static int check_gating(const struct gguf *g, const struct gguf_shape *s, struct err *e)
{
    char key[KEY_BYTES];
    int64_t kind = 1, own = s->style == GGUF_STYLE_ROUTED ? 3 : 1;
    if (gguf_opt_int(g, key_of(key, s, "expert_gating_func"), &kind, e))
        return -1;
    if (kind == 1 || kind == own)
        return check_weights(g, s, e);
    return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld is not supported; %lld is", g->name, key,
                   (long long)kind, (long long)own);
}

/* Layers without experts have no router. */
static void put_plain(const struct gguf *g, const struct gguf_shape *s, struct buf *out)
{
    const char *before = ",\"mlp_only_layers\":[";
    for (int64_t l = 0; l < s->n_layer; l++) {
        if (has_tensor(g, l, ".ffn_gate_inp.weight"))
            continue;
        buf_printf(out, "%s%lld", before, (long long)l);
        before = ",";
    }
    if (before[1] == '\0')
        buf_char(out, ']');
}

/* What a mixture's row is weighed by is no key: Qwen3's weights of a row's experts sum to 1,
 * OLMoE's don't. Layers before the mixtures that have none are not known here. */
static int put_experts(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                       struct err *e)
{
    static const char *const strange[] = {"expert_shared_count", "leading_dense_block_count",
                                          "expert_group_count"};
    char key[KEY_BYTES];
    int64_t top, width;
    if (gguf_get(g, key_of(key, s, "expert_count")))
        buf_printf(out, ",\"num_experts\":%lld", (long long)s->n_expert);
    if (s->n_expert == 0)
        return 0;
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        int64_t m = 0;
        if (gguf_opt_int(g, key_of(key, s, strange[i]), &m, e))
            return -1;
        if (m > (i == 0 && s->has & HAS_SHARED))
            return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld is not supported; 0 is", g->name, key,
                           (long long)m);
    }
    if (check_gating(g, s, e) || get_int(g, s, "expert_used_count", CONFIG_EXPERT_MAX, &top, e) ||
        get_int(g, s,
                gguf_get(g, key_of(key, s, "expert_feed_forward_length"))
                    ? "expert_feed_forward_length"
                    : "feed_forward_length",
                1 << 20, &width, e))
        return -1;
    buf_printf(out,
               ",\"num_local_experts\":%lld,\"num_experts_per_tok\":%lld,"
               "\"moe_intermediate_size\":%lld,\"norm_topk_prob\":%s",
               (long long)s->n_expert, (long long)top, (long long)width,
               s->has & HAS_SUMS ? "true" : "false");
    put_plain(g, s, out);
    return 0;
}

/* Llama with a window is what Mistral is, and with experts Mixtral. */
static int put_family(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                      struct err *e)
{
    char key[KEY_BYTES];
    int64_t window = 0;
    if (gguf_opt_int(g, key_of(key, s, "attention.sliding_window"), &window, e))
        return -1;
    if (window > 0 && !(s->has & HAS_WINDOW))
        return err_set(e, ERR_UNSUPPORTED, "%s: %s: %lld is not supported; 0 is", g->name, key,
                       (long long)window);
    bool is_llama = s->style == GGUF_STYLE_LLAMA,
         is_mistral = is_llama && window > 0 && s->n_expert == 0,
         is_mixtral = is_llama && s->n_expert > 0;
    buf_printf(out, "{\"architectures\":[\"%s\"],\"model_type\":\"%s\"",
               is_mistral   ? "MistralForCausalLM"
               : is_mixtral ? "MixtralForCausalLM"
                            : s->hf_arch,
               is_mistral   ? "mistral"
               : is_mixtral ? "mixtral"
                            : s->hf_type);
    if (window > 0)
        buf_printf(out, ",\"sliding_window\":%lld", (long long)window);
    return 0;
}

static int put_vocab(const struct gguf *g, struct buf *out, struct err *e)
{
    const struct gguf_tensor *t = gguf_tensor(g, "token_embd.weight");
    const struct gguf_value *tokens;
    if (!t || t->rank != 2)
        return err_set(e, ERR_BAD_INPUT,
                       "%s: the tensor token_embd.weight is missing, or no matrix", g->name);
    if (gguf_opt_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, e))
        return -1;
    if (tokens && tokens->n > (uint64_t)t->dim[0])
        return err_set(e, ERR_BAD_INPUT, "%s: %zu tokens, but token_embd.weight has %lld rows",
                       g->name, tokens->n, (long long)t->dim[0]);
    buf_printf(out, ",\"vocab_size\":%lld,\"tie_word_embeddings\":%s", (long long)t->dim[0],
               gguf_tensor(g, "output.weight") ? "false" : "true");
    buf_printf(out, ",\"attention_bias\":%s,\"mlp_bias\":%s",
               gguf_tensor(g, "blk.0.attn_output.bias") ? "true" : "false",
               gguf_tensor(g, "blk.0.ffn_gate.bias") ? "true" : "false");
    return 0;
}

/* ---- rotary positions ---------------------------------------------------------------------- */

/* Frequencies divided by factors, one for each pair: Llama 3's, computed by who wrote the file. */
static int put_factors(const struct gguf *g, const struct gguf_shape *s,
                       const struct gguf_tensor *t, struct buf *out, struct err *e)
{
    float x[CONFIG_ROPE_FACTOR_MAX];
    int n = s->d_head / 2;
    if (t->rank != 1 || t->dim[0] != n || strcmp(t->type->name, "F32") != 0)
        return err_set(e, ERR_BAD_INPUT, "%s: " ROPE_FACTORS ": expected %d numbers of kind F32",
                       g->name, n);
    if (gguf_read(t, 0, x, (size_t)n * sizeof *x, e))
        return -1;
    buf_str(out, ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"attention_factor\":1");
    for (int list = 0; list < 2; list++) {
        buf_printf(out, ",\"%s\":[", list ? "long_factor" : "short_factor");
        for (int i = 0; i < n; i++) {
            if (!(x[i] - x[i] == 0))
                return err_set(e, ERR_BAD_INPUT, "%s: " ROPE_FACTORS ": number %d is not finite",
                               g->name, i);
            buf_printf(out, "%s%.9g", i ? "," : "", (double)x[i]);
        }
        buf_char(out, ']');
    }
    buf_char(out, '}');
    return 0;
}

static int opt_rope(const struct gguf *g, const struct gguf_shape *s, const char *name,
                    const char *member, struct buf *out, struct err *e)
{
    char key[KEY_BYTES];
    double x;
    if (!gguf_get(g, key_of(key, s, name)))
        return 0;
    if (gguf_opt_num(g, key, &x, e))
        return -1;
    buf_printf(out, ",\"%s\":%.17g", member, x);
    return 0;
}

/* What nothing here implements must be absent, or change nothing. */
static int refuse_unless_one(const struct gguf *g, const struct gguf_shape *s, const char *name,
                             struct err *e)
{
    char key[KEY_BYTES];
    double x = 1;
    if (gguf_opt_num(g, key_of(key, s, name), &x, e))
        return -1;
    return x == 1
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "%s: %s: %g is not supported; 1 is", g->name, key, x);
}

static int put_scaling(const struct gguf *g, const struct gguf_shape *s, struct buf *out,
                       struct err *e)
{
    char key[KEY_BYTES];
    const struct gguf_tensor *factors = gguf_tensor(g, ROPE_FACTORS);
    const char *type = "none";
    int64_t old = -1;
    if (gguf_opt_str(g, key_of(key, s, "rope.scaling.type"), &type, e) ||
        gguf_opt_int(g, key_of(key, s, "rope.scaling.original_context_length"), &old, e) ||
        refuse_unless_one(g, s, "rope.scaling.attn_factor", e) ||
        refuse_unless_one(g, s, "rope.scale_linear", e))
        return -1;
    if (factors && strcmp(type, "none") == 0)
        return put_factors(g, s, factors, out, e);
    if (factors)
        return err_set(e, ERR_UNSUPPORTED, "%s: " ROPE_FACTORS " beside a scaling of positions",
                       g->name);
    if (strcmp(type, "none") == 0)
        return 0;
    if (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s.rope.scaling.type: '%.40s' is not supported; none, linear and yarn "
                       "are",
                       g->name, s->arch, type);
    buf_printf(out, ",\"rope_scaling\":{\"rope_type\":\"%s\"", type);
    if (old > 0)
        buf_printf(out, ",\"original_max_position_embeddings\":%lld", (long long)old);
    if (s->style == GGUF_STYLE_ROUTED) /* gpt-oss' bounds are no whole numbers */
        buf_str(out, ",\"truncate\":false");
    if (opt_rope(g, s, "rope.scaling.factor", "factor", out, e) ||
        opt_rope(g, s, "rope.scaling.yarn_beta_fast", "beta_fast", out, e) ||
        opt_rope(g, s, "rope.scaling.yarn_beta_slow", "beta_slow", out, e))
        return -1;
    buf_char(out, '}');
    return 0;
}

/* ---- ids ----------------------------------------------------------------------------------- */

static int put_ids(const struct gguf *g, struct buf *out, struct err *e)
{
    static const char *const end[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};
    int64_t id = -1, seen[3];
    int n = 0;
    if (gguf_opt_int(g, "tokenizer.ggml.bos_token_id", &id, e))
        return -1;
    buf_printf(out, ",\"bos_token_id\":%lld", (long long)id);
    id = -1;
    if (gguf_opt_int(g, "tokenizer.ggml.padding_token_id", &id, e))
        return -1;
    buf_printf(out, ",\"pad_token_id\":%lld,\"eos_token_id\":[", (long long)id);
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        bool is_new = true;
        id = -1;
        if (gguf_opt_int(g, end[i], &id, e))
            return -1;
        for (int k = 0; k < n; k++)
            is_new = is_new && seen[k] != id;
        if (id < 0 || !is_new)
            continue;
        buf_printf(out, "%s%lld", n ? "," : "", (long long)id);
        seen[n++] = id;
    }
    buf_str(out, "]");
    return 0;
}

int gguf_config_text(const struct gguf *g, struct buf *out, struct err *e)
{
    struct gguf_shape s;
    if (gguf_shape_read(&s, g, e) || check_use(g, &s, e) || put_family(g, &s, out, e) ||
        put_numbers(g, &s, out, e) || put_kv_heads(g, &s, out, e) || put_mixers(g, &s, out, e) ||
        put_experts(g, &s, out, e) || put_vocab(g, out, e) || put_scaling(g, &s, out, e) ||
        put_ids(g, out, e))
        return -1;
    buf_str(out, "}");
    return buf_check(out, g->name, e);
}
