/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, feed-forward, norms and heads, as every family here has them.
 */
#include "engine/model/blocks.h"

#include <math.h>

struct val block_norm(const struct model *m, struct builder *b, struct val x,
                      const struct param *weight, const struct param *bias)
{
    float eps = (float)m->cfg.norm_eps;
    return bias ? op_layernorm(b, x, weight, bias, eps) : op_rmsnorm(b, x, weight, eps);
}

static struct val turn(const struct model *m, struct builder *b, struct val x, int32_t n_head)
{
    struct op_rope_attr a = {.cos = m->rope_cos,
                             .sin = m->rope_sin,
                             .n_head = n_head,
                             .d_head = m->cfg.d_head,
                             .d_rot = m->d_rot};
    return m->d_rot ? op_rope(b, x, &a) : x;
}

static struct val normed_head(const struct model *m, struct builder *b, struct val x,
                              const struct param *weight)
{
    return weight ? op_rmsnorm(b, x, weight, (float)m->cfg.norm_eps) : x;
}

/* q, k, v by three products, or by one whose output is cut. */
static void project(const struct model *m, struct builder *b, struct val h, int64_t l,
                    struct val *q, struct val *k, struct val *v)
{
    const struct config *c = &m->cfg;
    const struct param *joined = model_layer(m, l, SLOT_QKV);
    int64_t n_q = (int64_t)c->n_head * c->d_head, n_kv = (int64_t)c->n_kv_head * c->d_head;
    if (joined) {
        struct val all = op_linear(b, h, joined, model_layer(m, l, SLOT_QKV_BIAS));
        *q = op_slice(b, all, 0, n_q);
        *k = op_slice(b, all, n_q, n_kv);
        *v = op_slice(b, all, n_q + n_kv, n_kv);
        return;
    }
    *q = op_linear(b, h, model_layer(m, l, SLOT_Q), model_layer(m, l, SLOT_Q_BIAS));
    *k = op_linear(b, h, model_layer(m, l, SLOT_K), model_layer(m, l, SLOT_K_BIAS));
    *v = op_linear(b, h, model_layer(m, l, SLOT_V), model_layer(m, l, SLOT_V_BIAS));
}

static float attn_scale(const struct config *c, int64_t layer)
{
    double s = c->scales_attn ? 1.0 / sqrt((double)c->d_head) : 1.0;
    return (float)(c->scales_attn_by_layer ? s / (double)(layer + 1) : s);
}

struct val block_attention(const struct model *m, struct builder *b, struct val h, int64_t layer,
                           bool causal)
{
    const struct config *c = &m->cfg;
    struct op_attn_attr a = {.layer = (int32_t)layer,
                             .n_head = c->n_head,
                             .n_kv_head = c->n_kv_head,
                             .d_head = c->d_head,
                             .window = layer >= c->window_from_layer ? c->window : 0,
                             .causal = causal,
                             .scale = attn_scale(c, layer)};
    struct val q, k, v;
    project(m, b, h, layer, &q, &k, &v);
    q = turn(m, b, normed_head(m, b, q, model_layer(m, layer, SLOT_Q_NORM)), c->n_head);
    k = turn(m, b, normed_head(m, b, k, model_layer(m, layer, SLOT_K_NORM)), c->n_kv_head);
    return op_linear(b, op_attn(b, q, k, v, &a), model_layer(m, layer, SLOT_O),
                     model_layer(m, layer, SLOT_O_BIAS));
}

struct val block_mlp(const struct model *m, struct builder *b, struct val h, int64_t layer)
{
    const struct param *gate = model_layer(m, layer, SLOT_GATE);
    struct val g = {.id = -1}, u;
    if (gate)
        g = op_linear(b, h, gate, model_layer(m, layer, SLOT_GATE_BIAS));
    u = op_linear(b, h, model_layer(m, layer, SLOT_UP), model_layer(m, layer, SLOT_UP_BIAS));
    u = gate ? op_swiglu(b, g, u) : op_gelu(b, u, m->cfg.act == ACT_GELU_TANH);
    return op_linear(b, u, model_layer(m, layer, SLOT_DOWN), model_layer(m, layer, SLOT_DOWN_BIAS));
}

struct val block_head(const struct model *m, struct builder *b, struct val x, enum model_head head)
{
    const struct param *norm = m->slot[SLOT_FINAL_NORM], *bias = m->slot[SLOT_FINAL_NORM_BIAS];
    if (head == MODEL_HIDDEN)
        return block_norm(m, b, x, norm, bias);
    x = block_norm(m, b, op_gather(b, x), norm, bias);
    if (head == MODEL_LOSS)
        return op_ce(b, x, model_head_of(m));
    return head == MODEL_EMBED ? op_l2norm(b, x, 1e-12f) : op_linear(b, x, model_head_of(m), NULL);
}
