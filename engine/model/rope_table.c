/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per kind of scaling, all from theta^(-2i/d).
 */
#include "engine/model/rope_table.h"

#include <math.h>

#include "engine/base/mem.h"

static double original_pos(const struct config *c)
{
    return (double)(c->rope.original_max_pos ? c->rope.original_max_pos : c->max_pos);
}

static void plain(double theta, int32_t d_rot, double *freq)
{
    for (int32_t i = 0; i < d_rot / 2; i++)
        freq[i] = 1.0 / pow(theta, 2.0 * i / d_rot);
}

/* Stretches theta so that the context fits (NTK). */
static void dynamic(const struct config *c, int64_t ctx, int32_t d_rot, double *freq)
{
    double original = original_pos(c), f = c->rope.factor, theta = c->rope.theta;
    if ((double)ctx > original)
        theta *= pow(f * (double)ctx / original - (f - 1), d_rot / (d_rot - 2.0));
    plain(theta, d_rot, freq);
}

/* Low frequencies are divided, high ones kept, those between blended. */
static void llama3(const struct config *c, int32_t d_rot, double *freq)
{
    const struct config_rope *r = &c->rope;
    double low = original_pos(c) / r->low_freq_factor, high = original_pos(c) / r->high_freq_factor;
    plain(r->theta, d_rot, freq);
    for (int32_t i = 0; i < d_rot / 2; i++) {
        double wave = 2.0 * M_PI / freq[i];
        double blend = (original_pos(c) / wave - r->low_freq_factor) /
                       (r->high_freq_factor - r->low_freq_factor);
        if (wave > low)
            freq[i] /= r->factor;
        else if (wave >= high)
            freq[i] = (1 - blend) * freq[i] / r->factor + blend * freq[i];
    }
}

/* The pair that turns `turns` times over the original context. */
static double yarn_pair(const struct config *c, int32_t d_rot, double turns)
{
    return d_rot * log(original_pos(c) / (turns * 2.0 * M_PI)) / (2.0 * log(c->rope.theta));
}

static double yarn_mscale(double factor, double weight)
{
    return factor <= 1 ? 1.0 : 0.1 * weight * log(factor) + 1.0;
}

static void yarn(const struct config *c, int32_t d_rot, double *freq, double *mscale)
{
    const struct config_rope *r = &c->rope;
    double low = yarn_pair(c, d_rot, r->beta_fast), high = yarn_pair(c, d_rot, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, d_rot - 1);
    if (low == high)
        high += 0.001;
    plain(r->theta, d_rot, freq);
    for (int32_t i = 0; i < d_rot / 2; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        freq[i] = freq[i] / r->factor * ramp + freq[i] * (1 - ramp);
    }
    if (r->attention_factor > 0)
        *mscale = r->attention_factor;
    else if (r->mscale > 0 && r->mscale_all_dim > 0)
        *mscale = yarn_mscale(r->factor, r->mscale) / yarn_mscale(r->factor, r->mscale_all_dim);
    else
        *mscale = yarn_mscale(r->factor, 1);
}

static void longrope(const struct config *c, int64_t ctx, int32_t d_rot, double *freq,
                     double *mscale)
{
    const struct config_rope *r = &c->rope;
    double original = original_pos(c), factor = r->factor;
    const double *by = (double)ctx > original ? r->long_factor : r->short_factor;
    plain(r->theta, d_rot, freq);
    for (int32_t i = 0; i < d_rot / 2; i++)
        freq[i] /= by[i];
    if (r->attention_factor > 0)
        *mscale = r->attention_factor;
    else
        *mscale = factor <= 1 ? 1.0 : sqrt(1.0 + log(factor) / log(original));
}

/* The first pairs of a head turn as if all did, the others do not. */
static void proportional(const struct config *c, int32_t d_rot, double *freq)
{
    int32_t n = (int32_t)(floor(c->rope.partial * d_rot / 2));
    plain(c->rope.theta, d_rot, freq);
    for (int32_t i = 0; i < d_rot / 2; i++)
        freq[i] = i < n ? freq[i] / c->rope.factor : 0;
}

void rope_frequencies(const struct config *c, int64_t ctx, int32_t d_rot, double *freq,
                      double *mscale)
{
    *mscale = 1;
    switch (c->rope.kind) {
    case ROPE_DYNAMIC:
        dynamic(c, ctx, d_rot, freq);
        return;
    case ROPE_LLAMA3:
        llama3(c, d_rot, freq);
        return;
    case ROPE_YARN:
        yarn(c, d_rot, freq, mscale);
        return;
    case ROPE_LONGROPE:
        longrope(c, ctx, d_rot, freq, mscale);
        return;
    case ROPE_PROPORTIONAL:
        proportional(c, d_rot, freq);
        return;
    case ROPE_LINEAR:
    case ROPE_DEFAULT:
        break;
    }
    plain(c->rope.theta, d_rot, freq);
    for (int32_t i = 0; i < d_rot / 2 && c->rope.kind == ROPE_LINEAR; i++)
        freq[i] /= c->rope.factor;
}

int64_t rope_short_tokens(const struct config *c, int64_t ctx)
{
    bool has_two = c->rope.kind == ROPE_DYNAMIC || c->rope.kind == ROPE_LONGROPE;
    return has_two && (double)ctx > original_pos(c) ? (int64_t)original_pos(c) : 0;
}

/* n rows, of the form that a context of n takes. Angles are computed as PyTorch does, in f32: the
 * frequency is rounded, and so is the product. */
static void fill(const struct model *m, enum layer_rope which, int64_t n, float *cos_t,
                 float *sin_t)
{
    int32_t d_rot = m->rope[which].d_rot, half = d_rot / 2;
    double freq[CONFIG_ROPE_FACTOR_MAX], mscale = 1;
    if (which == LAYER_ROPE_LOCAL)
        plain(m->cfg.local_theta, d_rot, freq);
    else
        rope_frequencies(&m->cfg, n, d_rot, freq, &mscale);
    for (int64_t pos = 0; pos < n; pos++) {
        for (int32_t i = 0; i < half; i++) {
            float angle = (float)pos * (float)freq[i];
            cos_t[pos * half + i] = (float)(cos((double)angle) * mscale);
            sin_t[pos * half + i] = (float)(sin((double)angle) * mscale);
        }
    }
}

static float *to_device(struct model *m, const float *host, size_t bytes, struct stream *s,
                        struct err *e)
{
    float *p = device_alloc(m->device, bytes, "the table of rotary positions", e);
    if (p)
        stream_copy(s, p, host, bytes, COPY_TO_DEVICE);
    return p;
}

static int make(struct model *m, enum layer_rope which, struct err *e)
{
    struct model_rope *r = &m->rope[which];
    float *host = NULL;
    struct stream *s = NULL;
    int rc = -1;
    size_t n = (size_t)model_turn_rows(m) * (size_t)(r->d_rot / 2);
    size_t n_long = (size_t)m->ctx * (size_t)(r->d_rot / 2);
    if (r->d_rot / 2 > CONFIG_ROPE_FACTOR_MAX)
        return err_set(e, ERR_UNSUPPORTED, "heads of %d turn; at most %d do", r->d_rot,
                       2 * CONFIG_ROPE_FACTOR_MAX);
    host = try_alloc(2 * n, sizeof *host, "the table of rotary positions", e);
    s = host ? stream_new(m->device, e) : NULL;
    if (!s)
        goto done;
    fill(m, which, m->ctx, host, host + n);
    fill(m, which, m->rope_short, host + n_long, host + n + n_long);
    r->cos = to_device(m, host, n * sizeof *host, s, e);
    r->sin = r->cos ? to_device(m, host + n, n * sizeof *host, s, e) : NULL;
    rc = r->sin ? stream_sync(s, e) : -1;
done:
    stream_free(s);
    mem_free(host);
    return rc;
}

/* Queries grow with the logarithm of how often the first training's context fits before them. */
static int make_query_scale(struct model *m, struct err *e)
{
    size_t n = (size_t)m->ctx;
    float *host = try_alloc(n, sizeof *host, "the scales of queries", e);
    struct stream *s = host ? stream_new(m->device, e) : NULL;
    int rc = -1;
    if (!s)
        goto done;
    for (int64_t pos = 0; pos < m->ctx; pos++) {
        float times = floorf((float)pos / (float)original_pos(&m->cfg));
        host[pos] = 1 + (float)m->cfg.query_growth * logf(1 + times);
    }
    m->q_scale = to_device(m, host, n * sizeof *host, s, e);
    rc = m->q_scale ? stream_sync(s, e) : -1;
done:
    stream_free(s);
    mem_free(host);
    return rc;
}

static int32_t turned(const struct config *c, int32_t d_head)
{
    if (c->d_latent)
        return c->d_turned;
    double share = c->rope.kind == ROPE_PROPORTIONAL ? 1 : c->rope.partial;
    return (int32_t)(d_head * share) / 2 * 2;
}

void rope_table_sizes(struct model *m)
{
    const struct config *c = &m->cfg;
    if (!c->has_rope)
        return;
    m->rope[LAYER_ROPE].d_rot = turned(c, c->full_d_head ? c->full_d_head : c->d_head);
    if (c->local_theta > 0)
        m->rope[LAYER_ROPE_LOCAL].d_rot = turned(c, c->d_head);
}

int rope_table_make(struct model *m, struct err *e)
{
    for (int i = 0; i < LAYER_ROPE_COUNT; i++)
        if (m->rope[i].d_rot && make(m, (enum layer_rope)i, e))
            return -1;
    return m->cfg.query_growth != 0 ? make_query_scale(m, e) : 0;
}
