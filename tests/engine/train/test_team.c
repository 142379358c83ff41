/* SPDX-License-Identifier: Apache-2.0
 *
 * Training over ranks against one rank: losses and gradients of adapters and of whole models where
 * 2 and 4 ranks share the model, where a step's rows are spread over 2 and 4, and both.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/train/state.h"
#include "engine/train/team.h"
#include "engine/train/trainer.h"
#include "tests/lib/golden_rows.h"

enum { STEPS = 3, VALUES_BYTES_MAX = 64 << 20 };

/* What a training gave, at rank 0. */
struct story {
    struct train_options opt;
    const struct golden_rows *rows;
    struct train_result step[STEPS], eval;
    struct buf gradient; /* the first moments behind the first step, as one rank would have them */
};

static int keep_gradient(struct story *s, struct trainer *t, struct stream *stream, bool is_lead,
                         struct err *e)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct train_state state;
    int rc = 0;
    train_state_begin(&state, on, stream);
    for (size_t i = 0; i < on->list.n && is_lead && !rc; i++) {
        int64_t dim[2];
        train_state_shape(&on->list.at[i], dim);
        float *x = try_alloc((size_t)(dim[0] * dim[1]), sizeof *x, "a gradient", e);
        rc = train_state_get(&state, i, TRAIN_MOMENT1, 0, dim[0], x, e);
        if (!rc)
            buf_add(&s->gradient, x, (size_t)(dim[0] * dim[1]) * sizeof *x);
        mem_free(x);
    }
    return train_state_end(&state, rc, e);
}

static int train(void *ctx, struct team_rank *r, struct err *e)
{
    struct story *s = ctx;
    struct train_options o = s->opt;
    bool is_lead = train_is_lead(&r->ranks);
    int rc = 0;
    o.ranks = r->ranks;
    struct trainer *t = trainer_new(r->model, &o, r->stream, e);
    if (!t)
        return -1;
    for (int i = 0; i < STEPS && !rc; i++) {
        struct train_row row[GOLDEN_ROWS];
        struct train_result got;
        for (int64_t k = 0; k < s->rows->n; k++) {
            row[k] = s->rows->row[k];
            row[k].logprob = NULL; /* one array for all ranks */
        }
        rc = trainer_step(t, row, s->rows->n, &got, e);
        if (!rc && i == 0)
            rc = keep_gradient(s, t, r->stream, is_lead, e);
        if (is_lead)
            s->step[i] = got;
        if (!rc && i == STEPS - 1)
            rc = trainer_eval(t, row, s->rows->n, &got, e);
        if (is_lead)
            s->eval = got;
    }
    trainer_free(t);
    return rc;
}

static void story_init(struct story *s, const struct golden *g, const struct golden_rows *rows,
                       const struct train_options *o, int n_tensor, int n_data)
{
    struct err e = ERR_INIT;
    struct team_options team = {
        .dir = &g->dir,
        .model = {.type = (int)g->model->type, .kv_type = -1, .ctx = g->model->ctx},
        .n_tensor = n_tensor,
        .n_data = n_data,
        .n_thread = 1,
        .work = train,
        .ctx = s};
    *s = (struct story){.opt = *o, .rows = rows};
    buf_init(&s->gradient, VALUES_BYTES_MAX);
    assert_good(team_run(&team, &e), &e);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * fabs(b);
}

static void compare(const char *name, const struct story *a, const struct story *b, int n_tensor,
                    int n_data)
{
    char text[128];
    snprintf(text, sizeof text, "%s, rank %d, %d x %d", name, (int)b->opt.lora.rank, n_tensor,
             n_data);
    for (int i = 0; i < STEPS; i++)
        if (!is_near(a->step[i].loss, b->step[i].loss) ||
            !is_near(a->step[i].grad_norm, b->step[i].grad_norm))
            fail_msg("%s, step %d: loss %.9g and norm %.9g, one rank has %.9g and %.9g", text, i,
                     a->step[i].loss, a->step[i].grad_norm, b->step[i].loss, b->step[i].grad_norm);
    assert_true(is_near(a->eval.loss, b->eval.loss));
    assert_int_equal(a->step[0].n_label, b->step[0].n_label);
    assert_true(a->step[0].accuracy == b->step[0].accuracy);
    assert_int_equal(a->gradient.len, b->gradient.len);
    golden_near(text, (const float *)(const void *)a->gradient.data,
                (const float *)(const void *)b->gradient.data,
                (int64_t)(b->gradient.len / sizeof(float)), 1e-5);
}

static const struct train_options some = {.lora = {.rank = 4, .alpha = 8},
                                          .lr = 1e-3,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX};

static const int sizes[][2] = {{2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}};

static void all_sizes(const char *name, const struct train_options *o)
{
    struct golden g;
    struct story one, many;
    golden_init_short(&g, name, K_F32);
    struct golden_rows *rows = golden_rows_new(&g);
    story_init(&one, &g, rows, o, 1, 1);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        story_init(&many, &g, rows, o, sizes[k][0], sizes[k][1]);
        compare(name, &many, &one, sizes[k][0], sizes[k][1]);
        /* before the first update nothing but the order of gradients' sums can differ */
        if (sizes[k][0] == 1)
            assert_true(many.step[0].loss == one.step[0].loss);
        buf_release(&many.gradient);
    }
    buf_release(&one.gradient);
    free(rows);
    golden_release(&g);
}

static const char *const names[] = {"llama_plain", "llama_tied", "qwen2", "qwen3", "gpt2"};

/* Faults: a half that is cut on the wrong side, a sum over ranks that is missing or taken twice, a
 * first value that follows the place of a part, a mean over a rank's own tokens. */
static void adapters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        all_sizes(names[i], &some);
}

/* Faults: a gradient of a norm of heads that is one rank's, a bias that several ranks train, a
 * moment at another rank's place, a layer whose gradients are not summed. */
static void whole_models(void **state)
{
    struct train_options o = some;
    (void)state;
    o.lora.rank = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        all_sizes(names[i], &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters),
        cmocka_unit_test(whole_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
