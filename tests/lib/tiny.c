/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters are drawn by the counter-based generator, so a model is the same in every run.
 */
#include "tests/lib/tiny.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/graph/passes.h"
#include "tests/lib/test.h"

enum { TINY_LAYERS = 3, TINY_CTX = 256 };

/* The last layer has the first one's keys. */
static void add_sharing(struct config *c)
{
    c->n_kv_shared = 1;
    c->norms_v = true;
    c->d_ple = 12, c->n_ple_vocab = c->n_vocab, c->ple_scale = 3;
}

/* And wider heads. */
static void add_wide_heads(struct config *c)
{
    add_sharing(c);
    c->full_d_head = 24, c->full_n_kv_head = 1;
    c->k_is_v = c->widens_shared = c->has_layer_scale = true;
    c->rope.kind = ROPE_PROPORTIONAL;
}

/* The first layer's gate is cut, the second is narrower. */
static void add_tracks(struct config *c)
{
    add_sharing(c);
    c->n_track = 4, c->d_laurel = 10;
    c->scales_track = true;
    c->sparsity[0] = 0.6f;
    c->own_d_ff[1] = 72;
}

/* A delta rule, with gated attention beside it, or a scan. */
static void add_states(struct config *c)
{
    bool is_scan = c->family == FAMILY_GRANITE_HYBRID;
    c->n_state_k = is_scan ? 1 : 2, c->n_state_v = is_scan ? 8 : 6;
    c->d_state_k = is_scan ? 10 : 8, c->d_state_v = 12;
    c->has_attn_gate = !is_scan;
    c->scan_hi = is_scan ? 2 : 0;
}

/* Keys of which 6 of 16 numbers turn, values of 12; four groups of two experts, two of them open.
 */
static void add_latent(struct config *c)
{
    bool is_v3 = c->family == FAMILY_DEEPSEEK_V3;
    c->n_kv_head = c->n_head;
    c->d_latent = 20;
    c->d_latent_q = is_v3 ? 24 : 0;
    c->d_turned = 6, c->d_value = 12;
    c->turns_beside = true;
    c->n_expert = 8;
    c->d_shared = 40;
    c->n_group = 4, c->n_top_group = 2;
    c->route_best = is_v3 ? 2 : 1;
    c->route_scale = 1.5;
    c->is_sigmoid_route = c->has_route_bias = c->normalises_top = is_v3;
}

struct config tiny_config(enum config_family f)
{
    bool is_old = f == FAMILY_GPT2 || f == FAMILY_BERT;
    bool is_hybrid = f == FAMILY_QWEN3_5, is_scan = f == FAMILY_GRANITE_HYBRID;
    bool is_granite = f == FAMILY_GRANITE || is_scan;
    bool is_gemma4 = f == FAMILY_GEMMA4, is_late_gemma = is_gemma4 || f == FAMILY_GEMMA3N;
    bool is_gemma = f == FAMILY_GEMMA2 || f == FAMILY_GEMMA3 || is_late_gemma;
    struct config c = {.family = f,
                       .n_vocab = 67,
                       .n_layer = TINY_LAYERS,
                       .d_model = 48,
                       .d_ff = 80,
                       .max_pos = TINY_CTX,
                       .n_head = 6,
                       .n_kv_head = is_old ? 6 : 2,
                       .d_head = is_old ? 8 : 16,
                       .n_segment = f == FAMILY_BERT ? 2 : 0,
                       .act = f == FAMILY_GPT2   ? ACT_GELU_TANH
                              : is_gemma         ? ACT_GELU_TANH
                              : f == FAMILY_BERT ? ACT_GELU
                                                 : ACT_SILU,
                       .norm_eps = 1e-5,
                       .rope = {.kind = ROPE_DEFAULT, .theta = 10000, .partial = 1, .factor = 1},
                       .window = f == FAMILY_MISTRAL || f == FAMILY_MINISTRAL || is_gemma ||
                                         f == FAMILY_GPT_OSS
                                     ? 20
                                     : 0,
                       .is_tied = f != FAMILY_LLAMA,
                       .is_encoder = f == FAMILY_BERT,
                       .sees_ahead = f == FAMILY_BERT,
                       .norms = f == FAMILY_BERT    ? NORMS_SUM
                                : f == FAMILY_OLMO2 ? NORMS_OUTPUT
                                : is_gemma          ? NORMS_BOTH
                                                    : NORMS_INPUT,
                       .has_rope = !is_old && !is_scan,
                       .is_gated = !is_old,
                       .qk_norm = f == FAMILY_QWEN3 || f == FAMILY_GEMMA3 || f == FAMILY_LFM2 ||
                                          is_hybrid || is_late_gemma
                                      ? QK_NORM_HEADS
                                  : f == FAMILY_OLMO2 ? QK_NORM_WHOLE
                                                      : QK_NORM_NONE,
                       .embed_scale = is_granite ? 6 : 1,
                       .residual_scale = is_granite ? 0.4 : 1,
                       .logit_scale = is_granite ? 0.125 : 1,
                       .route_scale = 1,
                       .norm_plus_one = (is_gemma && !is_late_gemma) || is_hybrid,
                       .attn_cap = f == FAMILY_GEMMA2 ? 4 : 0,
                       .logit_cap = f == FAMILY_GEMMA2 || f == FAMILY_GEMMA3N ? 6 : 0,
                       .local_theta = f == FAMILY_GEMMA3 || is_late_gemma ? 100 : 0,
                       .attn_scale = is_granite      ? 0.3
                                     : is_late_gemma ? 1
                                                     : 0,
                       .has_qkv_bias = f == FAMILY_QWEN2 || f == FAMILY_GPT_OSS,
                       .has_o_bias = f == FAMILY_GPT_OSS,
                       .scales_attn = true,
                       .pool = POOL_MEAN,
                       .normalizes = true,
                       .bos = -1,
                       .pad = -1};
    c.n_tap = is_hybrid || is_scan ? 4 : 3;
    if (is_hybrid || is_scan)
        add_states(&c);
    if (is_gemma4)
        add_wide_heads(&c);
    if (f == FAMILY_GEMMA3N)
        add_tracks(&c);
    c.has_conv_bias = f == FAMILY_LFM2 || is_scan;
    bool is_open = f == FAMILY_GPT_OSS;
    bool is_mixture =
        f == FAMILY_QWEN3_MOE || f == FAMILY_MIXTRAL || is_open || is_scan || is_gemma4;
    c.has_sinks = c.has_expert_bias = is_open;
    c.swiglu_limit = is_open ? 0.7 : 0;
    c.swiglu_alpha = 1.702;
    c.n_expert = is_mixture ? 5 : 0;
    c.n_top = 2;
    c.d_expert = 40;
    c.normalises_top = f == FAMILY_MIXTRAL || is_open || is_scan || is_gemma4;
    c.is_joined = f == FAMILY_PHI3;
    c.rope.partial = f == FAMILY_PHI3 || is_hybrid || is_gemma4 ? 0.5 : 1;
    bool is_latent = f == FAMILY_DEEPSEEK_V2 || f == FAMILY_DEEPSEEK_V3;
    if (is_latent)
        add_latent(&c);
    for (int64_t l = 0; l < c.n_layer; l++) {
        c.has_experts[l] = (is_latent && l > 0) || f == FAMILY_MIXTRAL || is_open || is_scan ||
                           is_gemma4 || (is_mixture && l != 1);
        c.mixer[l] = l == 1             ? MIXER_ATTENTION
                     : f == FAMILY_LFM2 ? MIXER_CONV
                     : is_hybrid        ? MIXER_DELTA
                     : is_scan          ? MIXER_SCAN
                                        : MIXER_ATTENTION;
        c.is_unturned[l] = f == FAMILY_SMOLLM3 && l == 1;
        c.slides[l] = c.window > 0 && (f == FAMILY_MISTRAL || l % 2);
    }
    return c;
}

static void draw(float *x, int64_t n, uint64_t stream, float scale, float around)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = around + scale * rng_normal(7, stream, (uint64_t)i);
}

static void fill_param(struct tiny *t, struct param *p)
{
    uint64_t stream = (uint64_t)p->index;
    if (p->is_vector) {
        bool is_weight = strstr(p->name, "weight") != NULL;
        draw(p->vec, p->n, stream, 0.1f, is_weight ? 1.0f : 0.0f);
        return;
    }
    float *src = xmalloc((size_t)(p->n * p->k) * sizeof *src);
    struct k_weight_pack a = {
        .src = src, .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
    draw(src, p->n * p->k, stream, 0.15f, 0);
    kernel_run(device_kernels(t->device), K_weight_pack, &a, NULL);
    free(src);
}

static void init(struct tiny *t, const struct config *c, const struct model_options *o,
                 int n_thread, const char *kernels)
{
    struct err e = ERR_INIT;
    t->pool = pool_new(n_thread, false, &e);
    assert_non_null(t->pool);
    t->device = device_cpu_new(t->pool, kernels, &e);
    assert_non_null(t->device);
    t->stream = stream_new(t->device, &e);
    t->model = model_new(c, o, t->device, &e);
    assert_non_null(t->model);
    for (int32_t i = 0; i < t->model->n_param; i++)
        fill_param(t, &t->model->param[i]);
}

void tiny_init(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
               const char *kernels)
{
    init(t, c, &(struct model_options){.type = (int)type, .kv_type = -1}, n_thread, kernels);
}

void tiny_init_int8(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
                    const char *kernels)
{
    struct model_options o = {.type = (int)type, .kv_type = -1, .is_int8 = true};
    init(t, c, &o, n_thread, kernels);
}

void tiny_init_cells_int8(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
                          const char *kernels)
{
    init(t, c, &(struct model_options){.type = (int)type, .kv_type = K_INT8}, n_thread, kernels);
}

void tiny_release(struct tiny *t)
{
    model_free(t->model);
    stream_free(t->stream);
    device_free(t->device);
    pool_free(t->pool);
}

struct runner *tiny_runner(struct tiny *t, int64_t n_tok, enum model_output output, bool is_eager,
                           unsigned passes)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = n_tok, [DIM_OUT] = n_tok, [DIM_SEQ] = 4, [DIM_GROUP] = 1},
        .n_cell = 4 * (TINY_CTX / K_CELL),
        .is_eager = is_eager,
        .passes = passes,
        .output = output};
    struct runner *r = runner_new(t->model, &o, t->stream, &e);
    if (!r)
        test_shows_err(&e, __FILE__, __LINE__);
    return r;
}

void tiny_tokens(const struct model *m, int32_t *token, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        token[i] = (int32_t)rng_below(3, 0, (uint64_t)i, (uint64_t)m->cfg.n_vocab);
}
