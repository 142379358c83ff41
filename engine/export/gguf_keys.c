/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_keys.h. Fractions are f32 there: one that f32 does not hold is refused where it would
 * change an angle.
 */
#include "engine/export/gguf_keys.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/model/rope_table.h"

enum { KEY_BYTES = 128 };

static const struct {
    enum config_family family;
    struct gguf_arch arch;
} arch_row[] = {{FAMILY_LLAMA, {.name = "llama", .is_permuted = true}},
                {FAMILY_MISTRAL, {.name = "llama", .is_permuted = true}},
                {FAMILY_MIXTRAL, {.name = "llama", .is_permuted = true, .has_sums = true}},
                {FAMILY_QWEN2, {.name = "qwen2"}},
                {FAMILY_QWEN3, {.name = "qwen3"}},
                {FAMILY_QWEN3_MOE, {.name = "qwen3moe", .has_sums = true, .says_width = true}},
                {FAMILY_OLMOE, {.name = "olmoe"}}};

int gguf_arch_of(const struct config *c, struct gguf_arch *out, struct err *e)
{
    for (size_t i = 0; i < sizeof arch_row / sizeof *arch_row; i++)
        if (arch_row[i].family == c->family) {
            *out = arch_row[i].arch;
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "models of the family %s are not written as GGUF; llama, mistral, mixtral, "
                   "qwen2, qwen3, qwen3_moe and olmoe are",
                   config_family_name(c->family));
}

struct keys {
    struct gguf_writer *w;
    const struct config *c;
    struct gguf_arch arch;
    char key[KEY_BYTES];
};

static const char *key_of(struct keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch.name, name);
    return k->key;
}

static void put_int(struct keys *k, const char *name, int64_t n)
{
    gguf_writer_u32(k->w, key_of(k, name), (uint32_t)n);
}

static int put_num(struct keys *k, const char *name, double x, struct err *e)
{
    gguf_writer_f32(k->w, key_of(k, name), (float)x);
    return (double)(float)x == x
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "%s: %.17g is no number of f32, which GGUF would have to keep it in",
                         k->key, x);
}

/* Windows of all layers are what a llama with one is read as: Mistral. */
static int put_window(struct keys *k, struct err *e)
{
    const struct config *c = k->c;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_layer; i++)
        n += c->slides[i];
    if (n == 0 || c->window == 0)
        return 0;
    if (n < c->n_layer || !k->arch.is_permuted)
        return err_set(e, ERR_UNSUPPORTED, "windows of attention are not written as GGUF for %s",
                       config_family_name(c->family));
    put_int(k, "attention.sliding_window", c->window);
    return 0;
}

/* How a row's experts are weighed is no key: the family says it. */
static int put_experts(struct keys *k, struct err *e)
{
    const struct config *c = k->c;
    if (c->n_expert == 0)
        return 0;
    if (c->normalises_top != k->arch.has_sums)
        return err_set(e, ERR_UNSUPPORTED, "norm_topk_prob: %s is not written as GGUF for %s",
                       c->normalises_top ? "true" : "false", config_family_name(c->family));
    for (int64_t l = 0; l < c->n_layer; l++)
        if (!c->has_experts[l])
            return err_set(e, ERR_UNSUPPORTED,
                           "layer %lld has no experts: GGUF is written where all layers have",
                           (long long)l);
    put_int(k, "expert_count", c->n_expert);
    put_int(k, "expert_used_count", c->n_top);
    if (c->d_expert != c->d_ff || k->arch.says_width)
        put_int(k, "expert_feed_forward_length", c->d_expert);
    return 0;
}

/* Factors by which llama.cpp divides frequencies: of the floats near what Llama 3 says that which
 * gives its frequency once more. */
static int put_llama3(struct keys *k, float **out, struct err *e)
{
    int32_t d = k->c->d_head;
    double plain[CONFIG_ROPE_FACTOR_MAX], scaled[CONFIG_ROPE_FACTOR_MAX], unused;
    struct config *without = try_alloc(1, sizeof *without, "a config", e);
    float *factor = without ? try_alloc((size_t)(d / 2), sizeof *factor, "factors", e) : NULL;
    if (!factor) {
        mem_free(without);
        return -1;
    }
    *without = *k->c;
    without->rope.kind = ROPE_DEFAULT;
    rope_frequencies(k->c, k->c->max_pos, d, scaled, &unused);
    rope_frequencies(without, k->c->max_pos, d, plain, &unused);
    for (int32_t i = 0; i < d / 2; i++) {
        float near = factor[i] = (float)(plain[i] / scaled[i]), down = near, up = near;
        for (int step = 0; step < 4;
             step++, down = nextafterf(down, 0), up = nextafterf(up, 1e9f)) {
            bool is_down = (float)(plain[i] / (double)down) == (float)scaled[i];
            bool is_up = (float)(plain[i] / (double)up) == (float)scaled[i];
            if (is_down || is_up) {
                factor[i] = is_down ? down : up;
                break;
            }
        }
    }
    mem_free(without);
    *out = factor;
    return 0;
}

static int put_scaling(struct keys *k, float **factors, struct err *e)
{
    const struct config_rope *r = &k->c->rope;
    if (r->kind == ROPE_DEFAULT)
        return 0;
    if (r->kind == ROPE_LLAMA3)
        return put_llama3(k, factors, e);
    if (r->kind != ROPE_LINEAR && r->kind != ROPE_YARN)
        return err_set(e, ERR_UNSUPPORTED,
                       "rotary positions scaled as %s are not written as GGUF; linear, yarn and "
                       "llama3 are",
                       config_rope_name(r->kind));
    gguf_writer_str(k->w, key_of(k, "rope.scaling.type"), r->kind == ROPE_YARN ? "yarn" : "linear");
    if (put_num(k, "rope.scaling.factor", r->factor, e))
        return -1;
    if (r->kind == ROPE_LINEAR)
        return 0;
    if (r->attention_factor > 0 || r->mscale > 0 || !r->truncate)
        return err_set(e, ERR_UNSUPPORTED,
                       "yarn with a factor of attention of its own, or without whole bounds, is "
                       "not written as GGUF");
    put_int(k, "rope.scaling.original_context_length",
            r->original_max_pos ? r->original_max_pos : k->c->max_pos);
    return put_num(k, "rope.scaling.yarn_beta_fast", r->beta_fast, e) ||
                   put_num(k, "rope.scaling.yarn_beta_slow", r->beta_slow, e)
               ? -1
               : 0;
}

int gguf_keys_put(struct gguf_writer *w, const struct config *c, float **factors, struct err *e)
{
    struct keys k = {.w = w, .c = c};
    *factors = NULL;
    if (gguf_arch_of(c, &k.arch, e))
        return -1;
    if (c->rope.partial != 1)
        return err_set(e, ERR_UNSUPPORTED, "heads of which a part turns are not written as GGUF");
    gguf_writer_str(w, "general.architecture", k.arch.name);
    gguf_writer_str(w, "general.type", "model");
    put_int(&k, "context_length", c->max_pos);
    put_int(&k, "embedding_length", c->d_model);
    put_int(&k, "block_count", c->n_layer);
    put_int(&k, "feed_forward_length", c->d_ff);
    put_int(&k, "vocab_size", c->n_vocab);
    put_int(&k, "attention.head_count", c->n_head);
    put_int(&k, "attention.head_count_kv", c->n_kv_head);
    put_int(&k, "attention.key_length", c->d_head);
    put_int(&k, "attention.value_length", c->d_head);
    put_int(&k, "rope.dimension_count", c->d_head);
    gguf_writer_f32(w, key_of(&k, "attention.layer_norm_rms_epsilon"), (float)c->norm_eps);
    return put_num(&k, "rope.freq_base", c->rope.theta, e) || put_window(&k, e) ||
                   put_experts(&k, e) || put_scaling(&k, factors, e)
               ? -1
               : 0;
}
