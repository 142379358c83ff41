/* SPDX-License-Identifier: Apache-2.0
 *
 * model_build: what every model here computes. Embeddings, layers of two halves, a mixer of rows
 * (attention, a short convolution) and a feed-forward, each added to the stream, and its output.
 * What differs between models, and between layers of one, is data: the row of a layer (layer.h),
 * and which parameters there are.
 */
#include "engine/model/model.h"

#include <math.h>

#include "engine/op/ops.h"

/* What layers leave to those behind them, and halves of one to its parts. */
struct between {
    struct val stream; /* what the half that is built is added to */
    struct val ple;    /* each layer's own embedding side by side; id -1: there are none */
    struct layer_kv {
        struct val k, v;
    } kv[2]; /* of the last layers that had their own: that sees all, that slides */
};

/* RMS, or with mean and bias where the model has one. */
static struct val norm(const struct model *m, struct builder *b, struct val x,
                       const struct param *weight, const struct param *bias)
{
    float eps = (float)m->cfg.norm_eps;
    return bias || m->cfg.norm_by_mean ? op_layernorm(b, x, weight, bias, eps)
                                       : op_rmsnorm(b, x, weight, eps, m->cfg.norm_plus_one);
}

static struct val scaled(struct builder *b, struct val x, float s)
{
    return s == 1 ? x : op_scale(b, x, s);
}

static struct val embed(const struct model *m, struct builder *b)
{
    struct val x =
        scaled(b, op_embed_tokens(b, m->slot[SLOT_TOKEN_EMBED]), (float)m->cfg.embed_scale);
    if (b->noise > 0)
        x = op_noise(b, x, b->noise);
    if (m->slot[SLOT_POS_EMBED])
        x = op_add(b, x, op_embed_from(b, OP_IDS_POS, m->slot[SLOT_POS_EMBED], m->cfg.pos_from));
    if (m->slot[SLOT_SEGMENT_EMBED])
        x = op_add(b, x, op_embed(b, OP_IDS_SEGMENT, m->slot[SLOT_SEGMENT_EMBED]));
    if (m->slot[SLOT_EMBED_NORM])
        x = norm(m, b, x, m->slot[SLOT_EMBED_NORM], m->slot[SLOT_EMBED_NORM_BIAS]);
    return x;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Of latents, whatever the model's norms have. */
static const float LATENT_EPS = 1e-6f;

/* q, k, v through latents: what turns of a key is one for all heads, and values are brought to the
 * width of keys by zeros, which attention gives back as zeros. */
static void project_latent(const struct model *m, struct builder *b, struct val h, int64_t l,
                           struct val *q, struct val *k, struct val *v)
{
    const struct config *c = &m->cfg;
    const struct param *q_latent = model_layer(m, l, SLOT_Q_LATENT);
    int32_t d = c->d_head, nope = d - c->d_turned, both = nope + c->d_value;
    struct op_heads_attr keys = {c->n_head, both, 0, nope, c->d_turned};
    struct op_heads_attr values = {c->n_head, both, nope, c->d_value, d - c->d_value};
    struct op_rope_attr turn = {.n_head = c->n_head,
                                .d_head = d,
                                .d_rot = c->d_turned,
                                .at = nope,
                                .interleaved = c->turns_beside,
                                .cos = m->rope[LAYER_ROPE].cos,
                                .sin = m->rope[LAYER_ROPE].sin};
    struct val kv =
        op_linear(b, h, model_layer(m, l, SLOT_KV_LATENT), model_layer(m, l, SLOT_KV_LATENT_BIAS));
    if (q_latent) {
        h = op_linear(b, h, q_latent, model_layer(m, l, SLOT_Q_LATENT_BIAS));
        h = op_rmsnorm(b, h, model_layer(m, l, SLOT_Q_LATENT_NORM), LATENT_EPS, false);
    }
    *q = op_rope(b, op_linear(b, h, model_layer(m, l, SLOT_Q), NULL), &turn);
    if (c->query_growth != 0)
        *q = op_row_scale(b, *q, m->q_scale);
    turn.n_head = 1, turn.d_head = c->d_turned, turn.at = 0;
    struct val turned = op_rope(b, op_slice(b, kv, c->d_latent, c->d_turned), &turn);
    kv = op_rmsnorm(b, op_slice(b, kv, 0, c->d_latent), model_layer(m, l, SLOT_KV_LATENT_NORM),
                    LATENT_EPS, false);
    kv = op_linear(b, kv, model_layer(m, l, SLOT_KV_UP), NULL);
    *k = op_heads(b, kv, turned, &keys);
    *v = op_heads(b, kv, (struct val){.id = -1}, &values);
}

/* q, k, v by three products, or by one whose output is cut. */
static void project(const struct model *m, struct builder *b, struct val h, int64_t l,
                    struct val *q, struct val *k, struct val *v)
{
    const struct layer *y = &m->layer[l];
    const struct param *joined = model_layer(m, l, SLOT_QKV), *value = model_layer(m, l, SLOT_V);
    int64_t n_q = (int64_t)m->cfg.n_head * y->d_head, n_kv = (int64_t)y->n_kv_head * y->d_head;
    if (joined) {
        struct val all = op_linear(b, h, joined, model_layer(m, l, SLOT_QKV_BIAS));
        *q = op_slice(b, all, 0, n_q);
        *k = op_slice(b, all, n_q, n_kv);
        *v = op_slice(b, all, n_q + n_kv, n_kv);
        return;
    }
    *q = op_linear(b, h, model_layer(m, l, SLOT_Q), model_layer(m, l, SLOT_Q_BIAS));
    if (y->kv_layer != l)
        return;
    *k = op_linear(b, h, model_layer(m, l, SLOT_K), model_layer(m, l, SLOT_K_BIAS));
    *v = value ? op_linear(b, h, value, model_layer(m, l, SLOT_V_BIAS)) : *k;
}

/* Queries or keys before they meet: normed, each head or all, and turned, where the layer does so.
 */
static struct val heads(const struct model *m, struct builder *b, struct val x,
                        const struct layer *y, const struct param *weight, int32_t n_head)
{
    struct op_rope_attr a = {.n_head = n_head, .d_head = y->d_head};
    if (weight)
        x = norm(m, b, x, weight, NULL);
    if (y->rope == LAYER_ROPE_NONE)
        return x;
    a.d_rot = m->rope[y->rope].d_rot;
    a.cos = m->rope[y->rope].cos;
    a.sin = m->rope[y->rope].sin;
    return op_rope(b, x, &a);
}

/* Of a gated layer a head's query is followed by its gate. */
static struct val take_gate(const struct model *m, struct builder *b, struct val *q)
{
    const struct config *c = &m->cfg;
    const int32_t part[] = {c->d_head, c->d_head};
    int64_t n_q = (int64_t)c->n_head * c->d_head;
    struct val both = op_regroup(b, *q, c->n_head, part, 2);
    *q = op_slice(b, both, 0, n_q);
    return op_slice(b, both, n_q, n_q);
}

static bool is_met_later(const struct model *m, int64_t l)
{
    for (int64_t i = l + 1; i < m->cfg.n_layer; i++)
        if (m->layer[i].kv_layer == l)
            return true;
    return false;
}

/* Keys and values as they are met: of the layer, or of the one that it shares them with. */
static struct layer_kv keys_of(const struct model *m, struct builder *b, struct layer_kv own,
                               int64_t l, struct between *w)
{
    const struct layer *y = &m->layer[l];
    struct layer_kv *last = &w->kv[y->window > 0];
    if (y->kv_layer != l)
        return *last;
    own.k = heads(m, b, own.k, y, model_layer(m, l, SLOT_K_NORM), y->n_kv_head);
    if (m->cfg.norms_v)
        own.v = op_rmsnorm_bare(b, own.v, y->d_head, (float)m->cfg.norm_eps);
    if (is_met_later(m, l))
        *last = (struct layer_kv){builder_keep(b, own.k), builder_keep(b, own.v)};
    return own;
}

/* Queries, keys and values as they meet. */
static struct val qkv(const struct model *m, struct builder *b, struct val h, int64_t l,
                      struct between *w, struct val *q, struct layer_kv *own)
{
    const struct config *c = &m->cfg;
    const struct layer *y = &m->layer[l];
    struct val y_gate = {.id = -1};
    if (c->d_latent) {
        project_latent(m, b, h, l, q, &own->k, &own->v);
        return y_gate;
    }
    project(m, b, h, l, q, &own->k, &own->v);
    if (c->has_attn_gate)
        y_gate = take_gate(m, b, q);
    *q = heads(m, b, *q, y, model_layer(m, l, SLOT_Q_NORM), c->n_head);
    if (c->query_growth != 0)
        *q = op_row_scale(b, *q, m->q_scale);
    *own = keys_of(m, b, *own, l, w);
    return y_gate;
}

static struct val attention(const struct model *m, struct builder *b, struct val h, int64_t l,
                            struct between *w)
{
    const struct config *c = &m->cfg;
    const struct layer *y = &m->layer[l];
    struct op_attn_attr a = {.layer = y->kv_layer,
                             .n_head = c->n_head,
                             .n_kv_head = y->n_kv_head,
                             .d_head = y->d_head,
                             .window = y->window,
                             .causal = y->is_causal,
                             .scale = y->scale,
                             .softcap = y->cap,
                             .sink = model_layer(m, l, SLOT_SINK)};
    struct op_heads_attr values = {c->n_head, c->d_head, 0, c->d_value, 0};
    struct layer_kv own = {{-1}, {-1}};
    struct val q, y_gate = qkv(m, b, h, l, w, &q, &own);
    struct val x = op_attn(b, q, own.k, own.v, &a);
    if (c->d_latent && c->d_value < c->d_head)
        x = op_heads(b, x, (struct val){.id = -1}, &values);
    if (c->has_attn_gate)
        x = op_glu(b, x, y_gate);
    return op_linear(b, x, model_layer(m, l, SLOT_O), model_layer(m, l, SLOT_O_BIAS));
}

/* ---- short convolution ---------------------------------------------------------------------- */

/* Gated on its way in and on its way out. */
static struct val short_conv(const struct model *m, struct builder *b, struct val h, int64_t l)
{
    int64_t d = m->cfg.d_model;
    struct op_conv_attr a = {.weight = model_layer(m, l, SLOT_CONV),
                             .bias = model_layer(m, l, SLOT_CONV_BIAS),
                             .layer = l};
    struct val all =
        op_linear(b, h, model_layer(m, l, SLOT_CONV_IN), model_layer(m, l, SLOT_CONV_IN_BIAS));
    struct val x = op_mul(b, op_slice(b, all, 0, d), op_slice(b, all, 2 * d, d));
    x = op_mul(b, op_slice(b, all, d, d), op_conv(b, x, &a));
    return op_linear(b, x, model_layer(m, l, SLOT_CONV_OUT), model_layer(m, l, SLOT_CONV_OUT_BIAS));
}

/* ---- gated delta rule ------------------------------------------------------------------------ */

static struct op_state_heads state_heads(const struct config *c, int64_t l)
{
    return (struct op_state_heads){.layer = l,
                                   .n_k = c->n_state_k,
                                   .n_v = c->n_state_v,
                                   .d_k = c->d_state_k,
                                   .d_v = c->d_state_v};
}

/* q, k and v side by side, and z. */
static struct val delta_project(const struct model *m, struct builder *b, struct val h, int64_t l,
                                struct op_delta_in *in, struct val *z)
{
    const struct config *c = &m->cfg;
    int32_t share = c->n_state_v / c->n_state_k;
    int64_t d_v = (int64_t)c->n_state_v * c->d_state_v, d = config_conv_width(c);
    if (!c->is_delta_joined) {
        struct val x = op_linear(b, h, model_layer(m, l, SLOT_DELTA_QKV), NULL);
        *z = op_linear(b, h, model_layer(m, l, SLOT_DELTA_Z), NULL);
        in->b = op_linear(b, h, model_layer(m, l, SLOT_DELTA_B), NULL);
        in->a = op_linear(b, h, model_layer(m, l, SLOT_DELTA_A), NULL);
        return x;
    }
    const int32_t wide[] = {c->d_state_k, c->d_state_k, share * c->d_state_v, share * c->d_state_v};
    const int32_t narrow[] = {share, share};
    struct val all = op_linear(b, h, model_layer(m, l, SLOT_DELTA_QKVZ), NULL);
    struct val rates = op_linear(b, h, model_layer(m, l, SLOT_DELTA_BA), NULL);
    all = op_regroup(b, all, c->n_state_k, wide, 4);
    rates = op_regroup(b, rates, c->n_state_k, narrow, 2);
    *z = op_slice(b, all, d, d_v);
    in->b = op_slice(b, rates, 0, c->n_state_v);
    in->a = op_slice(b, rates, c->n_state_v, c->n_state_v);
    return op_slice(b, all, 0, d);
}

static struct val delta(const struct model *m, struct builder *b, struct val h, int64_t l)
{
    const struct config *c = &m->cfg;
    struct op_conv_attr conv = {.weight = model_layer(m, l, SLOT_CONV), .layer = l};
    struct op_delta_attr at = {.a_log = model_layer(m, l, SLOT_STATE_A_LOG),
                               .dt_bias = model_layer(m, l, SLOT_STATE_DT_BIAS),
                               .heads = state_heads(c, l)};
    int64_t d_q = (int64_t)c->n_state_k * c->d_state_k, d_v = (int64_t)c->n_state_v * c->d_state_v;
    struct op_delta_in in;
    struct val z, x = delta_project(m, b, h, l, &in, &z);
    x = op_conv(b, x, &conv);
    x = op_glu(b, x, x); /* SiLU */
    in.q = op_slice(b, x, 0, d_q);
    in.k = op_slice(b, x, d_q, d_q);
    in.v = op_slice(b, x, 2 * d_q, d_v);
    x = op_delta(b, &in, &at);
    x = op_rmsnorm(b, x, model_layer(m, l, SLOT_STATE_NORM), (float)c->norm_eps, false);
    return op_linear(b, op_swiglu(b, z, x), model_layer(m, l, SLOT_STATE_OUT), NULL);
}

/* ---- state-space scan ----------------------------------------------------------------------- */

/* One product has all: the gate, what is convolved, and a step for each head. */
static struct val scan(const struct model *m, struct builder *b, struct val h, int64_t l)
{
    const struct config *c = &m->cfg;
    struct op_conv_attr conv = {.weight = model_layer(m, l, SLOT_CONV),
                                .bias = model_layer(m, l, SLOT_CONV_BIAS),
                                .layer = l};
    struct op_scan_attr at = {.a_log = model_layer(m, l, SLOT_STATE_A_LOG),
                              .dt_bias = model_layer(m, l, SLOT_STATE_DT_BIAS),
                              .skip = model_layer(m, l, SLOT_SCAN_SKIP),
                              .heads = state_heads(c, l),
                              .lo = (float)c->scan_lo,
                              .hi = (float)c->scan_hi};
    int64_t d_k = (int64_t)c->n_state_k * c->d_state_k, d_v = (int64_t)c->n_state_v * c->d_state_v;
    int64_t d_conv = d_v + 2 * d_k;
    struct val all =
        op_linear(b, h, model_layer(m, l, SLOT_CONV_IN), model_layer(m, l, SLOT_CONV_IN_BIAS));
    struct val z = op_slice(b, all, 0, d_v), x = op_conv(b, op_slice(b, all, d_v, d_conv), &conv);
    struct op_scan_in in = {.dt = op_slice(b, all, d_v + d_conv, c->n_state_v)};
    x = op_glu(b, x, x); /* SiLU */
    in.v = op_slice(b, x, 0, d_v);
    in.k = op_slice(b, x, d_v, d_k);
    in.q = op_slice(b, x, d_v + d_k, d_k);
    x = op_swiglu(b, z, op_scan(b, &in, &at));
    x = op_rmsnorm_groups(b, x, model_layer(m, l, SLOT_STATE_NORM), d_v / c->n_state_k,
                          (float)c->norm_eps);
    return op_linear(b, x, model_layer(m, l, SLOT_CONV_OUT), model_layer(m, l, SLOT_CONV_OUT_BIAS));
}

static struct val mixer(const struct model *m, struct builder *b, struct val h, int64_t l,
                        struct between *w)
{
    switch (m->layer[l].mixer) {
    case MIXER_CONV:
        return short_conv(m, b, h, l);
    case MIXER_DELTA:
        return delta(m, b, h, l);
    case MIXER_SCAN:
        return scan(m, b, h, l);
    case MIXER_ATTENTION:
    case MIXER_COUNT:
        break;
    }
    return attention(m, b, h, l, w);
}

/* ---- feed-forward --------------------------------------------------------------------------- */

/* g: only of the gated kinds. */
static struct val activate(struct builder *b, enum layer_ff kind, struct val g, struct val u)
{
    if (kind == FF_SWIGLU)
        return op_swiglu(b, g, u);
    if (kind == FF_GELU || kind == FF_GELU_TANH)
        return op_gelu(b, u, kind == FF_GELU_TANH);
    return op_mul(b, op_gelu(b, g, kind == FF_GEGLU_TANH), u);
}

/* Gate, where the kind has one, and up. */
static void open_gate(const struct model *m, struct builder *b, struct val h, int64_t l,
                      struct val *g, struct val *u)
{
    const struct param *joined = model_layer(m, l, SLOT_GATE_UP), *gate;
    if (joined) {
        struct val both = op_linear(b, h, joined, model_layer(m, l, SLOT_GATE_UP_BIAS));
        *g = op_slice(b, both, 0, m->layer[l].d_ff);
        *u = op_slice(b, both, m->layer[l].d_ff, m->layer[l].d_ff);
        return;
    }
    gate = model_layer(m, l, SLOT_GATE);
    *g = gate ? op_linear(b, h, gate, model_layer(m, l, SLOT_GATE_BIAS)) : (struct val){.id = -1};
    *u = op_linear(b, h, model_layer(m, l, SLOT_UP), model_layer(m, l, SLOT_UP_BIAS));
}

/* The expert that every row goes to, held back by a number of the row's. */
static struct val shared_expert(const struct model *m, struct builder *b, struct val h, int64_t l)
{
    struct val g = op_linear(b, h, model_layer(m, l, SLOT_SHARED_GATE), NULL);
    struct val u = op_linear(b, h, model_layer(m, l, SLOT_SHARED_UP), NULL);
    struct val y = op_linear(b, op_swiglu(b, g, u), model_layer(m, l, SLOT_SHARED_DOWN), NULL);
    const struct param *weight = model_layer(m, l, SLOT_SHARED_WEIGHT);
    return weight ? op_row_gate(b, y, op_linear(b, h, weight, NULL)) : y;
}

static int32_t mixtures_before(const struct config *c, int64_t l)
{
    int32_t n = 0;
    for (int64_t i = 0; i < l; i++)
        n += c->has_experts[i];
    return n;
}

static int8_t gelu_of(enum layer_ff kind)
{
    return kind == FF_GEGLU_TANH ? EXPERTS_GELU_TANH
           : kind == FF_GEGLU    ? EXPERTS_GELU
                                 : EXPERTS_NO_GELU;
}

/* h: what experts read; to_router: what their router reads. */
static struct val mixture(const struct model *m, struct builder *b, struct val h,
                          struct val to_router, int64_t l)
{
    struct op_experts_attr a = {.gate = model_layer(m, l, SLOT_EXPERT_GATE),
                                .up = model_layer(m, l, SLOT_EXPERT_UP),
                                .down = model_layer(m, l, SLOT_EXPERT_DOWN),
                                .gate_bias = model_layer(m, l, SLOT_EXPERT_GATE_BIAS),
                                .up_bias = model_layer(m, l, SLOT_EXPERT_UP_BIAS),
                                .down_bias = model_layer(m, l, SLOT_EXPERT_DOWN_BIAS),
                                .limit = (float)m->cfg.swiglu_limit,
                                .alpha = (float)m->cfg.swiglu_alpha,
                                .n_expert = m->cfg.n_expert,
                                .slot = mixtures_before(&m->cfg, l),
                                .top = m->cfg.n_top,
                                .choice_bias = model_layer(m, l, SLOT_CHOICE_BIAS),
                                .each = model_layer(m, l, SLOT_EXPERT_SCALE),
                                .n_group = m->cfg.n_group,
                                .top_group = m->cfg.n_top_group,
                                .group_best = (int8_t)m->cfg.route_best,
                                .scale = (float)m->cfg.route_scale,
                                .is_sigmoid = m->cfg.is_sigmoid_route,
                                .gelu = gelu_of(m->layer[l].ff_beside),
                                .normalises = m->cfg.normalises_top};
    struct val logits = op_linear(b, to_router, model_layer(m, l, SLOT_ROUTER),
                                  model_layer(m, l, SLOT_ROUTER_BIAS));
    struct val y = op_experts(b, h, logits, &a);
    return model_layer(m, l, SLOT_SHARED_DOWN) ? op_add(b, y, shared_expert(m, b, h, l)) : y;
}

static struct val plain(const struct model *m, struct builder *b, struct val h, int64_t l,
                        enum layer_ff kind)
{
    struct val g, u;
    open_gate(m, b, h, l, &g, &u);
    if (m->layer[l].cuts_gate)
        g = op_cutoff(b, g, m->layer[l].cut);
    u = activate(b, kind, g, u);
    return op_linear(b, u, model_layer(m, l, SLOT_DOWN), model_layer(m, l, SLOT_DOWN_BIAS));
}

/* The sum of what every row goes through and of a mixture that reads the stream by norms of its
 * own, each of which is normed once more. */
static struct val beside_mixture(const struct model *m, struct builder *b, struct val h, int64_t l,
                                 struct val stream)
{
    struct val x = norm(m, b, stream, model_layer(m, l, SLOT_EXPERTS_NORM), NULL);
    struct val to_router = norm(m, b, stream, model_layer(m, l, SLOT_ROUTER_NORM), NULL);
    to_router = op_scale(b, to_router, (float)(1 / sqrt((double)m->cfg.d_model)));
    x = norm(m, b, mixture(m, b, x, to_router, l), model_layer(m, l, SLOT_EXPERTS_OUT_NORM), NULL);
    h = plain(m, b, h, l, m->layer[l].ff_beside);
    return op_add(b, norm(m, b, h, model_layer(m, l, SLOT_BESIDE_OUT_NORM), NULL), x);
}

/* Beside a mixture there may be what every row goes through. */
static struct val feed_forward(const struct model *m, struct builder *b, struct val h, int64_t l,
                               struct between *w)
{
    const struct layer *y = &m->layer[l];
    if (y->ff != FF_EXPERTS)
        return plain(m, b, h, l, y->ff);
    if (model_layer(m, l, SLOT_EXPERTS_NORM))
        return beside_mixture(m, b, h, l, w->stream);
    struct val x = mixture(m, b, h, h, l);
    return model_layer(m, l, SLOT_DOWN) ? op_add(b, x, plain(m, b, h, l, y->ff_beside)) : x;
}

/* ---- embeddings of layers' own --------------------------------------------------------------- */

/* Of all layers, by the token and by its embedding x. */
static struct val own_embeddings(const struct model *m, struct builder *b, struct val x)
{
    const struct config *c = &m->cfg;
    struct val none = {.id = -1};
    if (!m->slot[SLOT_PLE_EMBED])
        return none;
    builder_keep(b, x);
    struct val own = op_scale(b, op_embed_known(b, m->slot[SLOT_PLE_EMBED]), (float)c->ple_scale);
    x = op_scale(b, op_linear(b, x, m->slot[SLOT_PLE_PROJECT], NULL),
                 (float)(1 / sqrt((double)c->d_model)));
    x = op_add(b, norm(m, b, x, m->slot[SLOT_PLE_NORM], NULL), own);
    return builder_keep(b, op_scale(b, x, (float)sqrt(0.5)));
}

/* What a layer makes of its own, gated by h. */
static struct val gated_embedding(const struct model *m, struct builder *b, struct val h, int64_t l,
                                  const struct between *w)
{
    int64_t d = m->cfg.d_ple;
    h = op_gelu(b, op_linear(b, h, model_layer(m, l, SLOT_PLE_GATE), NULL),
                m->cfg.act == ACT_GELU_TANH);
    h = op_mul(b, h, op_slice(b, w->ple, l * d, d));
    h = op_linear(b, h, model_layer(m, l, SLOT_PLE_UP), NULL);
    return norm(m, b, h, model_layer(m, l, SLOT_PLE_OUT_NORM), NULL);
}

/* That added to the stream, which the layer's number is the last to change. */
static struct val own_embedding(const struct model *m, struct builder *b, struct val x, int64_t l,
                                const struct between *w)
{
    const struct layer *y = &m->layer[l];
    if (model_layer(m, l, SLOT_PLE_GATE))
        x = op_add(b, x, gated_embedding(m, b, x, l, w));
    return y->out_scale != 0 ? op_scale(b, x, y->out_scale) : x;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* The least size of what is made as large as the first track. */
static const float TRACK_LEAST = 0.0031622776f; /* a mean square of 1e-5 */

static struct val track(const struct model *m, struct builder *b, struct val all, int32_t i)
{
    return op_slice(b, all, i * m->cfg.d_model, m->cfg.d_model);
}

/* y behind the n tracks that x is. */
static struct val join(const struct model *m, struct builder *b, struct val x, int32_t n,
                       struct val y, int32_t n_y)
{
    int32_t d = (int32_t)m->cfg.d_model;
    return op_heads(b, x, y, &(struct op_heads_attr){1, n * d, 0, n * d, n_y * d});
}

/* Embeddings, and beside them what the other tracks begin with. */
static struct val begin_tracks(const struct model *m, struct builder *b, struct val x)
{
    struct val all = x;
    for (int32_t i = 1; i < m->cfg.n_track; i++) {
        struct val y = op_linear(b, x, m->slot[SLOT_TRACK_IN + i - 1], NULL);
        all = join(m, b, all, i, op_match(b, y, x, TRACK_LEAST), 1);
    }
    return all;
}

/* The mean of what all end in. */
static struct val end_tracks(const struct model *m, struct builder *b, struct val all)
{
    struct val first = track(m, b, all, 0), sum = first;
    for (int32_t i = 1; i < m->cfg.n_track; i++) {
        struct val y = op_linear(b, track(m, b, all, i), m->slot[SLOT_TRACK_OUT + i - 1], NULL);
        sum = op_add(b, sum, op_match(b, y, first, TRACK_LEAST));
    }
    return op_scale(b, sum, 1 / (float)m->cfg.n_track);
}

/* A row's weights of tracks, by what is on the first one. */
static struct val track_weights(const struct model *m, struct builder *b, struct val x, int64_t l,
                                enum slot by)
{
    x = norm(m, b, x, model_layer(m, l, SLOT_TRACK_NORM), NULL);
    x = op_scale(b, x, (float)(1 / (double)m->cfg.d_model));
    x = op_softcap(b, op_linear(b, x, model_layer(m, l, SLOT_TRACK_ROUTER), NULL), 1);
    return op_linear(b, x, model_layer(m, l, by), NULL);
}

/* Attention, a narrow product beside it, and the feed-forward, of the first track. */
static struct val first_track(const struct model *m, struct builder *b, struct val x, int64_t l,
                              struct between *w)
{
    struct val h = norm(m, b, x, model_layer(m, l, SLOT_ATTN_NORM), NULL);
    struct val beside = op_linear(b, h, model_layer(m, l, SLOT_LAUREL_IN), NULL);
    beside = op_linear(b, beside, model_layer(m, l, SLOT_LAUREL_OUT), NULL);
    beside = op_add(b, h, norm(m, b, beside, model_layer(m, l, SLOT_LAUREL_NORM), NULL));
    h = norm(m, b, attention(m, b, h, l, w), model_layer(m, l, SLOT_ATTN_OUT_NORM), NULL);
    x = op_scale(b, op_add(b, op_add(b, x, h), beside), (float)sqrt(0.5));
    h = plain(m, b, norm(m, b, x, model_layer(m, l, SLOT_MLP_NORM), NULL), l, m->layer[l].ff);
    return op_add(b, x, norm(m, b, h, model_layer(m, l, SLOT_MLP_OUT_NORM), NULL));
}

/* All tracks are predicted from all; the layer runs on the first, and what it found otherwise than
 * predicted corrects all. The layer's own embedding joins the others. */
static struct val track_layer(const struct model *m, struct builder *b, struct val all, int64_t l,
                              struct between *w)
{
    int32_t n = m->cfg.n_track, d = (int32_t)m->cfg.d_model;
    const struct param *scale = model_layer(m, l, SLOT_TRACK_SCALE);
    struct val none = {.id = -1};
    struct val weights = track_weights(m, b, track(m, b, all, 0), l, SLOT_TRACK_PREDICT);
    all = op_mix(b, all, all, weights, &(struct op_mix_attr){.n = n, .k = n});
    struct val predicted = track(m, b, all, 0), x = first_track(m, b, predicted, l, w);
    weights = track_weights(m, b, x, l, SLOT_TRACK_CORRECT);
    x = op_mix(b, x, predicted, none, &(struct op_mix_attr){.n = 1, .k = 1, .plus = -1});
    all = op_mix(b, all, x, weights, &(struct op_mix_attr){.n = n, .k = 1, .plus = 1});
    struct val first = track(m, b, all, 0), h = first;
    if (scale)
        h = op_col_scale(b, h, scale);
    h = op_mix(b, op_slice(b, all, d, (n - 1) * d), gated_embedding(m, b, h, l, w), none,
               &(struct op_mix_attr){.n = n - 1, .k = 1, .plus = 1});
    return join(m, b, first, 1, h, n - 1);
}

/* ---- a layer, an output, the model ----------------------------------------------------------- */

typedef struct val half_fn(const struct model *m, struct builder *b, struct val h, int64_t l,
                           struct between *w);

/* The parameters of a half's norms. */
struct half_norms {
    enum slot before, bias, after;
};

/* One half of a layer, added to the stream, and normed where the layer says. */
static struct val half(const struct model *m, struct builder *b, struct val x, int64_t l,
                       half_fn *f, const struct half_norms *n, struct between *w)
{
    const struct layer *y = &m->layer[l];
    w->stream = x;
    const struct param *before = model_layer(m, l, n->before), *bias = model_layer(m, l, n->bias),
                       *after = model_layer(m, l, n->after);
    if (y->norms == NORMS_SUM)
        return norm(m, b, op_add(b, x, f(m, b, x, l, w)), before, bias);
    struct val h = f(m, b, before ? norm(m, b, x, before, bias) : x, l, w);
    if (after)
        h = norm(m, b, h, after, NULL);
    return op_add(b, x, scaled(b, h, y->residual));
}

static struct val decoder_output(const struct model *m, struct builder *b, struct val x,
                                 enum model_output output)
{
    const struct param *weight = m->slot[SLOT_FINAL_NORM], *bias = m->slot[SLOT_FINAL_NORM_BIAS];
    const struct param *lm_head = b->saved[SAVED_HEAD] ? b->saved[SAVED_HEAD] : model_lm_head(m);
    float cap = (float)m->cfg.logit_cap;
    if (output == MODEL_HIDDEN)
        return norm(m, b, x, weight, bias);
    x = norm(m, b, op_gather(b, x), weight, bias);
    if (output == MODEL_EMBED)
        return op_l2norm(b, x, 1e-12f);
    x = scaled(b, x, (float)m->cfg.logit_scale);
    if (output == MODEL_LOSS)
        return op_ce(b, x, lm_head, cap);
    struct val y = op_linear(b, x, lm_head, NULL);
    if (b->has_saved)
        y = op_saved(b, y, x, lm_head);
    return cap > 0 ? op_softcap(b, y, cap) : y;
}

static struct val final_norm(const struct model *m, struct builder *b, struct val x)
{
    const struct param *weight = m->slot[SLOT_FINAL_NORM];
    return weight ? norm(m, b, x, weight, m->slot[SLOT_FINAL_NORM_BIAS]) : x;
}

/* A number for each label, of each text's row. */
static struct val classify(const struct model *m, struct builder *b, struct val x)
{
    const struct param *pooler = m->slot[SLOT_POOLER], *normed = m->slot[SLOT_POOLER_NORM];
    if (pooler)
        x = op_linear(b, x, pooler, m->slot[SLOT_POOLER_BIAS]);
    if (normed)
        x = norm(m, b, op_gelu(b, x, false), normed, m->slot[SLOT_POOLER_NORM_BIAS]);
    else if (pooler) /* bounded by 1 it is the tanh */
        x = op_softcap(b, x, 1);
    return op_linear(b, x, m->slot[SLOT_CLASSIFIER], m->slot[SLOT_CLASSIFIER_BIAS]);
}

/* A text's vector through the products behind the pooling. */
static struct val densely(const struct model *m, struct builder *b, struct val x)
{
    for (int32_t i = 0; i < m->cfg.n_dense; i++) {
        x = op_linear(b, x, m->slot[SLOT_DENSE + 2 * i], m->slot[SLOT_DENSE_BIAS + 2 * i]);
        if (m->cfg.dense[i].is_tanh)
            x = op_softcap(b, x, 1);
    }
    return x;
}

/* Where a vector is taken from one row, the batch's wanted rows are the first of each sequence, or
 * the last. */
static struct val encoder_output(const struct model *m, struct builder *b, struct val x,
                                 enum model_output output)
{
    if (output == MODEL_HIDDEN)
        return final_norm(m, b, x);
    if (output != MODEL_EMBED)
        return builder_fail(b, ERR_UNSUPPORTED, "an encoder has no lm_head");
    x = m->cfg.pool == POOL_MEAN ? op_mean_pool(b, final_norm(m, b, x))
                                 : final_norm(m, b, op_gather(b, x));
    if (m->cfg.classifier)
        return classify(m, b, x);
    x = densely(m, b, x);
    return m->cfg.normalizes ? op_l2norm(b, x, 1e-12f) : x;
}

static const struct half_norms attn_norms = {SLOT_ATTN_NORM, SLOT_ATTN_NORM_BIAS,
                                             SLOT_ATTN_OUT_NORM};
static const struct half_norms mlp_norms = {SLOT_MLP_NORM, SLOT_MLP_NORM_BIAS, SLOT_MLP_OUT_NORM};

struct val model_build(const struct model *m, struct builder *b, enum model_output output)
{
    struct val x = embed(m, b);
    struct between w = {.ple = own_embeddings(m, b, x)};
    if (m->cfg.n_track)
        x = begin_tracks(m, b, x);
    for (int64_t l = 0; l < m->cfg.n_layer; l++) {
        builder_block(b, (int)l);
        if (m->cfg.n_track) {
            x = track_layer(m, b, x, l, &w);
            continue;
        }
        x = half(m, b, x, l, mixer, &attn_norms, &w);
        x = half(m, b, x, l, feed_forward, &mlp_norms, &w);
        x = own_embedding(m, b, x, l, &w);
    }
    builder_block(b, -1);
    if (m->cfg.n_track)
        x = end_tracks(m, b, x);
    return m->cfg.is_encoder ? encoder_output(m, b, x, output) : decoder_output(m, b, x, output);
}
