/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of pairs: their formulas, and steps with them on tiny models, against TRL and against
 * themselves: the cut into micro-batches and checkpointing may not be seen, and the first step is
 * one from the reference.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/train/preference.h"
#include "engine/train/trainer.h"
#include "tests/lib/golden_halves.h"
#include "tests/lib/golden_rows.h"

/* ---- formulas ------------------------------------------------------------------------------ */

static const struct preference_row some_pair[2] = {{-7.5, -8.25, 5}, {-20, -18.5, 9}};

/* Faults: a sign, a beta that is missing, a mean where there is a sum. By hand, to six digits. */
static void values(void **state)
{
    static const struct {
        struct train_preference of;
        double loss, reward[2];
    } want[] = {{{.loss = TRAIN_DPO, .beta = 0.5, .gamma = 0}, 0.281150, {0.375, -0.75}},
                {{.loss = TRAIN_IPO, .beta = 0.5, .gamma = 0}, 0.466944, {0.375, -0.75}},
                {{.loss = TRAIN_ORPO, .beta = 0.1, .gamma = 0}, 1.535288, {-0.15, -0.222222}},
                {{.loss = TRAIN_SIMPO, .beta = 2, .gamma = 1}, 0.495416, {-3, -4.444444}}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct preference_pair got = preference_of(&want[i].of, some_pair);
        if (fabs(got.loss - want[i].loss) > 1e-5)
            fail_msg("loss %d: %.9g, by hand %.9g", (int)want[i].of.loss, got.loss, want[i].loss);
        for (int k = 0; k < 2; k++)
            if (fabs(got.reward[k] - want[i].reward[k]) > 1e-5)
                fail_msg("loss %d: reward %d is %.9g", (int)want[i].of.loss, k, got.reward[k]);
    }
}

/* Faults: what rows count is not what the loss falls by. */
static void slopes(void **state)
{
    static const double h = 1e-5;
    (void)state;
    for (enum train_loss l = TRAIN_DPO; l <= TRAIN_SIMPO; l++) {
        struct train_preference p = {.loss = l};
        train_preference_default(&p);
        struct preference_pair at = preference_of(&p, some_pair);
        for (int k = 0; k < 2; k++) {
            struct preference_row lo[2] = {some_pair[0], some_pair[1]}, hi[2] = {lo[0], lo[1]};
            lo[k].logprob -= h;
            hi[k].logprob += h;
            double by = (preference_of(&p, lo).loss - preference_of(&p, hi).loss) / (2 * h);
            if (fabs(by - at.by[k]) > 1e-6 * fmax(1, fabs(by)))
                fail_msg("loss %d, row %d: %.9g, by differences %.9g", (int)l, k, at.by[k], by);
        }
    }
}

/* Faults: overflow where one row is beyond doubt; a loss that is not exactly log 2 where nothing is
 * learned yet. */
static void ends(void **state)
{
    const struct preference_row same[2] = {{-3.5, -3.5, 2}, {-1e5, -1e5, 70}};
    const struct preference_row far[2] = {{0, -1e6, 1}, {-1e6, 0, 1}}, wrong[2] = {far[1], far[0]};
    (void)state;
    for (enum train_loss l = TRAIN_DPO; l <= TRAIN_SIMPO; l++) {
        struct train_preference p = {.loss = l};
        train_preference_default(&p);
        struct preference_pair good = preference_of(&p, far), bad = preference_of(&p, wrong);
        assert_true(isfinite(good.loss) && isfinite(good.by[0]) && isfinite(good.by[1]));
        assert_true(isfinite(bad.loss) && isfinite(bad.by[0]) && isfinite(bad.by[1]));
    }
    struct preference_pair first =
        preference_of(&(struct train_preference){.loss = TRAIN_DPO, .beta = 0.1, .gamma = 0}, same);
    assert_true(first.loss == M_LN2 && first.reward[0] == 0 && first.reward[1] == 0);
    assert_int_equal(preference_find("dpo"), TRAIN_DPO);
    assert_int_equal(preference_find("x_simpo"), TRAIN_SIMPO);
    assert_int_equal(preference_find("simpo"), TRAIN_LOSS_COUNT);
}

/* Faults: a sign, a weight of the other verdict, a divergence that is left out. By hand. */
static void verdicts(void **state)
{
    static const struct preference_row row = {-7.5, -8.25, 5};
    const struct train_preference p = {
        .loss = TRAIN_KTO, .beta = 0.5, .desirable = 1.5, .undesirable = 0.75};
    static const double h = 1e-5;
    (void)state;
    struct preference_verdict good = preference_of_row(&p, &row, false, 0.25);
    struct preference_verdict bad = preference_of_row(&p, &row, true, 0.25);
    assert_true(fabs(good.loss - 1.5 * 0.437823) < 1e-5 && good.is_right);
    assert_true(fabs(bad.loss - 0.75 * 0.562177) < 1e-5 && !bad.is_right);
    assert_true(good.reward == 0.375 && bad.reward == 0.375);
    for (int k = 0; k < 2; k++) {
        struct preference_row lo = row, hi = row;
        lo.logprob -= h;
        hi.logprob += h;
        double by =
            (preference_of_row(&p, &lo, k, 0.25).loss - preference_of_row(&p, &hi, k, 0.25).loss) /
            (2 * h);
        assert_true(fabs(by - (k ? bad.by : good.by)) < 1e-6);
    }
    static const struct preference_row far[2] = {{0, -1e6, 1}, {-1e6, 0, 1}};
    for (int k = 0; k < 4; k++) {
        struct preference_verdict v = preference_of_row(&p, &far[k % 2], k / 2, 0);
        assert_true(isfinite(v.loss) && isfinite(v.by));
    }
    assert_int_equal(preference_find("x_kto"), TRAIN_KTO);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Rows of a golden, two by two, and what the reference said of them. */
struct pairs {
    struct golden_rows *rows;
    float reference[GOLDEN_ROWS][GOLDEN_ROW_MAX];
    int64_t n; /* rows */
};

static void pairs_init(struct pairs *p, const struct golden *g)
{
    p->rows = golden_rows_new(g);
    p->n = p->rows->n / 2 * 2;
    for (int64_t i = 0; i < p->n; i++) {
        p->reference[i][0] = NAN;
        p->rows->row[i].reference = p->reference[i];
    }
    assert_true(p->n >= 4);
}

static const struct train_options some = {
    .lora = {.rank = 4, .alpha = 8},
    .preference = {.loss = TRAIN_DPO, .beta = 0.1, .gamma = 0},
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

/* Three steps over all pairs. */
static void three_steps(const char *name, enum k_type type, const struct train_options *o,
                        struct train_result got[3], struct pairs *p)
{
    struct golden g;
    struct err e = ERR_INIT;
    golden_init_short(&g, name, type);
    pairs_init(p, &g);
    struct trainer *t = trainer_for(&g, o);
    for (int i = 0; i < 3; i++)
        assert_good(trainer_step(t, p->rows->row, p->n, &got[i], &e), &e);
    trainer_free(t);
    golden_release(&g);
}

/* Faults: a reference that is not the served model, whatever its weights are; dropout in it; one
 * that moves with the adapter. */
static void begins_at_the_reference(void **state)
{
    static const enum k_type types[] = {K_F32, K_BF16, K_F16, K_INT8, K_INT4};
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        struct golden g;
        struct pairs p;
        struct err e = ERR_INIT;
        struct train_options o = some;
        struct train_result got, judged;
        float before[GOLDEN_ROWS][GOLDEN_ROW_MAX];
        golden_init_short(&g, "llama_plain", types[k]);
        pairs_init(&p, &g);
        o.lora.dropout = 0.1; /* an adapter that adds nothing is not there, whatever is dropped */
        struct trainer *t = trainer_for(&g, &o);
        assert_good(trainer_step(t, p.rows->row, p.n, &got, &e), &e);
        assert_true(got.loss == M_LN2 && got.reward[0] == 0 && got.reward[1] == 0);
        assert_true(got.weight == (double)(p.n / 2) && got.grad_norm > 0);
        for (int64_t i = 0; i < p.n; i++)
            assert_memory_equal(p.reference[i], p.rows->logprob[i],
                                (size_t)p.rows->row[i].n * sizeof(float));
        memcpy(before, p.reference, sizeof before);
        for (int64_t i = 0; i < p.n; i++)
            p.reference[i][0] = i % 2 ? NAN : p.reference[i][0];
        for (int i = 0; i < 12; i++)
            assert_good(trainer_step(t, p.rows->row, p.n, &got, &e), &e);
        for (int64_t i = 0; i < p.n; i++)
            assert_memory_equal(p.reference[i], before[i],
                                (size_t)p.rows->row[i].n * sizeof(float));
        assert_good(trainer_eval(t, p.rows->row, p.n, &judged, &e), &e);
        assert_true(judged.loss < M_LN2 && judged.reward[0] > judged.reward[1]);
        assert_true(judged.accuracy == 1);
        trainer_free(t);
        free(p.rows);
        golden_release(&g);
    }
}

/* Faults: pairs that are parted, or that see each other, or a mean over micro-batches. The first
 * losses have the same bits; the first gradients are sums in another order. */
static void cut_is_not_seen(void **state)
{
    (void)state;
    for (enum train_loss l = TRAIN_DPO; l <= TRAIN_SIMPO; l++) {
        struct train_result whole[3], cut[3];
        struct pairs a, b;
        struct train_options o = some;
        o.preference = (struct train_preference){.loss = l};
        train_preference_default(&o.preference);
        three_steps("llama_plain", K_F32, &o, whole, &a);
        o.cap_tok = 128; /* a pair at a time */
        three_steps("llama_plain", K_F32, &o, cut, &b);
        assert_true(cut[0].n_micro > whole[0].n_micro);
        assert_true(whole[0].loss == cut[0].loss);
        assert_true(fabs(whole[0].grad_norm - cut[0].grad_norm) < 1e-6 * whole[0].grad_norm);
        for (int i = 0; i < 3; i++)
            if (fabs(whole[i].loss - cut[i].loss) > 1e-5 * fabs(whole[i].loss))
                fail_msg("loss %d, step %d: %.17g in one, %.17g in parts", (int)l, i, whole[i].loss,
                         cut[i].loss);
        o.checkpoints_blocks = true;
        struct train_result again[3];
        struct pairs c;
        three_steps("llama_plain", K_F32, &o, again, &c);
        for (int i = 0; i < 3; i++)
            assert_true(again[i].loss == cut[i].loss && again[i].grad_norm == cut[i].grad_norm);
        free(a.rows);
        free(b.rows);
        free(c.rows);
    }
}

/* Faults: a divergence of a micro-batch's rows alone; rows of it that are trained, or whose first
 * step is not from the reference; a cut that is seen. */
static void verdicts_of_a_step(void **state)
{
    struct train_result whole[3], cut[3];
    struct pairs a, b;
    struct train_options o = some;
    (void)state;
    o.preference = (struct train_preference){.loss = TRAIN_KTO};
    train_preference_default(&o.preference);
    three_steps("llama_plain", K_F32, &o, whole, &a);
    o.cap_tok = 64;
    three_steps("llama_plain", K_F32, &o, cut, &b);
    assert_true(cut[0].n_micro > whole[0].n_micro && whole[0].loss == 0.5 && whole[0].kl == 0);
    assert_true(whole[0].loss == cut[0].loss && whole[0].n_reward[0] == (double)a.n);
    assert_true(whole[1].kl > 0 && fabs(whole[1].kl - cut[1].kl) < 1e-5 * whole[1].kl);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(whole[i].loss - cut[i].loss) < 1e-5 * whole[i].loss);
    free(a.rows);
    free(b.rows);
}

/* Faults: a loss of pairs that sums a head's gradient before it knows what rows count. */
static void whole_models_are_refused(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_options o = some;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    o.lora.rank = 0;
    assert_null(trainer_new(g.model, &o, g.stream, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    golden_release(&g);
}

/* ---- against TRL --------------------------------------------------------------------------- */

enum { PAIRS_MAX = 16, END_MAX = 64, PATH_BYTES = 256 };

static const char golden_dir[] = "tests/golden/preference";

/* Rows of the golden: prompt and one end, of which the end is learned. */
struct trl {
    int32_t id[2 * PAIRS_MAX][END_MAX], label[2 * PAIRS_MAX][END_MAX];
    float reference[2 * PAIRS_MAX][END_MAX];
    struct train_row row[2 * PAIRS_MAX];
};

static void take_row(struct trl *t, int64_t i, const struct json *pair, const char *end)
{
    int64_t n = golden_ids(pair, "prompt_ids", t->id[i], END_MAX), shared = n;
    n += golden_ids(pair, end, t->id[i] + n, END_MAX - n);
    for (int64_t k = 0; k < n; k++)
        t->label[i][k] = k + 1 >= shared && k + 1 < n ? t->id[i][k + 1] : -1;
    t->reference[i][0] = NAN;
    t->row[i] = (struct train_row){.id = t->id[i],
                                   .label = t->label[i],
                                   .reference = t->reference[i],
                                   .n = n,
                                   .key = (uint64_t)i};
}

static void trl_init(struct trl *t, const struct json *root)
{
    struct err e = ERR_INIT;
    struct json list, pair;
    int64_t i = 0;
    assert_good(json_get(root, "pairs", JSON_ARRAY, &list, &e), &e);
    json_each(pair, list)
    {
        assert_true(i + 2 <= 2 * PAIRS_MAX);
        take_row(t, i++, &pair, "chosen_ids");
        take_row(t, i++, &pair, "rejected_ids");
    }
}

/* Rows with their own labels. */
static int64_t take_verdicts(struct trl *t, const struct json *loss)
{
    struct err e = ERR_INIT;
    struct json list, row;
    int64_t i = 0;
    assert_good(json_get(loss, "rows", JSON_ARRAY, &list, &e), &e);
    json_each(row, list)
    {
        bool is_good;
        assert_true(i < 2 * PAIRS_MAX);
        take_row(t, i, &row, "completion_ids");
        assert_good(json_get_bool(&row, "label", &is_good, &e), &e);
        t->row[i++].is_undesirable = !is_good;
    }
    return i;
}

static void check_verdicts(struct trainer *t, const struct json *loss, struct trl *rows)
{
    enum { BATCH = 4 };
    struct err e = ERR_INIT;
    struct json steps, s;
    int64_t n = take_verdicts(rows, loss), at = 0;
    assert_good(json_get(loss, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        struct train_result got;
        assert_good(trainer_step(t, &rows->row[at], BATCH, &got, &e), &e);
        at = (at + BATCH) % n;
        double want = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - want) > 1e-4 * want || fabs(got.grad_norm - norm) > 1e-3 * norm)
            fail_msg("x_kto, step %lld: loss %.9g and norm %.9g, TRL has %.9g and %.9g",
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, want, norm);
    }
    assert_int_equal(trainer_n_step(t), 20);
}

static void check_steps(struct trainer *t, const struct json *loss, const char *name,
                        struct trl *rows)
{
    struct err e = ERR_INIT;
    struct json steps, s;
    assert_good(json_get(loss, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        int32_t at[2];
        struct train_result got;
        assert_int_equal(golden_ids(&s, "pairs", at, 2), 2);
        const struct train_row four[4] = {rows->row[2 * at[0]], rows->row[2 * at[0] + 1],
                                          rows->row[2 * at[1]], rows->row[2 * at[1] + 1]};
        assert_good(trainer_step(t, four, 4, &got, &e), &e);
        double want = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - want) > 1e-4 * want || fabs(got.grad_norm - norm) > 1e-3 * norm)
            fail_msg("%s, step %lld: loss %.9g and norm %.9g, TRL has %.9g and %.9g", name,
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, want, norm);
    }
    assert_int_equal(trainer_n_step(t), 20);
}

/* Faults: a loss, a mean or a slope that is not TRL's; a reference that is something else than the
 * model without its adapter. */
static void trl_goldens(void **state)
{
    static const char *const names[] = {"dpo", "x_ipo", "x_orpo", "x_simpo", "x_kto"};
    struct err e = ERR_INIT;
    struct json root, opt, all;
    char path[PATH_BYTES];
    (void)state;
    snprintf(path, sizeof path, "%s/golden.json", golden_dir);
    struct json_doc *doc = json_read(path, "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    root = json_root(doc);
    assert_good(json_get(&root, "options", JSON_OBJECT, &opt, &e), &e);
    assert_good(json_get(&root, "losses", JSON_OBJECT, &all, &e), &e);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct golden g;
        struct json loss;
        struct trl *rows = calloc(1, sizeof *rows);
        golden_init(&g, "llama_tied", K_F32, 0);
        trl_init(rows, &root);
        assert_good(json_get(&all, names[i], JSON_OBJECT, &loss, &e), &e);
        struct train_preference of = {preference_find(names[i]), golden_num(&loss, "beta"),
                                      golden_num(&loss, "gamma"), 0, 0};
        bool judges = train_has_verdicts(&of);
        if (judges) {
            of.desirable = golden_num(&loss, "desirable");
            of.undesirable = golden_num(&loss, "undesirable");
        }
        const struct train_options o = {.lora = {.rank = (int64_t)golden_num(&opt, "r"),
                                                 .alpha = golden_num(&opt, "lora_alpha")},
                                        .preference = of,
                                        .lr = golden_num(&opt, "lr"),
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = golden_num(&opt, "eps"),
                                        .decay = golden_num(&opt, "weight_decay"),
                                        .max_norm = golden_num(&opt, "max_grad_norm"),
                                        .cap_tok = 256};
        struct trainer *t = trainer_for(&g, &o);
        golden_halves_take(t, "tests/golden/preference/first.safetensors");
        if (judges)
            check_verdicts(t, &loss, rows);
        else
            check_steps(t, &loss, names[i], rows);
        snprintf(path, sizeof path, "%s/%s.safetensors", golden_dir, names[i]);
        golden_halves_check(t, path);
        trainer_free(t);
        free(rows);
        golden_release(&g);
    }
    json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(slopes),
        cmocka_unit_test(ends),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(begins_at_the_reference),
        cmocka_unit_test(cut_is_not_seen),
        cmocka_unit_test(verdicts_of_a_step),
        cmocka_unit_test(whole_models_are_refused),
        cmocka_unit_test(trl_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
