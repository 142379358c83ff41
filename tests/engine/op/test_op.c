/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward of every op against central differences of its own forward. Inputs are rows of
 * trainable tables, so that each gradient can be read where a parameter's is.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/eager/eager.h"
#include "engine/op/ops.h"
#include "engine/run/inputs.h"
#include "tests/lib/golden.h"

enum { T = 9, D = 12, N_OUT = 4, N_VOCAB = 70, LEAF_MAX = 9, RANK = 3 };

/* A parameter with its row-major original and its gradient. */
struct leaf {
    struct param p;
    float *x, *grad, *memory; /* owned */
};

struct rig {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct eager *eager;
    struct inputs in;
    struct k_kv_cache kv;
    void *cells;
    float cos[T * D], sin[T * D];
    struct leaf leaf[LEAF_MAX];
    int n_leaf;
    struct k_lora_group *lora;
    bool has_lora;
};

/* Builds the op under test over the rig's leaves. */
typedef struct val build_fn(struct rig *r, struct builder *b);

static struct param *leaf_new(struct rig *r, int64_t n, int64_t k, bool is_vector)
{
    struct leaf *l = &r->leaf[r->n_leaf++];
    struct err e = ERR_INIT;
    l->x = xcalloc((size_t)(n * k), sizeof(float));
    l->grad = xcalloc((size_t)(n * k), sizeof(float));
    l->memory = try_alloc(k_weight_bytes(K_F32, n, k), 1, "leaf", &e);
    for (int64_t i = 0; i < n * k; i++)
        l->x[i] = 0.7f * rng_normal(11, (uint64_t)r->n_leaf, (uint64_t)i) + (is_vector ? 1 : 0);
    l->p = (struct param){
        .name = "leaf", .lora = -1, .is_vector = is_vector, .n = n, .k = k, .grad = l->grad};
    k_weight_bind(&l->p.w, K_F32, n, k, l->memory);
    l->p.vec = l->x;
    return &l->p;
}

static void leaf_pack(struct rig *r, struct leaf *l)
{
    struct k_weight_pack a = {
        .src = l->x, .src_type = K_F32, .ld_src = l->p.k, .w = l->p.w, .n_src = l->p.n};
    if (!l->p.is_vector)
        kernel_run(device_kernels(r->device), K_weight_pack, &a, NULL);
}

/* Two sequences of 5 and 4 tokens; token i reads row i of a table; four rows are wanted. */
static void fill_batch(struct rig *r)
{
    struct batch *b = &r->in.host;
    static const int32_t out[N_OUT] = {1, 4, 6, 8}, start[3] = {0, 5, T};
    for (int32_t i = 0; i < T; i++) {
        b->token[i] = i;
        b->segment[i] = i % 2;
        b->seq_of[i] = i >= 5;
        b->pos[i] = i < 5 ? i : i - 5;
        b->dropout_key[i] = (uint64_t)i;
    }
    for (int32_t i = 0; i < N_OUT; i++) {
        b->out_row[i] = out[i];
        b->target[i] = i * 17 % N_VOCAB;
        b->dloss[i] = 0.3f * (float)(i + 1);
    }
    memcpy(b->q_start, start, sizeof start);
    b->kv_len[0] = 5;
    b->kv_len[1] = 4;
    b->cell[0] = 0;
    b->cell[b->cell_stride] = 1;
    b->n[DIM_TOK] = T;
    b->n[DIM_SEQ] = 2;
    b->n[DIM_OUT] = N_OUT;
    b->n[DIM_GROUP] = 1;
    b->dropout_seed = 5;
    b->kv = &r->kv;
    r->in.dev.kv = &r->kv;
}

static void rig_init(struct rig *r)
{
    struct err e = ERR_INIT;
    struct inputs_caps caps = {
        .n = {[DIM_TOK] = T, [DIM_OUT] = N_OUT, [DIM_SEQ] = 2, [DIM_GROUP] = 1},
        .cell_stride = 1,
        .n_lora = 1,
        .trains = true};
    size_t cell = k_kv_cell_bytes(K_F32, D / 3) * 3 * 2;
    memset(r, 0, sizeof *r);
    r->pool = pool_new(1, false, &e);
    r->device = device_cpu_new(r->pool, NULL, &e);
    r->stream = stream_new(r->device, &e);
    r->eager = eager_new(r->stream, &e);
    assert_good(inputs_init(&r->in, &caps, r->device, &e), &e);
    r->cells = device_alloc(r->device, 2 * cell, "cells", &e);
    r->kv = (struct k_kv_cache){.type = K_F32,
                                .k = r->cells,
                                .v = (char *)r->cells + cell,
                                .n_kv_head = 1,
                                .d_head = D / 3,
                                .n_cell = 2};
    for (int i = 0; i < T * D; i++) {
        r->cos[i] = (float)cos(0.3 * i);
        r->sin[i] = (float)sin(0.3 * i);
    }
    r->lora = r->in.host.lora;
    fill_batch(r);
}

static void rig_release(struct rig *r)
{
    for (int i = 0; i < r->n_leaf; i++) {
        free(r->leaf[i].x);
        free(r->leaf[i].grad);
        mem_free(r->leaf[i].memory);
    }
    eager_free(r->eager);
    device_mem_free(r->device, r->cells);
    inputs_release(&r->in);
    stream_free(r->stream);
    device_free(r->device);
    pool_free(r->pool);
}

/* A loss made of the result: a fixed weight for each of its numbers, or the op's own loss. */
static double run(struct rig *r, build_fn *build, bool backward)
{
    struct err e = ERR_INIT;
    struct eager_options o = {
        .wants_grad = backward, .has_lora = r->has_lora, .lora_rank_max = RANK};
    double loss = 0;
    for (int i = 0; i < r->n_leaf; i++)
        leaf_pack(r, &r->leaf[i]);
    const struct batch *b = inputs_send(&r->in, r->stream);
    eager_begin(r->eager, b, &o);
    struct val v = build(r, eager_builder(r->eager));
    assert_good(eager_builder(r->eager)->failed ? -1 : 0, &eager_builder(r->eager)->err);
    struct op_view y = eager_view(r->eager, v);
    int64_t n = b->n[y.shape.rows];
    if (y.shape.rows == DIM_OUT && y.shape.cols == OP_CE_COLS) {
        const struct k_ce_state *s = (const struct k_ce_state *)(const void *)y.p;
        for (int64_t i = 0; i < n; i++)
            loss -= (double)b->dloss[i] * ((double)s[i].target_logit - (double)k_ce_lse(&s[i]));
        if (backward)
            assert_good(eager_backward(r->eager, &e), &e);
        eager_end(r->eager);
        return loss;
    }
    float *seed = xcalloc((size_t)(n * y.shape.cols), sizeof *seed);
    for (int64_t i = 0; i < n * y.shape.cols; i++) {
        seed[i] = rng_normal(3, 1, (uint64_t)i);
        loss += (double)seed[i] * (double)y.p[i / y.shape.cols * y.ld + i % y.shape.cols];
    }
    if (backward) {
        assert_good(eager_seed(r->eager, v, seed, &e), &e);
        assert_good(eager_backward(r->eager, &e), &e);
    }
    free(seed);
    eager_end(r->eager);
    return loss;
}

static void check(struct rig *r, build_fn *build)
{
    const float h = 1e-2f;
    run(r, build, true);
    for (int i = 0; i < r->n_leaf; i++) {
        struct leaf *l = &r->leaf[i];
        double most = 0;
        for (int64_t k = 0; k < l->p.n * l->p.k; k++)
            most = fmax(most, fabs((double)l->grad[k]));
        for (int64_t k = 0; k < l->p.n * l->p.k; k++) {
            float x = l->x[k];
            l->x[k] = x + h;
            double up = run(r, build, false);
            l->x[k] = x - h;
            double down = run(r, build, false);
            l->x[k] = x;
            double want = (up - down) / (2 * (double)h);
            if (fabs((double)l->grad[k] - want) > 3e-3 * most + 3e-3)
                fail_msg("input %d, element %lld: %.6g, differences give %.6g", i, (long long)k,
                         (double)l->grad[k], want);
        }
    }
    rig_release(r);
}

static struct val leaf_rows(struct rig *r, struct builder *b, int i)
{
    return op_embed(b, OP_IDS_TOKEN, &r->leaf[i].p);
}

#define TEST_OF(name, prepare, expr)                                                               \
    static struct val build_##name(struct rig *r, struct builder *b)                               \
    {                                                                                              \
        struct val x = leaf_rows(r, b, 0), y = {.id = -1};                                         \
        (void)y, (void)x;                                                                          \
        return expr;                                                                               \
    }                                                                                              \
    static void test_op_##name(void **state)                                                       \
    {                                                                                              \
        struct rig r;                                                                              \
        (void)state;                                                                               \
        rig_init(&r);                                                                              \
        leaf_new(&r, T, D, false);                                                                 \
        prepare;                                                                                   \
        check(&r, build_##name);                                                                   \
    }

static const struct op_attn_attr attn_attr = {
    .n_head = 3, .n_kv_head = 1, .d_head = D / 3, .causal = 1, .scale = 0.5f, .window = 3};

/* Each fault: a term of the gradient lost, doubled, or put at the wrong input. */
TEST_OF(embed, (void)0, op_scale(b, op_add(b, x, op_embed(b, OP_IDS_POS, &r->leaf[0].p)), 1.0f))
TEST_OF(slice, (void)0, op_mul(b, op_slice(b, x, 0, 5), op_slice(b, x, 7, 5)))
TEST_OF(regroup, (void)0,
        op_mul(b, op_slice(b, op_regroup(b, x, 2, (int32_t[]){2, 3, 1}, 3), 2, 9),
               op_slice(b, x, 0, 9)))

static int32_t some_order[D] = {0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7};
static const struct param_order order = {.at = some_order, .k = D};

TEST_OF(reorder, (void)0, op_mul(b, op_reorder(b, op_mul(b, x, x), &order), x))

/* Of three heads of four: what they share comes from x, too, and zeros stand behind others. */
static struct val heads(struct builder *b, struct val x)
{
    struct op_heads_attr keys = {.n_head = 3, .d_head = 4, .lo = 0, .n = 2, .n_tail = 2};
    struct op_heads_attr values = {.n_head = 3, .d_head = 4, .lo = 1, .n = 3, .n_tail = 1};
    struct val k = op_heads(b, x, op_slice(b, x, 5, 2), &keys);
    return op_mul(b, k, op_heads(b, x, (struct val){.id = -1}, &values));
}

TEST_OF(row_scale, (void)0, op_row_scale(b, op_mul(b, x, x), r->cos))
TEST_OF(heads, (void)0, heads(b, x))
TEST_OF(gather, (void)0, op_gather(b, op_mul(b, x, x)))
TEST_OF(round, leaf_new(&r, 10, D, false), op_linear(b, op_mul(b, x, x), &r->leaf[1].p, NULL))
TEST_OF(linear, (leaf_new(&r, 35, D, false), leaf_new(&r, 35, 1, true)),
        op_linear(b, x, &r->leaf[1].p, &r->leaf[2].p))
TEST_OF(bias, leaf_new(&r, D, 1, true), op_bias(b, op_mul(b, x, x), &r->leaf[1].p))
TEST_OF(add, leaf_new(&r, T, D, false),
        op_add(b, op_mul(b, x, leaf_rows(r, b, 1)), op_add(b, x, x)))
TEST_OF(mul, leaf_new(&r, T, D, false), op_mul(b, op_add(b, x, leaf_rows(r, b, 1)), x))
TEST_OF(scale, (void)0, op_scale(b, op_mul(b, x, x), -1.5f))
TEST_OF(rmsnorm, leaf_new(&r, D, 1, true),
        op_add(b, op_rmsnorm(b, x, &r->leaf[1].p, 1e-5f, false), x))
TEST_OF(rmsnorm_heads, leaf_new(&r, 4, 1, true), op_rmsnorm(b, x, &r->leaf[1].p, 1e-5f, true))
TEST_OF(layernorm, (leaf_new(&r, D, 1, true), leaf_new(&r, D, 1, true)),
        op_layernorm(b, x, &r->leaf[1].p, &r->leaf[2].p, 1e-5f))
TEST_OF(rope, (void)0,
        op_rope(b, x,
                &(struct op_rope_attr){
                    .cos = r->cos, .sin = r->sin, .n_head = 2, .d_head = 6, .d_rot = 4}))
TEST_OF(attn, (leaf_new(&r, T, D / 3, false), leaf_new(&r, T, D / 3, false)),
        op_attn(b, x, leaf_rows(r, b, 1), leaf_rows(r, b, 2), &attn_attr))
static struct val attn_with_sink(struct rig *r, struct builder *b, struct val x)
{
    struct op_attn_attr a = attn_attr;
    a.sink = &r->leaf[3].p;
    return op_attn(b, x, leaf_rows(r, b, 1), leaf_rows(r, b, 2), &a);
}

TEST_OF(attn_sink,
        (leaf_new(&r, T, D / 3, false), leaf_new(&r, T, D / 3, false), leaf_new(&r, 3, 1, true)),
        attn_with_sink(r, b, x))
TEST_OF(conv, (leaf_new(&r, D * 3, 1, true)->n_tap = 3, leaf_new(&r, D, 1, true)),
        op_conv(b, x, &(struct op_conv_attr){.weight = &r->leaf[1].p, .bias = &r->leaf[2].p}))
TEST_OF(conv_long, (leaf_new(&r, D * 8, 1, true)->n_tap = 8),
        op_conv(b, op_mul(b, x, x), &(struct op_conv_attr){.weight = &r->leaf[1].p}))
TEST_OF(swiglu, leaf_new(&r, T, D, false), op_swiglu(b, x, op_add(b, x, leaf_rows(r, b, 1))))
TEST_OF(glu, leaf_new(&r, T, D, false),
        op_glu(b, op_glu(b, x, x), op_add(b, x, leaf_rows(r, b, 1))))
TEST_OF(row_gate, (void)0, op_row_gate(b, op_mul(b, x, x), op_slice(b, op_mul(b, x, x), 3, 1)))
TEST_OF(gelu, (void)0, op_add(b, op_gelu(b, x, false), op_gelu(b, x, true)))
TEST_OF(dropout, (void)0, op_dropout(b, op_mul(b, x, x), 0.4f, 2))
TEST_OF(noise, (void)0, op_noise(b, op_mul(b, x, x), 5))
TEST_OF(softcap, (void)0, op_softcap(b, op_mul(b, x, x), 2))
TEST_OF(ce, leaf_new(&r, N_VOCAB, D, false), op_ce(b, op_gather(b, x), &r->leaf[1].p, 0))
TEST_OF(ce_capped, leaf_new(&r, N_VOCAB, D, false), op_ce(b, op_gather(b, x), &r->leaf[1].p, 2))
TEST_OF(ce_part, leaf_new(&r, N_VOCAB, 8, false),
        op_ce(b, op_slice(b, op_gather(b, x), 3, 8), &r->leaf[1].p, 0))
TEST_OF(mean_pool, (void)0, op_mean_pool(b, op_mul(b, x, x)))

/* Two heads of values, 6 wide, to one of keys, 4 wide. */
static struct val delta(struct rig *r, struct builder *b, struct val v)
{
    struct op_delta_attr a = {.a_log = &r->leaf[2].p,
                              .dt_bias = &r->leaf[3].p,
                              .heads = {.n_k = 1, .n_v = 2, .d_k = 4, .d_v = 6}};
    struct val x = leaf_rows(r, b, 1);
    struct op_delta_in in = {.q = op_slice(b, x, 0, 4),
                             .k = op_slice(b, x, 4, 4),
                             .v = v,
                             .a = op_slice(b, x, 8, 2),
                             .b = op_slice(b, x, 10, 2)};
    return op_delta(b, &in, &a);
}

TEST_OF(delta, (leaf_new(&r, T, D, false), leaf_new(&r, 2, 1, true), leaf_new(&r, 2, 1, true)),
        delta(r, b, x))

/* The same heads. */
static struct val scan(struct rig *r, struct builder *b, struct val v)
{
    struct op_scan_attr a = {.a_log = &r->leaf[2].p,
                             .dt_bias = &r->leaf[3].p,
                             .skip = &r->leaf[4].p,
                             .heads = {.n_k = 1, .n_v = 2, .d_k = 4, .d_v = 6},
                             .lo = 0.1f,
                             .hi = 1000};
    struct val x = leaf_rows(r, b, 1);
    struct op_scan_in in = {
        .q = op_slice(b, x, 0, 4), .k = op_slice(b, x, 4, 4), .v = v, .dt = op_slice(b, x, 8, 2)};
    return op_scan(b, &in, &a);
}

TEST_OF(scan,
        (leaf_new(&r, T, D, false), leaf_new(&r, 2, 1, true), leaf_new(&r, 2, 1, true),
         leaf_new(&r, 2, 1, true)),
        scan(r, b, x))

/* Three experts of 32 each in one leaf for each of their matrices: whole panels, so that the leaf's
 * are theirs. The gradients are its runs. */
enum { E = 3, FF = 32 };

static struct param expert[3][E];

static const struct param *experts_of(struct rig *r, int leaf)
{
    const struct param *all = &r->leaf[leaf].p;
    for (int e = 0; e < E; e++) {
        struct param *p = &expert[leaf - 2][e];
        *p = *all;
        p->n = FF;
        p->w.n = FF;
        p->w.data = (char *)all->w.data + (size_t)e * k_weight_bytes(K_F32, FF, all->k);
        p->grad = all->grad + (int64_t)e * FF * all->k;
    }
    return expert[leaf - 2];
}

static struct val mixture(struct rig *r, struct builder *b, struct val x, bool normalises)
{
    struct op_experts_attr a = {.gate = experts_of(r, 2),
                                .up = experts_of(r, 3),
                                .down = experts_of(r, 4),
                                .n_expert = E,
                                .top = 2,
                                .scale = 1,
                                .normalises = normalises};
    return op_experts(b, x, op_linear(b, x, &r->leaf[1].p, NULL), &a);
}

#define EXPERT_LEAVES                                                                              \
    (leaf_new(&r, E, D, false), leaf_new(&r, E * FF, D, false), leaf_new(&r, E * FF, D, false),    \
     leaf_new(&r, E * FF, FF, false), experts_narrow(&r))

/* Sums of many terms: smaller ones, and choices that a difference does not turn over. */
static void experts_narrow(struct rig *r)
{
    for (int i = 1; i < 5; i++)
        for (int64_t k = 0; k < r->leaf[i].p.n * r->leaf[i].p.k; k++)
            r->leaf[i].x[k] *= i == 1 ? 3.0f : 0.4f;
}

static struct param expert_bias[3][E];

static const struct param *biases_of(struct rig *r, int leaf, int64_t n)
{
    const struct param *all = &r->leaf[leaf].p;
    for (int e = 0; e < E; e++) {
        struct param *p = &expert_bias[leaf - 5][e];
        *p = *all;
        p->n = n;
        p->vec = all->vec + e * n;
        p->grad = all->grad + e * n;
    }
    return expert_bias[leaf - 5];
}

/* With biases and the clamped gate. The limit is one that few numbers come near. */
static struct val biased_mixture(struct rig *r, struct builder *b, struct val x)
{
    struct op_experts_attr a = {.gate = experts_of(r, 2),
                                .up = experts_of(r, 3),
                                .down = experts_of(r, 4),
                                .gate_bias = biases_of(r, 5, FF),
                                .up_bias = biases_of(r, 6, FF),
                                .down_bias = biases_of(r, 7, FF),
                                .limit = 7,
                                .alpha = 1.702f,
                                .n_expert = E,
                                .top = 2,
                                .scale = 1,
                                .normalises = true};
    return op_experts(b, x, op_linear(b, x, &r->leaf[1].p, NULL), &a);
}

#define BIASED_LEAVES                                                                              \
    (EXPERT_LEAVES, leaf_new(&r, E * FF, 1, true), leaf_new(&r, E * FF, 1, true),                  \
     leaf_new(&r, E * FF, 1, true))

TEST_OF(experts_biased, BIASED_LEAVES, biased_mixture(r, b, x))
TEST_OF(experts, EXPERT_LEAVES, mixture(r, b, x, false))
TEST_OF(experts_normalised, EXPERT_LEAVES, mixture(r, b, x, true))

/* Sigmoids of three groups, two of them open, scaled. */
static struct val grouped_mixture(struct rig *r, struct builder *b, struct val x, bool normalises)
{
    struct op_experts_attr a = {.gate = experts_of(r, 2),
                                .up = experts_of(r, 3),
                                .down = experts_of(r, 4),
                                .n_expert = E,
                                .top = 2,
                                .n_group = 3,
                                .top_group = 2,
                                .group_best = 1,
                                .scale = 1.5f,
                                .is_sigmoid = true,
                                .normalises = normalises};
    return op_experts(b, x, op_linear(b, x, &r->leaf[1].p, NULL), &a);
}

/* GELU in place of SiLU, and weights that are multiplied by a number of their expert. */
static struct val scaled_mixture(struct rig *r, struct builder *b, struct val x)
{
    struct op_experts_attr a = {.gate = experts_of(r, 2),
                                .up = experts_of(r, 3),
                                .down = experts_of(r, 4),
                                .each = &r->leaf[5].p,
                                .n_expert = E,
                                .top = 2,
                                .scale = 1,
                                .gelu = EXPERTS_GELU_TANH,
                                .normalises = true};
    return op_experts(b, x, op_linear(b, x, &r->leaf[1].p, NULL), &a);
}

TEST_OF(experts_scaled, (EXPERT_LEAVES, leaf_new(&r, E, 1, true)), scaled_mixture(r, b, x))
TEST_OF(experts_grouped, EXPERT_LEAVES, grouped_mixture(r, b, x, false))
TEST_OF(experts_grouped_normalised, EXPERT_LEAVES, grouped_mixture(r, b, x, true))
TEST_OF(mix, (void)0,
        op_mix(b, x, op_slice(b, op_mul(b, x, x), 0, 8), op_slice(b, op_mul(b, x, x), 3, 6),
               &(struct op_mix_attr){.n = 3, .k = 2, .plus = 0.5f}))
TEST_OF(mix_itself, (void)0,
        op_mix(b, x, x, op_slice(b, op_mul(b, x, x), 0, 9), &(struct op_mix_attr){.n = 3, .k = 3}))
TEST_OF(mix_plain, (void)0,
        op_mix(b, x, op_slice(b, op_mul(b, x, x), 0, 4), (struct val){.id = -1},
               &(struct op_mix_attr){.n = 3, .k = 1, .plus = 2}))
TEST_OF(match, (void)0, op_match(b, op_mul(b, x, x), x, 0.01f))
TEST_OF(match_least, (void)0, op_match(b, op_mul(b, x, x), x, 9))
/* Cubed, so that a difference across a cut is no edge. */
TEST_OF(cutoff, (void)0, (y = op_cutoff(b, x, -0.4f), op_mul(b, y, op_mul(b, y, y))))
TEST_OF(col_scale, leaf_new(&r, D, 1, true), op_col_scale(b, op_mul(b, x, x), &r->leaf[1].p))
TEST_OF(l2norm, (void)0, op_l2norm(b, x, 1e-12f))

/* The adapter's two matrices are leaves too: their gradients are the group's. */
static struct val build_lora(struct rig *r, struct builder *b)
{
    *r->lora = (struct k_lora_group){.row_hi = T,
                                     .rank = RANK,
                                     .a = r->leaf[2].x,
                                     .b = r->leaf[3].x,
                                     .scale = 0.7f,
                                     .da = r->leaf[2].grad,
                                     .db = r->leaf[3].grad};
    return op_linear(b, op_embed(b, OP_IDS_TOKEN, &r->leaf[0].p), &r->leaf[1].p, NULL);
}

static void lora_init(struct rig *r)
{
    rig_init(r);
    leaf_new(r, T, D, false);
    leaf_new(r, 10, D, false)->lora = 0;
    leaf_new(r, RANK, D, false);
    leaf_new(r, 10, RANK, false);
    r->has_lora = true;
}

static void test_op_lora(void **state)
{
    struct rig r;
    (void)state;
    lora_init(&r);
    check(&r, build_lora);
}

/* op_dora behind op_linear: lengths are constants, magnitudes a leaf; the bias is frozen, as beside
 * all adapters. */
static struct val build_dora(struct rig *r, struct builder *b)
{
    static float norm[10], gain[10], bias[10];
    static const struct param frozen = {
        .name = "bias", .lora = -1, .is_vector = true, .n = 10, .k = 1, .vec = bias};
    for (int o = 0; o < 10; o++) {
        bias[o] = 0.3f * (float)(o - 4);
        norm[o] = 0.5f + 0.1f * (float)o;
        gain[o] = r->leaf[4].x[o] / norm[o];
    }
    *r->lora = (struct k_lora_group){.row_hi = T,
                                     .rank = RANK,
                                     .a = r->leaf[2].x,
                                     .b = r->leaf[3].x,
                                     .scale = 0.7f,
                                     .da = r->leaf[2].grad,
                                     .db = r->leaf[3].grad,
                                     .gain = gain,
                                     .norm = norm,
                                     .dmagnitude = r->leaf[4].grad};
    struct val y = op_linear(b, leaf_rows(r, b, 0), &r->leaf[1].p, &frozen);
    return op_dora(b, y, &r->leaf[1].p, &frozen);
}

static void test_op_dora(void **state)
{
    struct rig r;
    (void)state;
    lora_init(&r);
    leaf_new(&r, 10, 1, true);
    r.in.host.n[DIM_DORA] = 1;
    check(&r, build_dora);
}

/* Faults: a maker that takes what its kernel can't. */
static void wrong_shapes_are_refused(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r);
    leaf_new(&r, T, D, false);
    leaf_new(&r, T, D + 1, false);
    eager_begin(r.eager, inputs_send(&r.in, r.stream), &(struct eager_options){0});
    struct builder *b = eager_builder(r.eager);
    struct val x = leaf_rows(&r, b, 0), y = leaf_rows(&r, b, 1);
    op_add(b, x, y);
    assert_true(b->failed);
    assert_non_null(strstr(b->err.msg, "add: input 1 has 13 columns, input 0 has 12"));
    assert_int_equal(op_scale(b, x, 2).id, -1); /* the first error stays */
    assert_non_null(strstr(b->err.msg, "add"));
    eager_end(r.eager);
    eager_begin(r.eager, inputs_send(&r.in, r.stream), &(struct eager_options){0});
    b = eager_builder(r.eager);
    x = op_round(b, leaf_rows(&r, b, 0), K_BF16);
    assert_true(!b->failed && b->shape_of(b, x).blocked);
    op_round(b, x, K_BF16);
    assert_non_null(strstr(b->err.msg, "round: the input is rounded already"));
    eager_end(r.eager);
    eager_begin(r.eager, inputs_send(&r.in, r.stream), &(struct eager_options){0});
    b = eager_builder(r.eager);
    x = leaf_rows(&r, b, 0);
    op_lora(b, x, leaf_rows(&r, b, 1), &r.leaf[0].p);
    assert_non_null(strstr(b->err.msg, "lora: leaf: inputs of 12 and 13 columns"));
    eager_end(r.eager);
    eager_begin(r.eager, inputs_send(&r.in, r.stream), &(struct eager_options){0});
    b = eager_builder(r.eager);
    x = leaf_rows(&r, b, 0);
    op_delta(
        b, &(struct op_delta_in){x, x, x, x, x},
        &(struct op_delta_attr){.heads = {.n_k = 1, .n_v = 2, .d_k = K_DELTA_D_MAX + 1, .d_v = 6}});
    assert_non_null(strstr(b->err.msg, "delta: heads of 257 by 6: at most 256"));
    eager_end(r.eager);
    rig_release(&r);
}

/* Faults: noise of another size than NEFTune's, by the row or by its length; one that is not even.
 */
static void noise_golden(void **state)
{
    (void)state;
    struct rig r;
    struct err e = ERR_INIT;
    struct json root, list, v;
    struct json_doc *doc =
        json_read("tests/golden/tricks/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    root = json_root(doc);
    assert_good(json_get(&root, "neftune", JSON_ARRAY, &list, &e), &e);
    rig_init(&r);
    json_each(v, list)
    {
        int64_t n = (int64_t)golden_num(&v, "tokens"), d = (int64_t)golden_num(&v, "columns");
        double want = golden_num(&v, "most"), most = 0, sum = 0;
        float *x = calloc((size_t)(n * d), sizeof *x);
        uint64_t *key = calloc((size_t)n, sizeof *key);
        int32_t *seq = calloc((size_t)n, sizeof *seq), len = (int32_t)n;
        for (int64_t i = 0; i < n; i++)
            key[i] = (uint64_t)i;
        struct k_noise a = {.x = x,
                            .y = x,
                            .row_key = key,
                            .seq_of = seq,
                            .seq_len = &len,
                            .ld_x = d,
                            .ld_y = d,
                            .m = n,
                            .d = d,
                            .alpha = (float)golden_num(&v, "alpha")};
        kernel_run(device_kernels(r.device), K_noise, &a, NULL);
        for (int64_t i = 0; i < n * d; i++) {
            most = fmax(most, fabs((double)x[i]));
            sum += (double)x[i];
        }
        assert_true(most <= want * (1 + 1e-6) && most > want * 0.9);
        assert_true(fabs(sum) / (double)(n * d) < want * 0.2);
        free(x);
        free(key);
        free(seq);
    }
    rig_release(&r);
    json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_embed),
        cmocka_unit_test(test_op_slice),
        cmocka_unit_test(test_op_gather),
        cmocka_unit_test(test_op_round),
        cmocka_unit_test(test_op_linear),
        cmocka_unit_test(test_op_bias),
        cmocka_unit_test(test_op_add),
        cmocka_unit_test(test_op_mul),
        cmocka_unit_test(test_op_scale),
        cmocka_unit_test(test_op_rmsnorm),
        cmocka_unit_test(test_op_rmsnorm_heads),
        cmocka_unit_test(test_op_layernorm),
        cmocka_unit_test(test_op_rope),
        cmocka_unit_test(test_op_attn),
        cmocka_unit_test(test_op_conv),
        cmocka_unit_test(test_op_conv_long),
        cmocka_unit_test(test_op_swiglu),
        cmocka_unit_test(test_op_gelu),
        cmocka_unit_test(test_op_dropout),
        cmocka_unit_test(test_op_noise),
        cmocka_unit_test(noise_golden),
        cmocka_unit_test(test_op_ce),
        cmocka_unit_test(test_op_glu),
        cmocka_unit_test(test_op_row_gate),
        cmocka_unit_test(test_op_regroup),
        cmocka_unit_test(test_op_reorder),
        cmocka_unit_test(test_op_row_scale),
        cmocka_unit_test(test_op_heads),
        cmocka_unit_test(test_op_delta),
        cmocka_unit_test(test_op_scan),
        cmocka_unit_test(test_op_softcap),
        cmocka_unit_test(test_op_ce_capped),
        cmocka_unit_test(test_op_ce_part),
        cmocka_unit_test(test_op_mean_pool),
        cmocka_unit_test(test_op_l2norm),
        cmocka_unit_test(test_op_experts),
        cmocka_unit_test(test_op_experts_grouped),
        cmocka_unit_test(test_op_experts_grouped_normalised),
        cmocka_unit_test(test_op_experts_normalised),
        cmocka_unit_test(test_op_experts_biased),
        cmocka_unit_test(test_op_experts_scaled),
        cmocka_unit_test(test_op_mix),
        cmocka_unit_test(test_op_mix_itself),
        cmocka_unit_test(test_op_mix_plain),
        cmocka_unit_test(test_op_match),
        cmocka_unit_test(test_op_match_least),
        cmocka_unit_test(test_op_cutoff),
        cmocka_unit_test(test_op_col_scale),
        cmocka_unit_test(test_op_attn_sink),
        cmocka_unit_test(test_op_lora),
        cmocka_unit_test(test_op_dora),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
