/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of rewards: their formulas, and steps with them on tiny models, against TRL and against
 * themselves: the cut into micro-batches may not be seen, and what a model has just said has the
 * ratio 1.
 */
#include "engine/train/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/trainer.h"
#include "tests/lib/golden_halves.h"
#include "tests/lib/golden_rows.h"
#include "tests/lib/test.h"

/* ---- formulas ------------------------------------------------------------------------------ */

static void near(const char *what, double is, double want)
{
    if (fabs(is - want) > 1e-9 * fmax(1, fabs(want)))
        fail_msg("%s: %.12g, by hand %.12g", what, is, want);
}

/* Faults: another deviation, a mean with the row itself, a group of equals that learns. */
static void advantages(void **state)
{
    const double reward[4] = {1, 0, 0, 0.5}, alike[3] = {0.1, 0.1, 0.1};
    double out[4];
    (void)state;
    policy_advantages(TRAIN_DR_GRPO, reward, 4, out);
    near("dr_grpo", out[0], 0.625);
    policy_advantages(TRAIN_GRPO, reward, 4, out);
    near("grpo", out[0], 0.625 / (sqrt(0.6875 / 3) + 1e-4));
    policy_advantages(TRAIN_RLOO, reward, 4, out);
    near("rloo", out[0], 1 - 0.5 / 3);
    near("rloo", out[1], -0.5);
    for (int k = TRAIN_GRPO; k <= TRAIN_RLOO; k++) {
        policy_advantages((enum train_advantage)k, alike, 3, out);
        assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0);
        policy_advantages((enum train_advantage)k, reward, 1, out);
        assert_true(out[0] == 0);
    }
    near("a share of grpo", policy_share(TRAIN_GRPO, 5, 10, 4), 1.0 / 20);
    near("a share of dr_grpo", policy_share(TRAIN_DR_GRPO, 5, 10, 4), 1.0 / 40);
    near("a share of rloo", policy_share(TRAIN_RLOO, 5, 10, 4), 0.25);
}

/* Faults: a slope that is not the loss's, a clip on the wrong side, a ratio of 1 that is not the
 * advantage to the bit. */
static void tokens(void **state)
{
    const struct train_policy p = {.is_on = true, .clip_low = 0.1, .clip_high = 0.3, .kl = 0.05};
    static const double h = 1e-6, xs[] = {-3, -2.2, -2.01, -2, -1.99, -1.9, -1.5};
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2)
        for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
            double a = 0.7 * sign, x = xs[i];
            const struct policy_logprobs near_x[] = {
                {x, -2, -2.5}, {x - h, -2, -2.5}, {x + h, -2, -2.5}};
            struct policy_token at = policy_of(&p, a, x + 2, &near_x[0]),
                                lo = policy_of(&p, a, x - h + 2, &near_x[1]),
                                hi = policy_of(&p, a, x + h + 2, &near_x[2]);
            double by = (lo.loss - hi.loss) / (2 * h), r = exp(x + 2);
            if (fabs(by - at.by) > 1e-7)
                fail_msg("%g at %g: %.9g, by differences %.9g", a, x, at.by, by);
            assert_int_equal(at.is_clipped, a > 0 ? r > 1.3 : r < 0.9);
        }
    const struct train_policy plain = {.is_on = true, .clip_low = 0.2, .clip_high = 0.2};
    struct policy_token on = policy_of(&plain, 0.3, 0, &(struct policy_logprobs){-1.25, -1.25, 0});
    assert_true(on.by == 0.3 && on.loss == -0.3 && !on.is_clipped && on.kl == 0);
    for (int i = -1; i <= 1; i++) /* what has no advantage has no ratio to clip */
        assert_false(
            policy_of(&plain, 0, i, &(struct policy_logprobs){-1.25, -1.25, 0}).is_clipped);
}

/* ---- steps --------------------------------------------------------------------------------- */

static const struct train_options some = {.lora = {.rank = 4, .alpha = 8},
                                          .policy = {true, false, 0.2, 0.2, 0},
                                          .lr = 1e-2,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX};

static struct trainer *trainer_for(struct golden *g, const struct train_options *o)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* Rows of a golden as samples: what the model says of them is what they were drawn with. */
struct samples {
    struct golden_rows *rows;
    float sampled[GOLDEN_ROWS][GOLDEN_ROW_MAX], reference[GOLDEN_ROWS][GOLDEN_ROW_MAX];
};

static void samples_init(struct samples *s, const struct golden *g)
{
    s->rows = golden_rows_new(g);
    for (int64_t i = 0; i < s->rows->n; i++) {
        struct train_row *r = &s->rows->row[i];
        s->reference[i][0] = NAN;
        r->reference = s->reference[i];
        r->sampled = s->sampled[i];
        r->advantage = i % 2 ? -0.5 : 1;
        r->share = policy_share(TRAIN_GRPO, r->n, GOLDEN_ROW_MAX, s->rows->n);
    }
}

static void draw(struct samples *s, struct trainer *t)
{
    struct err e = ERR_INIT;
    struct train_result got;
    assert_good(trainer_eval(t, s->rows->row, s->rows->n, &got, &e), &e);
    for (int64_t i = 0; i < s->rows->n; i++)
        memcpy(s->sampled[i], s->rows->logprob[i], (size_t)s->rows->row[i].n * sizeof(float));
}

/* Faults: a ratio that is 1 but for a bit; clipped labels where there are none; a step that is not
 * told from the next, which is off the policy. */
static void on_policy(void **state)
{
    static const enum k_type types[] = {K_F32, K_BF16, K_INT8, K_INT4};
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        struct golden g;
        struct samples s;
        struct err e = ERR_INIT;
        struct train_result got;
        struct train_options o = some;
        o.policy.kl = k % 2 ? 0.05 : 0;
        golden_init_short(&g, "llama_plain", types[k]);
        samples_init(&s, &g);
        struct trainer *t = trainer_for(&g, &o);
        for (int i = 0; i < 3; i++) {
            draw(&s, t);
            assert_good(trainer_step(t, s.rows->row, s.rows->n, &got, &e), &e);
            assert_int_equal(got.n_moved, 0);
            assert_int_equal(got.n_clipped, 0);
            assert_true(got.grad_norm > 0 && (got.kl > 0) == (o.policy.kl > 0 && i > 0));
        }
        assert_good(trainer_step(t, s.rows->row, s.rows->n, &got, &e), &e);
        assert_true(got.n_moved > 0);
        trainer_free(t);
        free(s.rows);
        golden_release(&g);
    }
}

/* Faults: rows that see each other, or a mean over micro-batches. */
static void cut_is_not_seen(void **state)
{
    struct train_result got[3][3];
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct golden g;
        struct samples s;
        struct err e = ERR_INIT;
        struct train_options o = some;
        o.policy.kl = 0.1;
        o.cap_tok = way ? 128 : o.cap_tok;
        o.checkpoints_blocks = way == 2;
        golden_init_short(&g, "llama_plain", K_F32);
        samples_init(&s, &g);
        struct trainer *t = trainer_for(&g, &o);
        draw(&s, t);
        for (int i = 0; i < 3; i++)
            assert_good(trainer_step(t, s.rows->row, s.rows->n, &got[way][i], &e), &e);
        trainer_free(t);
        free(s.rows);
        golden_release(&g);
    }
    assert_true(got[1][0].n_micro > got[0][0].n_micro && got[0][0].loss == got[1][0].loss);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(got[0][i].loss - got[1][i].loss) < 1e-5);
        assert_true(got[1][i].loss == got[2][i].loss && got[1][i].grad_norm == got[2][i].grad_norm);
    }
}

/* Faults: a group of equals that moves something; weights of the whole model, which have no
 * reference. */
static void ends(void **state)
{
    struct golden g;
    struct samples s;
    struct err e = ERR_INIT;
    struct train_result got;
    struct train_options o = some;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    samples_init(&s, &g);
    struct trainer *t = trainer_for(&g, &o);
    draw(&s, t);
    for (int64_t i = 0; i < s.rows->n; i++)
        s.rows->row[i].advantage = 0;
    assert_good(trainer_step(t, s.rows->row, s.rows->n, &got, &e), &e);
    assert_true(got.loss == 0 && got.grad_norm == 0 && got.n_clipped == 0);
    trainer_free(t);
    o.lora.rank = 0;
    assert_null(trainer_new(g.model, &o, g.stream, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    free(s.rows);
    golden_release(&g);
}

/* ---- against TRL --------------------------------------------------------------------------- */

enum { ROWS_MAX = 8, ROW_MAX = 64, PATH_BYTES = 256 };

struct trl {
    int32_t id[ROWS_MAX][ROW_MAX], label[ROWS_MAX][ROW_MAX];
    float sampled[ROWS_MAX][ROW_MAX], reference[ROWS_MAX][ROW_MAX];
    double reward[ROWS_MAX], advantage[ROWS_MAX];
    struct train_row row[ROWS_MAX];
    int64_t n;
};

static void take_row(struct trl *t, const struct json *from)
{
    int64_t i = t->n++, at, n_sample, k;
    struct err e = ERR_INIT;
    struct json list, x;
    assert_true(i < ROWS_MAX);
    int64_t shared = golden_ids(from, "prompt_ids", t->id[i], ROW_MAX);
    n_sample = golden_ids(from, "sample_ids", t->id[i] + shared, ROW_MAX - shared);
    for (k = 0; k < shared + n_sample; k++)
        t->label[i][k] = k + 1 >= shared && k + 1 < shared + n_sample ? t->id[i][k + 1] : -1;
    at = shared - 1;
    assert_good(json_get(from, "logprobs", JSON_ARRAY, &list, &e), &e);
    json_each(x, list)
    {
        double lp;
        assert_good(json_as_num(&x, &lp, &e), &e);
        t->sampled[i][at++] = (float)lp;
    }
    assert_int_equal(at, shared - 1 + n_sample);
    t->reference[i][0] = NAN;
    t->reward[i] = golden_num(from, "reward");
    t->advantage[i] = golden_num(from, "advantage");
    t->row[i] = (struct train_row){.id = t->id[i],
                                   .label = t->label[i],
                                   .sampled = t->sampled[i],
                                   .reference = t->reference[i],
                                   .n = shared + n_sample,
                                   .key = (uint64_t)i};
}

static void take_batch(struct trl *t, const struct json *batch, enum train_advantage kind,
                       int64_t group, int64_t most)
{
    struct err e = ERR_INIT;
    struct json list, row;
    t->n = 0;
    assert_good(json_get(batch, "rows", JSON_ARRAY, &list, &e), &e);
    json_each(row, list) take_row(t, &row);
    for (int64_t i = 0; i < t->n; i += group) {
        double own[ROWS_MAX];
        policy_advantages(kind, t->reward + i, group, own);
        for (int64_t k = 0; k < group; k++) {
            struct train_row *r = &t->row[i + k];
            int64_t n = 0;
            assert_true(fabs(own[k] - t->advantage[i + k]) < 1e-5);
            for (int64_t p = 0; p < r->n; p++)
                n += r->label[p] >= 0;
            r->advantage = own[k];
            r->share = policy_share(kind, n, most, t->n);
        }
    }
}

static void check_batch(struct trainer *t, const struct json *batch, const char *name,
                        struct trl *rows)
{
    struct err e = ERR_INIT;
    struct json steps, s;
    assert_good(json_get(batch, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        struct train_result got;
        assert_good(trainer_step(t, rows->row, rows->n, &got, &e), &e);
        double want = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - want) > 1e-4 * fmax(fabs(want), 0.1) ||
            fabs(got.grad_norm - norm) > 1e-3 * norm + 1e-6)
            fail_msg("%s, step %lld: loss %.9g and norm %.9g, TRL has %.9g and %.9g", name,
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, want, norm);
        assert_int_equal(got.n_clipped, (int64_t)golden_num(&s, "n_clipped"));
    }
}

static void check_kind(const struct json *root, const char *name, enum train_advantage kind)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct json opt, all, of, batches, batch;
    char path[PATH_BYTES];
    struct trl *rows = calloc(1, sizeof *rows);
    golden_init(&g, "llama_tied", K_F32, 0);
    assert_good(json_get(root, "options", JSON_OBJECT, &opt, &e), &e);
    assert_good(json_get(root, "kinds", JSON_OBJECT, &all, &e), &e);
    assert_good(json_get(&all, name, JSON_OBJECT, &of, &e), &e);
    assert_good(json_get(&of, "batches", JSON_ARRAY, &batches, &e), &e);
    const struct train_options o = {
        .lora = {.rank = (int64_t)golden_num(&opt, "r"), .alpha = golden_num(&opt, "lora_alpha")},
        .policy = {.is_on = true,
                   .has_row_ratio = kind == TRAIN_RLOO,
                   .clip_low = golden_num(&of, "clip_low"),
                   .clip_high = golden_num(&of, "clip_high"),
                   .kl = golden_num(&of, "beta")},
        .lr = golden_num(&opt, "lr"),
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = golden_num(&opt, "eps"),
        .decay = golden_num(&opt, "weight_decay"),
        .max_norm = golden_num(&opt, "max_grad_norm"),
        .cap_tok = ROWS_MAX * ROW_MAX};
    struct trainer *t = trainer_for(&g, &o);
    golden_halves_take(t, "tests/golden/preference/first.safetensors");
    json_each(batch, batches)
    {
        take_batch(rows, &batch, kind, (int64_t)golden_num(root, "group"),
                   (int64_t)golden_num(root, "most"));
        check_batch(t, &batch, name, rows);
    }
    assert_int_equal(trainer_n_step(t), 20);
    snprintf(path, sizeof path, "tests/golden/policy/%s.safetensors", name);
    golden_halves_check(t, path);
    trainer_free(t);
    free(rows);
    golden_release(&g);
}

/* Faults: a loss, a share, a ratio, a clip or an advantage that is not TRL's; a reference that is
 * something else than the model without its adapter. */
static void trl_goldens(void **state)
{
    static const char *const names[] = {"grpo", "dr_grpo", "rloo"};
    struct err e = ERR_INIT;
    (void)state;
    struct json_doc *doc =
        json_read("tests/golden/policy/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    struct json root = json_root(doc);
    for (int i = TRAIN_GRPO; i <= TRAIN_RLOO; i++)
        check_kind(&root, names[i], (enum train_advantage)i);
    json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advantages),      cmocka_unit_test(tokens), cmocka_unit_test(on_policy),
        cmocka_unit_test(cut_is_not_seen), cmocka_unit_test(ends),   cmocka_unit_test(trl_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
