/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/model: models whose files have matrices in codes, as their makers' tools write them.
 * Faults they can catch: a matrix that is packed with other values than the file's formula gives; a
 * format other than the one that holds its codes; logits that are not those of transformers with
 * these values.
 */
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
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
} packed[] = {{"packed_gptq", K_INT4, K_INT4},   {"packed_gptq_order", K_INT8G, K_F32},
              {"packed_awq", K_INT4K, K_INT4K},  {"packed_fp8", K_FP8, K_FP8},
              {"packed_w8a8", K_INT8C, K_INT8C}, {"packed_nf4", K_NF4, K_NF4}};

static void check_values(const struct golden *g)
{
    int n_seen = 0;
    for (int32_t i = 0; i < g->model->n_param; i++) {
        const struct param *p = &g->model->param[i];
        int64_t n;
        if (!strstr(p->name, "layers.1.") || !strstr(p->name, "proj"))
            continue;
        float *want = golden_of_param(g, "want", p, &n);
        float *got = xcalloc((size_t)n, sizeof *got);
        struct k_weight_unpack a = {.w = p->w, .dst = got, .ld_dst = p->k};
        assert_int_equal(n, p->n * p->k);
        kernel_run(device_kernels(g->device), K_weight_unpack, &a, NULL);
        if (memcmp(got, want, (size_t)n * sizeof *got) != 0)
            fail_msg("%s has other values", p->name);
        free(got);
        mem_free(want);
        n_seen++;
    }
    assert_int_equal(n_seen, 7);
}

static void check_logits(const struct golden *g, double rel)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t id[TOK_MAX];
    int64_t n = golden_ids(&g->root, "prompt", id, TOK_MAX), n_want;
    struct runner_options o = {
        .cap = {[DIM_TOK] = n, [DIM_OUT] = n, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = 8,
        .n_feed = n,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    assert_good(runner_feed(r, id, n, 0, n, &out, &e), &e);
    float *want = golden_tensor(g, "logits", &n_want);
    assert_int_equal(n_want, n * out.shape.cols);
    golden_near("logits", out.p, want, n_want, rel);
    mem_free(want);
    runner_free(r);
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
    if (!p->is_vector) {
        got = xcalloc((size_t)n, sizeof *got);
        struct k_weight_unpack a = {.w = p->w, .dst = got, .ld_dst = p->k};
        kernel_run(device_kernels(g->device), K_weight_unpack, &a, NULL);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_f32_logits_are_transformers),
        cmocka_unit_test(codes_are_the_files),
        cmocka_unit_test(experts_are_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
