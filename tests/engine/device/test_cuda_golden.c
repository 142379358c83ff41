/* SPDX-License-Identifier: Apache-2.0
 *
 * What transformers and PyTorch compute with a tiny Llama and a tiny GPT-2, the GPU's kernels
 * compute, emulated on the CPU (tests/cuda_emu) over a twin of CUDA's runtime (tests/fake/cuda):
 * logits, greedy text, loss and the gradient of every tensor, through the plug as it is. Where the
 * emulation was not built, kernels/ref stands in for it, which is said.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "tests/lib/golden_rows.h"
#include "tests/lib/gpu.h"

enum { TOK_MAX = 64, GREEDY_MAX = 64, ROW_MAX = 8, NAME_BYTES = 256 };

static const char *const names[] = {"llama_plain", "gpt2",           "gemma2",
                                    "gemma3",      "qwen3_moe",      "gemma4",
                                    "gemma4_wide", "gemma4_experts", "gemma3n"};

enum { N_NAME = sizeof names / sizeof *names };

/* n numbers of the device's memory; mem_free() them. */
static float *read_back(const struct golden *g, const float *p, int64_t n)
{
    struct err e = ERR_INIT;
    float *x = try_alloc((size_t)n, sizeof *x, "numbers", &e);
    stream_copy(g->stream, x, p, (size_t)n * sizeof *x, COPY_FROM_DEVICE);
    assert_good(stream_sync(g->stream, &e), &e);
    return x;
}

static struct runner *runner_for(struct golden *g, bool is_eager)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = TOK_MAX, [DIM_OUT] = TOK_MAX, [DIM_SEQ] = 4, [DIM_GROUP] = 1},
        .n_cell = 4 * TOK_MAX / K_CELL,
        .is_eager = is_eager,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

/* The logits of tokens [pos, pos + n). */
static float *feed(struct golden *g, struct runner *r, const int32_t *id, int64_t n, int64_t pos)
{
    struct err e = ERR_INIT;
    struct op_view out;
    assert_good(runner_feed(r, id + pos, n, pos, n, &out, &e), &e);
    return read_back(g, out.p, n * out.ld);
}

/* Faults: a kernel that differs from its reference in a shape that a model has; a plan that is
 * captured and given again with the counts of another step; rows that depend on their neighbours.
 */
static void check_logits(struct golden *g, const char *name, double rel)
{
    int32_t id[TOK_MAX];
    int64_t n_want, n = golden_ids(&g->root, "prompt", id, TOK_MAX), v = g->model->cfg.n_vocab;
    float *want = golden_tensor(g, "logits", &n_want), *whole[2];
    for (int eager = 0; eager < 2; eager++) {
        struct runner *r = runner_for(g, eager);
        whole[eager] = feed(g, r, id, n, 0);
        assert_int_equal(n * v, n_want);
        golden_near(name, whole[eager], want, n_want, rel);
        for (int64_t pos = 0; pos < n; pos++) { /* one by one: the same bits */
            float *one = feed(g, r, id, 1, pos);
            assert_memory_equal(one, whole[eager] + pos * v, (size_t)v * sizeof *one);
            mem_free(one);
        }
        runner_free(r);
    }
    assert_memory_equal(whole[0], whole[1], (size_t)n_want * sizeof *want);
    mem_free(whole[0]);
    mem_free(whole[1]);
    mem_free(want);
}

static void logits(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct golden g;
        golden_init_on(&g, "cuda", names[i], K_F32, 0);
        check_logits(&g, names[i], 1e-4);
        golden_release(&g);
        golden_init_on(&g, "cuda", names[i], K_BF16, 0);
        check_logits(&g, names[i], 4e-2);
        golden_release(&g);
    }
}

static int32_t best_of(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

static void greedy_text(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct golden g;
        golden_init_on(&g, "cuda", names[i], K_F32, 0);
        int32_t id[TOK_MAX + GREEDY_MAX], want[GREEDY_MAX];
        int64_t n = golden_ids(&g.root, "prompt", id, TOK_MAX), v = g.model->cfg.n_vocab;
        int64_t n_want = golden_ids(&g.root, "greedy", want, GREEDY_MAX);
        struct runner *r = runner_for(&g, false);
        float *x = feed(&g, r, id, n, 0);
        id[n] = best_of(x + (n - 1) * v, v);
        for (int64_t k = 0; k < n_want; k++) {
            assert_int_equal(id[n + k], want[k]);
            mem_free(x);
            x = feed(&g, r, id, 1, n + k);
            id[n + k + 1] = best_of(x, v);
        }
        mem_free(x);
        runner_free(r);
        golden_release(&g);
    }
}

/* ---- training ------------------------------------------------------------------------------ */

static double loss_of(struct golden *g, struct eager *t, const struct packed *p, struct val v)
{
    int64_t n = packed_n_out(p);
    float *raw =
        read_back(g, eager_view(t, v).p, n * (int64_t)(sizeof(struct k_ce_state) / sizeof(float)));
    const struct k_ce_state *s = (const struct k_ce_state *)(const void *)raw;
    double loss = 0;
    for (int64_t i = 0; i < n; i++)
        loss -= ((double)s[i].target_logit - (double)k_ce_lse(&s[i])) / packed_weight(p);
    mem_free(raw);
    return loss;
}

/* The gradient as the file has the tensor. */
static void check_gradient(struct golden *g, const char *name, const struct param *p)
{
    struct err e = ERR_INIT;
    bool is_turned =
        g->model->cfg.family == FAMILY_GPT2 && !p->is_vector && strncmp(p->name, "h.", 2) == 0;
    char what[NAME_BYTES];
    int64_t n;
    float *want = golden_of_param(g, "grad", p, &n), *got = read_back(g, p->grad, n);
    float *turned = try_alloc((size_t)n, sizeof *turned, "a gradient", &e);
    for (int64_t i = 0; i < n; i++)
        turned[i] = is_turned ? got[i % p->n * p->k + i / p->n] : got[i];
    snprintf(what, sizeof what, "%s: gradient of %s", name, p->name);
    golden_near(what, turned, want, n, 1e-4);
    mem_free(turned);
    mem_free(got);
    mem_free(want);
}

/* Row i, of which a teacher that is certain says what its labels say; n_top 0: nobody does. */
static void add_row(const struct golden *g, struct packed *p, int64_t i, int64_t n_top)
{
    struct golden_rows *r = golden_rows_new(g);
    int32_t id[2 * GOLDEN_ROW_MAX];
    float mass[2 * GOLDEN_ROW_MAX];
    golden_add_row(g, p, i);
    for (int64_t k = 0, n = 0; k < r->row[i].n; k++)
        if (r->label[i][k] >= 0) {
            id[n] = r->label[i][k];
            mass[n++] = 1;
            id[n++] = -1;
        }
    if (n_top)
        packed_teach(p, id, mass, 0.5);
    free(r);
}

/* What the forward found of the labels is the same where it found them as named. */
static void check_named(const struct golden *g, struct packed *p, const struct op_view out)
{
    struct err e = ERR_INIT;
    int64_t n = packed_n_out(p);
    float *raw = read_back(g, out.p, n * (int64_t)(sizeof(struct k_ce_state) / sizeof(float)));
    const struct k_ce_state *s = (const struct k_ce_state *)(const void *)raw;
    packed_fetch_top(p);
    assert_good(stream_sync(g->stream, &e), &e);
    for (int64_t i = 0; i < n; i++)
        assert_true(packed_top(p)->logit[i] == s[i].target_logit &&
                    k_ce_lse(&packed_top(p)->others[i]) <= k_ce_lse(&s[i]));
    mem_free(raw);
}

static void train_once(struct golden *g, const char *name, bool checkpoints, int64_t n_top)
{
    struct err e = ERR_INIT;
    struct model *m = g->model;
    struct eager *t = eager_new(g->stream, &e);
    struct packed_options po = {.cap_tok = 4 * TOK_MAX, .cap_row = ROW_MAX, .n_top = n_top};
    struct packed *p = packed_new(m, &po, g->stream, &e);
    struct eager_options o = {.wants_grad = true, .checkpoint = checkpoints};
    for (int32_t i = 0; i < m->n_param; i++)
        m->param[i].grad = device_alloc(
            g->device, (size_t)(m->param[i].n * m->param[i].k) * sizeof(float), "gradient", &e);
    add_row(g, p, 0, n_top);
    add_row(g, p, 1, n_top);
    eager_begin(t, packed_batch(p, packed_weight(p), 0), &o);
    struct val v = model_build(m, eager_builder(t), MODEL_LOSS);
    assert_good(eager_builder(t)->failed ? -1 : 0, &eager_builder(t)->err);
    double loss = loss_of(g, t, p, v), want = golden_num(&g->root, "loss");
    if (!(loss > want - 1e-4 * want && loss < want + 1e-4 * want))
        fail_msg("%s: loss %.9g, the golden has %.9g", name, loss, want);
    if (n_top)
        check_named(g, p, eager_view(t, v));
    assert_good(eager_backward(t, &e), &e);
    eager_end(t);
    for (int32_t i = 0; i < m->n_param; i++) {
        check_gradient(g, name, &m->param[i]);
        device_mem_free(g->device, m->param[i].grad);
        m->param[i].grad = NULL;
    }
    packed_free(p);
    eager_free(t);
}

/* Faults: any backward kernel; a teacher's word that does not come to the device, or back; a
 * gradient that is read or summed before its stream came to it. */
static void loss_and_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        struct golden g;
        golden_init_on(&g, "cuda", names[i], K_F32, 0);
        train_once(&g, names[i], false, 0);
        train_once(&g, names[i], true, 0);
        train_once(&g, names[i], false, 1);
        golden_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits),
        cmocka_unit_test(greedy_text),
        cmocka_unit_test(loss_and_gradients),
    };
    if (gpu_play())
        gpu_play_kernels();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
