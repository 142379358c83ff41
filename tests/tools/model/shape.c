/* SPDX-License-Identifier: Apache-2.0
 *
 * Options to config.json. The text is read back by the loader, so that what is written is what the
 * engine will understand.
 */
#include <string.h>

#include "tests/tools/model/model.h"

/* Shapes of real models. */
static const struct {
    const char *name;
    struct shape s;
} preset[] = {
    {"tiny",
     {.family = "llama",
      .n_vocab = 320,
      .d_model = 64,
      .d_ff = 160,
      .n_layer = 2,
      .n_head = 4,
      .n_kv_head = 2,
      .max_pos = 512,
      .theta = 1e4,
      .is_tied = true}},
    {"stories-15m",
     {.family = "llama",
      .n_vocab = 32000,
      .d_model = 288,
      .d_ff = 768,
      .n_layer = 6,
      .n_head = 6,
      .n_kv_head = 6,
      .max_pos = 256,
      .theta = 1e4,
      .is_tied = true}},
    {"smollm-135m",
     {.family = "llama",
      .n_vocab = 49152,
      .d_model = 576,
      .d_ff = 1536,
      .n_layer = 30,
      .n_head = 9,
      .n_kv_head = 3,
      .max_pos = 8192,
      .theta = 1e5,
      .is_tied = true}},
    {"qwen2-0.5b",
     {.family = "qwen2",
      .n_vocab = 151936,
      .d_model = 896,
      .d_ff = 4864,
      .n_layer = 24,
      .n_head = 14,
      .n_kv_head = 2,
      .max_pos = 32768,
      .theta = 1e6,
      .is_tied = true}},
    {"llama-1.2b",
     {.family = "llama",
      .n_vocab = 128256,
      .d_model = 2048,
      .d_ff = 8192,
      .n_layer = 16,
      .n_head = 32,
      .n_kv_head = 8,
      .max_pos = 131072,
      .theta = 5e5,
      .is_tied = true,
      .rope = "llama3"}},
    {"gpt2-124m",
     {.family = "gpt2",
      .n_vocab = 50257,
      .d_model = 768,
      .d_ff = 3072,
      .n_layer = 12,
      .n_head = 12,
      .n_kv_head = 12,
      .max_pos = 1024,
      .is_tied = true}},
    {"minilm-22m",
     {.family = "bert",
      .n_vocab = 30522,
      .d_model = 384,
      .d_ff = 1536,
      .n_layer = 6,
      .n_head = 12,
      .n_kv_head = 12,
      .max_pos = 512}},
};

static int64_t first(int64_t asked, int64_t preset_value)
{
    return asked ? asked : preset_value;
}

/* What is asked for, over the preset. */
static struct shape fill(const struct shape *s)
{
    struct shape d = preset[0].s;
    for (size_t i = 0; i < sizeof preset / sizeof preset[0]; i++)
        if (strcmp(preset[i].name, s->preset) == 0)
            d = preset[i].s;
    d.family = s->family ? s->family : d.family;
    d.rope = s->rope ? s->rope : d.rope;
    d.n_vocab = first(s->n_vocab, d.n_vocab);
    d.d_model = first(s->d_model, d.d_model);
    d.d_ff = first(s->d_ff, d.d_ff);
    d.n_layer = first(s->n_layer, d.n_layer);
    d.n_kv_head = first(s->n_kv_head, s->n_head ? s->n_head : d.n_kv_head);
    d.n_head = first(s->n_head, d.n_head);
    d.d_head = first(s->d_head, d.d_head ? d.d_head : d.d_model / d.n_head);
    d.max_pos = first(s->max_pos, d.max_pos);
    d.window = s->window;
    d.theta = s->theta > 0 ? s->theta : d.theta > 0 ? d.theta : 1e4;
    d.is_tied = (d.is_tied || s->is_tied) && !s->is_untied;
    d.has_bias = s->has_bias;
    return d;
}

static void put_rope(struct buf *b, const struct shape *s)
{
    buf_printf(b, "\"rope_theta\": %.1f,\n", s->theta);
    if (!s->rope || strcmp(s->rope, "default") == 0)
        return;
    buf_printf(b, "\"rope_scaling\": {\"rope_type\": \"%s\"", s->rope);
    if (strcmp(s->rope, "llama3") == 0)
        buf_str(b, ", \"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                   "\"original_max_position_embeddings\": 8192");
    else if (strcmp(s->rope, "longrope") != 0)
        buf_str(b, ", \"factor\": 4.0");
    if (strcmp(s->rope, "longrope") == 0)
        for (int list = 0; list < 2; list++) {
            buf_printf(b, ", \"%s\": [", list ? "long_factor" : "short_factor");
            for (int64_t i = 0; i < s->d_head / 2; i++)
                buf_printf(b, "%s%.2f", i ? ", " : "", list ? 1 + 0.25 * (double)i : 1.0);
            buf_char(b, ']');
        }
    buf_str(b, "},\n");
    if (strcmp(s->rope, "longrope") == 0)
        buf_printf(b, "\"original_max_position_embeddings\": %lld,\n",
                   (long long)(s->max_pos + 3) / 4);
}

static void put_llama_like(struct buf *b, const struct shape *s)
{
    bool is_llama = strcmp(s->family, "llama") == 0;
    buf_printf(b,
               "\"hidden_size\": %lld,\n\"intermediate_size\": %lld,\n\"num_hidden_layers\": %lld,"
               "\n\"num_attention_heads\": %lld,\n\"num_key_value_heads\": %lld,\n",
               (long long)s->d_model, (long long)s->d_ff, (long long)s->n_layer,
               (long long)s->n_head, (long long)s->n_kv_head);
    buf_printf(b, "\"head_dim\": %lld,\n\"max_position_embeddings\": %lld,\n", (long long)s->d_head,
               (long long)s->max_pos);
    put_rope(b, s);
    buf_printf(b, "\"hidden_act\": \"silu\",\n\"rms_norm_eps\": 1e-05,\n");
    if (is_llama || strcmp(s->family, "qwen3") == 0)
        buf_printf(b, "\"attention_bias\": %s,\n", s->has_bias ? "true" : "false");
    if (is_llama)
        buf_printf(b, "\"mlp_bias\": %s,\n", s->has_bias ? "true" : "false");
    if (!is_llama && s->window)
        buf_printf(b,
                   "\"use_sliding_window\": true,\n\"max_window_layers\": %lld,\n"
                   "\"sliding_window\": %lld,\n",
                   (long long)s->n_layer / 2, (long long)s->window);
    else if (!is_llama)
        buf_str(b, "\"sliding_window\": null,\n");
    buf_printf(b, "\"tie_word_embeddings\": %s,\n", s->is_tied ? "true" : "false");
}

static void put_gpt2(struct buf *b, const struct shape *s)
{
    buf_printf(b,
               "\"n_embd\": %lld,\n\"n_layer\": %lld,\n\"n_head\": %lld,\n\"n_inner\": %lld,\n"
               "\"n_positions\": %lld,\n\"activation_function\": \"gelu_new\",\n"
               "\"tie_word_embeddings\": %s,\n",
               (long long)s->d_model, (long long)s->n_layer, (long long)s->n_head,
               (long long)s->d_ff, (long long)s->max_pos, s->is_tied ? "true" : "false");
}

static void put_bert(struct buf *b, const struct shape *s)
{
    buf_printf(b,
               "\"hidden_size\": %lld,\n\"num_hidden_layers\": %lld,\n\"num_attention_heads\": "
               "%lld,\n\"intermediate_size\": %lld,\n\"max_position_embeddings\": %lld,\n"
               "\"hidden_act\": \"gelu\",\n\"type_vocab_size\": 2,\n",
               (long long)s->d_model, (long long)s->n_layer, (long long)s->n_head,
               (long long)s->d_ff, (long long)s->max_pos);
}

static const char *architecture(const char *family)
{
    static const char *const row[][2] = {
#define FAMILY(name, type, arch, ...) {type, arch},
#include "engine/load/family.def"
#undef FAMILY
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (strcmp(row[i][0], family) == 0)
            return row[i][1];
    BUG("family %s", family);
}

int shape_config(const struct shape *asked, struct buf *text, struct config *c, struct err *e)
{
    struct shape s = fill(asked);
    const char *torch_name = strcmp(asked->dtype, "f32") == 0   ? "float32"
                             : strcmp(asked->dtype, "f16") == 0 ? "float16"
                                                                : "bfloat16";
    buf_printf(text, "{\n\"architectures\": [\"%s\"],\n\"model_type\": \"%s\",\n",
               architecture(s.family), s.family);
    if (strcmp(s.family, "gpt2") == 0)
        put_gpt2(text, &s);
    else if (strcmp(s.family, "bert") == 0)
        put_bert(text, &s);
    else
        put_llama_like(text, &s);
    if (strcmp(s.family, "bert") != 0)
        buf_str(text, "\"bos_token_id\": 1,\n\"eos_token_id\": 2,\n");
    buf_printf(text, "\"pad_token_id\": 0,\n\"torch_dtype\": \"%s\",\n\"vocab_size\": %lld\n}\n",
               torch_name, (long long)s.n_vocab);
    if (buf_check(text, "config.json", e))
        return -1;
    return config_parse(c, text->data, text->len, "config.json", e);
}
