/* SPDX-License-Identifier: Apache-2.0
 *
 * From a config to its layers.
 */
#include "engine/model/layer.h"

#include <math.h>

#include "engine/load/config_layers.h"

static float scale_of(const struct config *c, int64_t l)
{
    if (c->attn_scale != 0)
        return (float)c->attn_scale;
    double s = c->scales_attn ? 1.0 / sqrt((double)config_d_head(c, l)) : 1.0;
    return (float)(c->scales_attn_by_layer ? s / (double)(l + 1) : s);
}

static enum layer_ff plain_ff_of(const struct config *c)
{
    if (c->is_gated)
        return c->act == ACT_SILU ? FF_SWIGLU : c->act == ACT_GELU ? FF_GEGLU : FF_GEGLU_TANH;
    return c->act == ACT_GELU_TANH ? FF_GELU_TANH : FF_GELU;
}

/* Above which so many standard deviations a share of 1 - p of normal numbers is. */
static double quantile(double p)
{
    double lo = -8, hi = 8;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2, below = 0.5 * erfc(-mid / sqrt(2.0));
        lo = below < p ? mid : lo;
        hi = below < p ? hi : mid;
    }
    return (lo + hi) / 2;
}

static enum layer_rope rope_of(const struct config *c, int64_t l)
{
    if (!c->has_rope || c->is_unturned[l])
        return LAYER_ROPE_NONE;
    return c->slides[l] && c->local_theta > 0 ? LAYER_ROPE_LOCAL : LAYER_ROPE;
}

void layer_init(struct layer *y, const struct config *c, int64_t l)
{
    *y = (struct layer){.norms = c->norms,
                        .ff = c->has_experts[l] ? FF_EXPERTS : plain_ff_of(c),
                        .ff_beside = plain_ff_of(c),
                        .mixer = (enum config_mixer)c->mixer[l],
                        .window = c->slides[l] ? c->window : 0,
                        .d_head = config_d_head(c, l),
                        .n_kv_head = config_n_kv_head(c, l),
                        .n_kv_here = config_n_kv_head(c, l),
                        .kv_layer = (int32_t)config_kv_layer(c, l),
                        .d_ff = config_d_ff(c, l),
                        .cuts_gate = c->sparsity[l] > 0,
                        .cut = c->sparsity[l] > 0 ? (float)quantile((double)c->sparsity[l]) : 0,
                        .out_scale = c->has_layer_scale ? 1 : 0,
                        .scale = scale_of(c, l),
                        .cap = (float)c->attn_cap,
                        .residual = (float)c->residual_scale,
                        .is_causal = !c->sees_ahead,
                        .rope = rope_of(c, l)};
}
