/* SPDX-License-Identifier: Apache-2.0
 *
 * Real small models, trained by others: the text that they are known to go on with, every
 * log-probability on the way, and what PyTorch has after every stage of one of them.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = 256, CASE_MAX = 512, STAGE_MAX = 512 };

static struct runner *runner_for(struct golden *g)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = TOK_MAX, [DIM_OUT] = TOK_MAX, [DIM_SEQ] = 8, [DIM_GROUP] = 1},
        .n_cell = 8 * TOK_MAX / K_CELL,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

static double log_prob(const float *row, int64_t n, int32_t id)
{
    double most = (double)row[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = fmax(most, (double)row[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)row[i] - most);
    return (double)row[id] - most - log(sum);
}

static int32_t best_of(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

/* One case: the prompt and the greedy text in one feed. Each greedy id is the best behind what
 * stands before it, and each token has its known log-probability. */
static void check_case(struct golden *g, struct runner *r, const struct json *c, const char *name)
{
    struct err e = ERR_INIT;
    struct op_view out;
    struct json list, v;
    int32_t id[CASE_MAX];
    int64_t i = 0, n_prompt = golden_ids(c, "prompt_ids", id, CASE_MAX);
    int64_t n = n_prompt + golden_ids(c, "greedy_ids", id + n_prompt, CASE_MAX - n_prompt);
    assert_good(runner_feed(r, id, n, 0, n, &out, &e), &e);
    assert_int_equal(out.shape.cols, g->model->cfg.n_vocab);
    for (int64_t k = n_prompt; k < n; k++)
        if (best_of((float *)out.p + (k - 1) * out.ld, out.shape.cols) != id[k])
            fail_msg("%s: the id at %lld is not the best", name, (long long)k);
    assert_good(json_get(c, "token_logprobs", JSON_ARRAY, &list, &e), &e);
    json_each(v, list)
    {
        double want, got = log_prob((float *)out.p + i * out.ld, out.shape.cols, id[i + 1]);
        assert_good(json_as_num(&v, &want, &e), &e);
        if (fabs(got - want) > 1e-4 * fmax(1, fabs(want)))
            fail_msg("%s: log-probability %lld: %.9g, known is %.9g", name, (long long)i, got,
                     want);
        i++;
    }
    assert_int_equal(i, n - 1);
}

/* Faults: anything in which a trained model differs from a random one: large activations, grouped
 * heads, tied heads, texts of two hundred tokens. */
static void known_texts(void **state)
{
    static const char *const names[] = {"stories260K", "capp-gpt2-200K"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct json cases, c;
        if (!golden_init_real(&g, names[i], "golden.json", NULL))
            skip();
        struct runner *r = runner_for(&g);
        assert_good(json_get(&g.root, "cases", JSON_ARRAY, &cases, &e), &e);
        json_each(c, cases)
        {
            check_case(&g, r, &c, names[i]);
        }
        runner_free(r);
        golden_release(&g);
    }
}

/* A builder in front of the executor: sees every value that an op makes, and keeps a copy. */
struct witness {
    struct builder b; /* first: the model is given this */
    struct builder *to;
    struct eager *eager;
    struct {
        float *at; /* [rows, cols] */
        int64_t n, cols;
    } stage[STAGE_MAX];
    int n_stage;
};

static int witness_add(struct builder *b, struct op_node *n, const struct op_shape *out)
{
    struct witness *w = (struct witness *)(void *)b;
    struct err e = ERR_INIT;
    if (w->to->add(w->to, n, out))
        return -1;
    for (int i = 0; i < n->n_out; i++) {
        struct op_view v = eager_view(w->eager, (struct val){.id = n->out[i]});
        int64_t rows = 3 * 11, cols = v.shape.cols;
        if (v.shape.blocked || !v.p)
            continue;
        assert_true(w->n_stage < STAGE_MAX);
        float *copy = try_alloc((size_t)(rows * cols), sizeof *copy, "stage", &e);
        for (int64_t k = 0; k < rows; k++)
            memcpy(copy + k * cols, (float *)v.p + k * v.ld, (size_t)cols * sizeof *copy);
        w->stage[w->n_stage].at = copy;
        w->stage[w->n_stage].cols = cols;
        w->stage[w->n_stage++].n = rows * cols;
    }
    return 0;
}

static struct op_shape witness_shape(const struct builder *b, struct val v)
{
    const struct witness *w = (const struct witness *)(const void *)b;
    return w->to->shape_of(w->to, v);
}

/* How far the nearest stage of that size is, relative to the largest number. */
static double nearest(const struct witness *w, const float *want, int64_t n, int64_t cols)
{
    double most = 0, best = INFINITY;
    for (int64_t k = 0; k < n; k++)
        most = fmax(most, fabs((double)want[k]));
    for (int i = 0; i < w->n_stage; i++) {
        double far = 0;
        if (w->stage[i].n != n || w->stage[i].cols != cols)
            continue;
        for (int64_t k = 0; k < n; k++)
            far = fmax(far, fabs((double)w->stage[i].at[k] - (double)want[k]));
        best = fmin(best, far / most);
    }
    return best;
}

/* Faults: an op that is wrong where the logits hardly show it. Stages that we never make as one
 * thing (scores of attention, q, k and v by heads, probabilities) are left out. */
static void every_stage(void **state)
{
    static const char *const stages[] = {
        "x",    "ln1", "qkv",      "y",      "yProj",  "attnResid", "ln2",  "fc",
        "gelu", "mlp", "mlpResid", "block0", "block1", "block2",    "ln_f", "lm_head"};
    struct golden g;
    struct err e = ERR_INIT;
    int64_t n_idx;
    (void)state;
    if (!golden_init_real(&g, "gpt-nano-sort", NULL, "golden_activations.safetensors"))
        skip();
    struct runner *r = runner_for(&g);
    struct eager *eager = eager_new(g.stream, &e);
    struct batch *b = runner_batch(r);
    float *idx = golden_tensor(&g, "idx", &n_idx);
    assert_int_equal(n_idx, 3 * 11);
    for (int32_t i = 0; i < 33; i++) {
        b->token[i] = (int32_t)idx[i];
        b->pos[i] = i % 11;
        b->seq_of[i] = i / 11;
        b->out_row[i] = i;
    }
    for (int32_t s = 0; s < 3; s++) {
        b->q_start[s + 1] = (s + 1) * 11;
        b->kv_len[s] = 11;
        b->cell[s * b->cell_stride] = s;
    }
    b->q_start[0] = 0;
    b->n[DIM_TOK] = b->n[DIM_OUT] = 33;
    b->n[DIM_SEQ] = 3;
    eager_begin(eager, b, &(struct eager_options){0});
    struct witness *w = xcalloc(1, sizeof *w);
    w->to = eager_builder(eager);
    w->eager = eager;
    w->b = *w->to;
    w->b.add = witness_add;
    w->b.shape_of = witness_shape;
    w->b.block = NULL;
    model_build(g.model, &w->b, MODEL_LOGITS);
    assert_good(w->b.failed ? -1 : 0, &w->b.err);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        int64_t n;
        float *want = golden_tensor(&g, stages[i], &n);
        double far = nearest(w, want, n, n / 33);
        if (!(far <= 1e-4))
            fail_msg("gpt-nano-sort: no value is %s; the nearest is %.3g off", stages[i], far);
        mem_free(want);
    }
    for (int i = 0; i < w->n_stage; i++)
        mem_free(w->stage[i].at);
    free(w);
    mem_free(idx);
    eager_end(eager);
    eager_free(eager);
    runner_free(r);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(every_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
