/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/model: models whose files have matrices in codes, as their makers' tools write them.
 * Faults they can catch: a matrix that is packed with other values than the file's formula gives; a
 * format other than the one that holds its codes; logits that are not those of transformers with
 * these values; inputs in an order of their own that cost more than codes do, or whose products
 * depend on how a text is cut.
 */
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/model/order.h"
#include "engine/run/runner.h"
#include "kernels/format.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

enum { TOK_MAX = 64 };

static const struct {
    const char *name;
    enum k_type up, down; /* what gate and up become, and down */
} packed[] = {{"packed_gptq", K_INT4, K_INT4},     {"packed_gptq_order", K_INT8G, K_INT8G},
              {"packed_gptq_act", K_INT4, K_INT4}, {"packed_awq", K_INT4K, K_INT4K},
              {"packed_fp8", K_FP8, K_FP8},        {"packed_w8a8", K_INT8C, K_INT8C},
              {"packed_nf4", K_NF4, K_NF4}};

/* The numbers of a matrix, inputs where the file has them. */
static float *values_of(const struct golden *g, const struct param *p)
{
    float *x = xcalloc((size_t)(p->n * p->k), sizeof *x), *row = xcalloc((size_t)p->k, sizeof *row);
    struct k_weight_unpack a = {.w = p->w, .dst = x, .ld_dst = p->k};
    kernel_run(device_kernels(g->device), K_weight_unpack, &a, NULL);
    for (int64_t r = 0; r < p->n && p->order; r++) {
        memcpy(row, x + r * p->k, (size_t)p->k * sizeof *row);
        for (int64_t i = 0; i < p->k; i++)
            x[r * p->k + p->order->at[i]] = row[i];
    }
    free(row);
    return x;
}

static void check_values(const struct golden *g)
{
    int n_seen = 0;
    for (int32_t i = 0; i < g->model->n_param; i++) {
        const struct param *p = &g->model->param[i];
        int64_t n;
        if (!strstr(p->name, "layers.1.") || !strstr(p->name, "proj"))
            continue;
        float *want = golden_of_param(g, "want", p, &n);
        float *got = values_of(g, p);
        assert_int_equal(n, p->n * p->k);
        if (memcmp(got, want, (size_t)n * sizeof *got) != 0)
            fail_msg("%s has other values", p->name);
        free(got);
        mem_free(want);
        n_seen++;
    }
    assert_int_equal(n_seen, 7);
}

/* The logits of the golden's prompt, `step` tokens at a time; their number. */
static int64_t logits_of(const struct golden *g, uint32_t passes, int64_t step, float **logits)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t id[TOK_MAX];
    int64_t n = golden_ids(&g->root, "prompt", id, TOK_MAX), cols = g->model->cfg.n_vocab;
    struct runner_options o = {
        .cap = {[DIM_TOK] = n, [DIM_OUT] = n, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = 8,
        .n_feed = n,
        .passes = passes,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    *logits = xcalloc((size_t)(n * cols), sizeof **logits);
    for (int64_t at = 0, some; at < n; at += some) {
        some = n - at < step ? n - at : step;
        assert_good(runner_feed(r, id + at, some, at, some, &out, &e), &e);
        memcpy(*logits + at * cols, out.p, (size_t)(some * cols) * sizeof **logits);
    }
    runner_free(r);
    return n * cols;
}

static void check_logits(const struct golden *g, double rel)
{
    int64_t n_want;
    float *got, *want = golden_tensor(g, "logits", &n_want);
    assert_int_equal(n_want, logits_of(g, PASS_ALL, TOK_MAX, &got));
    golden_near("logits", got, want, n_want, rel);
    free(got);
    mem_free(want);
}

static void in_f32_logits_are_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        struct golden g;
        golden_init(&g, packed[i].name, K_F32, 0);
        check_values(&g);
        check_logits(&g, 2e-5);
        golden_release(&g);
    }
}

/* Zeros of either sign are one: codes of mxfp4 count as integers. */
static void check_expert(const struct golden *g, const struct param *p)
{
    int64_t n;
    float *want = golden_of_param(g, "want", p, &n), *got = p->is_vector ? p->vec : NULL;
    assert_int_equal(n, p->n * p->k);
    if (!p->is_vector)
        got = values_of(g, p);
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s has other values", p->name);
    if (!p->is_vector)
        free(got);
    mem_free(want);
}

/* Experts of gpt-oss, of which a layer has one tensor of codes: each by its own name. */
static void experts_are_the_files(void **state)
{
    (void)state;
    for (int is_coded = 0; is_coded < 2; is_coded++) {
        struct golden g;
        int n_seen = 0;
        if (is_coded)
            golden_init_stored(&g, "packed_mxfp4");
        else
            golden_init(&g, "packed_mxfp4", K_F32, 0);
        for (int32_t i = 0; i < g.model->n_param; i++) {
            const struct param *p = &g.model->param[i];
            if (!strstr(p->name, ".experts."))
                continue;
            if (is_coded && !p->is_vector)
                assert_int_equal(p->w.type, K_MXFP4);
            check_expert(&g, p);
            n_seen++;
        }
        assert_int_equal(n_seen, 2 * 4 * 6);
        check_logits(&g, is_coded ? 0.05 : 2e-5);
        golden_release(&g);
    }
}

static enum k_type format_of(const struct golden *g, const char *name)
{
    const struct param *p = model_find(g->model, name);
    assert_non_null(p);
    return p->w.type;
}

/* In codes products round activations to bf16, but for formats whose scales have scales. */
static void codes_are_the_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        struct golden g;
        golden_init_stored(&g, packed[i].name);
        assert_int_equal(format_of(&g, "layers.1.mlp.up_proj.weight"), packed[i].up);
        assert_int_equal(format_of(&g, "layers.1.mlp.down_proj.weight"), packed[i].down);
        check_values(&g);
        check_logits(&g, 0.05);
        golden_release(&g);
    }
}

/* Of each layer five: q, k and v have one, gate and up each its own. */
static void orders_cost_little(void **state)
{
    struct golden g;
    (void)state;
    golden_init_stored(&g, "packed_gptq_act");
    size_t codes = 0, as_int4 = 0;
    for (int32_t i = 0; i < g.model->n_param; i++) {
        const struct param *p = &g.model->param[i];
        if (!p->order)
            continue;
        codes += k_weight_bytes(p->w.type, p->n, p->k);
        as_int4 += k_weight_bytes(K_INT4, p->n, p->k);
    }
    assert_int_equal(g.model->n_order, 2 * 5);
    assert_ptr_equal(model_find(g.model, "layers.1.self_attn.q_proj.weight")->order,
                     model_find(g.model, "layers.1.self_attn.v_proj.weight")->order);
    assert_true(as_int4 > 0 &&
                (double)(codes + model_order_bytes(g.model)) < 1.15 * (double)as_int4);
    golden_release(&g);
}

static void orders_change_no_bit(void **state)
{
    static const char *const name[] = {"packed_gptq_act", "packed_gptq_order"};
    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        struct golden g;
        golden_init_stored(&g, name[i]);
        float *whole, *plain, *cut;
        int64_t n = logits_of(&g, PASS_ALL, TOK_MAX, &whole);
        assert_int_equal(logits_of(&g, 0, TOK_MAX, &plain), n);
        assert_int_equal(logits_of(&g, PASS_ALL, 7, &cut), n);
        assert_memory_equal(plain, whole, (size_t)n * sizeof *whole);
        assert_memory_equal(cut, whole, (size_t)n * sizeof *whole);
        free(whole);
        free(plain);
        free(cut);
        golden_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_f32_logits_are_transformers), cmocka_unit_test(codes_are_the_files),
        cmocka_unit_test(experts_are_the_files),          cmocka_unit_test(orders_cost_little),
        cmocka_unit_test(orders_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
