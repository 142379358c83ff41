/* SPDX-License-Identifier: Apache-2.0
 *
 * What Hugging Face transformers and PyTorch's autograd compute with tiny encoders, we compute: the
 * vectors of texts, and the gradient of every tensor for the loss sum(vector * target). f32, within
 * 1e-4 relative.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"

enum { TOK_MAX = 512, TEXT_MAX = 8, NAME_BYTES = 256 };

static struct runner *runner_for(struct golden *g)
{
    struct err e = ERR_INIT;
    struct runner_options o = {
        .cap = {[DIM_TOK] = TOK_MAX, [DIM_OUT] = 8, [DIM_SEQ] = 8, [DIM_GROUP] = 1},
        .n_cell = 8 * TOK_MAX / K_CELL,
        .passes = PASS_ALL,
        .output = MODEL_EMBED};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

/* All texts in one batch; CLS pooling wants the first row of each, the last token's its last. */
static void put_texts(struct golden *g, struct runner *r)
{
    struct batch *b = runner_batch(r);
    struct json texts, t;
    struct err e = ERR_INIT;
    int32_t at = 0, s = 0, cell = 0, first[TEXT_MAX] = {0};
    if (json_member(&g->root, "first").node)
        golden_ids(&g->root, "first", first, TEXT_MAX);
    assert_good(json_get(&g->root, "texts", JSON_ARRAY, &texts, &e), &e);
    b->q_start[0] = 0;
    json_each(t, texts)
    {
        struct json c;
        int64_t id;
        int32_t pos = 0;
        b->out_row[s] = at;
        json_each(c, t)
        {
            assert_good(json_as_int(&c, 0, 1 << 30, &id, &e), &e);
            b->token[at] = (int32_t)id;
            b->segment[at] = first[s] > 0 && pos >= first[s];
            b->pos[at] = pos++;
            b->seq_of[at++] = s;
        }
        for (int32_t k = 0; k * K_CELL < pos; k++)
            b->cell[s * b->cell_stride + k] = cell++;
        if (g->model->cfg.pool == POOL_LAST)
            b->out_row[s] = at - 1;
        b->kv_len[s] = pos;
        b->q_start[++s] = at;
    }
    b->n[DIM_TOK] = at;
    b->n[DIM_SEQ] = b->n[DIM_OUT] = s;
    b->n[DIM_GROUP] = 0;
}

/* Faults: pooling, token types, post-norm order, attention that is causal by mistake. */
static void vectors(void **state)
{
    (void)state;
    for (const char *const *name = golden_encoders; *name; name++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct op_view out;
        int64_t n_want;
        golden_init(&g, *name, K_F32, 0);
        struct runner *r = runner_for(&g);
        put_texts(&g, r);
        assert_good(runner_step(r, &out, &e), &e);
        float *want = golden_tensor(&g, "embedding", &n_want);
        assert_int_equal(n_want, runner_batch(r)->n[DIM_SEQ] * out.shape.cols);
        golden_near(*name, out.p, want, n_want, 1e-4);
        mem_free(want);
        runner_free(r);
        golden_release(&g);
    }
}

static float *gradient_new(struct param *p)
{
    struct err e = ERR_INIT;
    p->grad = try_alloc((size_t)(p->n * p->k), sizeof(float), "gradient", &e);
    assert_non_null(p->grad);
    return p->grad;
}

/* A bias of keys adds the same to every score of a query: its gradient is zero but for rounding,
 * and there is nothing to compare. */
static void check_gradients(struct golden *g, const char *name)
{
    for (int32_t i = 0; i < g->model->n_param; i++) {
        struct param *p = &g->model->param[i];
        char what[NAME_BYTES];
        int64_t n;
        if (strstr(p->name, "key.bias"))
            continue;
        float *want = golden_of_param(g, "grad", p, &n);
        assert_int_equal(n, p->n * p->k);
        snprintf(what, sizeof what, "%s: gradient of %s", name, p->name);
        golden_near(what, p->grad, want, n, 1e-4);
        mem_free(want);
    }
}

/* Faults: the backward of pooling, of attention that sees both ways, of norms behind the sum, of
 * token types. */
static void gradients(void **state)
{
    (void)state;
    for (const char *const *name = golden_encoders; *name; name++) {
        struct golden g;
        struct err e = ERR_INIT;
        struct op_view out;
        int64_t n_target;
        golden_init(&g, *name, K_F32, 0);
        for (int32_t k = 0; k < g.model->n_param; k++)
            gradient_new(&g.model->param[k]);
        struct runner *r = runner_for(&g);
        struct eager *eager = eager_new(g.stream, &e);
        put_texts(&g, r);
        assert_good(runner_step(r, &out, &e), &e); /* hands the batch to the device */
        /* an encoder's layers share their cells, which only checkpointing fills again */
        eager_begin(eager, runner_batch(r),
                    &(struct eager_options){.wants_grad = true, .checkpoint = true});
        struct val v = model_build(g.model, eager_builder(eager), MODEL_EMBED);
        assert_good(eager_builder(eager)->failed ? -1 : 0, &eager_builder(eager)->err);
        float *target = golden_tensor(&g, "target", &n_target);
        assert_good(eager_seed(eager, v, target, &e), &e);
        assert_good(eager_backward(eager, &e), &e);
        check_gradients(&g, *name);
        eager_end(eager);
        mem_free(target);
        eager_free(eager);
        runner_free(r);
        for (int32_t k = 0; k < g.model->n_param; k++)
            mem_free(g.model->param[k].grad);
        golden_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
