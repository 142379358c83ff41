/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that learn from a teacher's log-probabilities, against PyTorch and against themselves: the
 * cut into micro-batches, checkpointing and a pause may not be seen, and of a teacher that leaves
 * nothing to others no more than the label's own loss is.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/train/trainer.h"
#include "tests/lib/golden_halves.h"
#include "tests/lib/golden_rows.h"

enum { N_TOP = 6, LABEL_MAX = GOLDEN_ROW_MAX * N_TOP, N_STEP = 20 };

/* What a teacher says of the rows of a golden: at each label N_TOP ids, or fewer and -1; and the
 * same as rows have it, with one -1 behind those of a label. */
struct teacher {
    int32_t id[GOLDEN_ROWS][LABEL_MAX];
    float mass[GOLDEN_ROWS][LABEL_MAX];
    int32_t said[GOLDEN_ROWS][LABEL_MAX + GOLDEN_ROW_MAX];
    float said_mass[GOLDEN_ROWS][LABEL_MAX + GOLDEN_ROW_MAX];
};

static void teach(struct teacher *t, struct golden_rows *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        int64_t to = 0;
        for (int64_t at = 0; at < LABEL_MAX; at += N_TOP) {
            for (int64_t j = at; j < at + N_TOP && t->id[i][j] >= 0; j++) {
                t->said[i][to] = t->id[i][j];
                t->said_mass[i][to++] = t->mass[i][j];
            }
            t->said[i][to++] = -1;
        }
        r->row[i].top_id = t->said[i];
        r->row[i].top = t->said_mass[i];
        r->row[i].n_top = N_TOP;
    }
}

/* The label and what stands beside it in the vocabulary, and more of these than sum to 1; of every
 * fifth label nothing. */
static struct teacher *teacher_new(const struct golden *g, struct golden_rows *r)
{
    static const float mass[N_TOP] = {0.5f, 0.25f, 0.125f, 0.03125f, 0, 0};
    struct teacher *t = xcalloc(1, sizeof *t);
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0, n = 0; k < r->row[i].n; k++) {
            if (r->label[i][k] < 0)
                continue;
            for (int j = 0; j < N_TOP; j++) {
                bool is_there = n % 5 != 4 && mass[j] > 0;
                t->id[i][n * N_TOP + j] =
                    is_there ? (r->label[i][k] + 7 * j) % g->model->cfg.n_vocab : -1;
                t->mass[i][n * N_TOP + j] = is_there ? mass[j] : 0;
            }
            n++;
        }
    teach(t, r);
    return t;
}

static struct trainer *trainer_for(struct golden *g, const struct train_options *o)
{
    struct err e = ERR_INIT;
    struct trainer *t = trainer_new(g->model, o, g->stream, &e);
    assert_good(t ? 0 : -1, &e);
    return t;
}

/* ---- PyTorch ------------------------------------------------------------------------------- */

static void read_mass(const struct json *v, float *out, int64_t n)
{
    struct err e = ERR_INIT;
    struct json list, c;
    int64_t i = 0;
    assert_good(json_get(v, "mass", JSON_ARRAY, &list, &e), &e);
    json_each(c, list)
    {
        double x;
        assert_good(json_as_num(&c, &x, &e), &e);
        assert_true(i < n);
        out[i++] = (float)x;
    }
    assert_int_equal(i, n);
}

static struct teacher *teacher_read(const struct json *root, struct golden_rows *r)
{
    struct teacher *t = xcalloc(1, sizeof *t);
    struct err e = ERR_INIT;
    struct json list, c;
    int64_t i = 0;
    assert_good(json_get(root, "teacher", JSON_ARRAY, &list, &e), &e);
    json_each(c, list)
    {
        int64_t n = golden_ids(&c, "id", t->id[i], LABEL_MAX);
        read_mass(&c, t->mass[i++], n);
    }
    assert_int_equal(i, r->n);
    teach(t, r);
    return t;
}

/* Faults: a share of the wrong token, the others' mass left out, a weight that is turned round, an
 * entropy with a sign, a gradient that is not the loss's. */
static void pytorch_golden(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct json root, steps, s;
    (void)state;
    struct json_doc *doc =
        json_read("tests/golden/distill/golden.json", "golden.json", &json_rules_config, &e);
    assert_good(doc ? 0 : -1, &e);
    root = json_root(doc);
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *r = golden_rows_new(&g);
    struct teacher *teacher = teacher_read(&root, r);
    assert_int_equal((int)golden_num(&root, "n_top"), N_TOP);
    const struct train_options o = {
        .lora = {.rank = (int64_t)golden_num(&root, "r"), .alpha = golden_num(&root, "lora_alpha")},
        .distill = golden_num(&root, "weight"),
        .n_top = N_TOP,
        .lr = golden_num(&root, "lr"),
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = golden_num(&root, "eps"),
        .decay = golden_num(&root, "weight_decay"),
        .max_norm = golden_num(&root, "max_grad_norm"),
        .cap_tok = 256};
    struct trainer *t = trainer_for(&g, &o);
    golden_halves_take(t, "tests/golden/models/llama_plain/lora/adapter_model.safetensors");
    assert_good(json_get(&root, "steps", JSON_ARRAY, &steps, &e), &e);
    json_each(s, steps)
    {
        int32_t at[2];
        struct train_result got;
        assert_int_equal(golden_ids(&s, "rows", at, 2), 2);
        struct train_row two[2] = {r->row[at[0]], r->row[at[1]]};
        assert_good(trainer_step(t, two, 2, &got, &e), &e);
        double loss = golden_num(&s, "loss"), norm = golden_num(&s, "grad_norm");
        if (fabs(got.loss - loss) > 1e-4 * loss || fabs(got.grad_norm - norm) > 1e-3 * norm)
            fail_msg("step %lld: loss %.9g and norm %.9g, the golden has %.9g and %.9g",
                     (long long)trainer_n_step(t), got.loss, got.grad_norm, loss, norm);
    }
    assert_int_equal(trainer_n_step(t), N_STEP);
    golden_halves_check(t, "tests/golden/distill/adapter.safetensors");
    trainer_free(t);
    free(teacher);
    free(r);
    golden_release(&g);
    json_free(doc);
}

/* ---- against itself ------------------------------------------------------------------------ */

static const struct train_options some = {.lora = {.rank = 4, .alpha = 8, .dropout = 0.1},
                                          .distill = 0.75,
                                          .n_top = N_TOP,
                                          .lr = 1e-2,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX};

/* What three steps came to. */
struct outcome {
    double loss[3], norm;
    float logprob[GOLDEN_ROWS][GOLDEN_ROW_MAX], lost[GOLDEN_ROWS][GOLDEN_ROW_MAX];
};

enum how { TAUGHT, CERTAIN, NOT_TAUGHT };

/* A teacher with no doubt: the label, and others that it holds impossible. */
static void be_certain(struct teacher *t)
{
    for (int64_t i = 0; i < GOLDEN_ROWS; i++)
        for (int64_t k = 0; k < LABEL_MAX; k++)
            t->mass[i][k] = t->id[i][k] >= 0 && k % N_TOP == 0;
}

static void forget_others(struct teacher *t)
{
    for (int64_t i = 0; i < GOLDEN_ROWS; i++)
        for (int64_t k = 0; k < LABEL_MAX; k++)
            t->id[i][k] = k % N_TOP ? -1 : t->id[i][k];
}

static struct outcome *three_steps(const char *name, enum k_type type,
                                   const struct train_options *o, enum how how)
{
    struct outcome *out = xcalloc(1, sizeof *out);
    struct golden g;
    struct err e = ERR_INIT;
    golden_init_short(&g, name, type);
    struct golden_rows *r = golden_rows_new(&g);
    struct teacher *teacher = teacher_new(&g, r);
    if (how == CERTAIN) {
        be_certain(teacher);
        forget_others(teacher);
        teach(teacher, r);
    }
    for (int64_t i = 0; i < r->n; i++) {
        r->row[i].n_top = how == NOT_TAUGHT ? 0 : N_TOP;
        r->row[i].loss = out->lost[i];
    }
    struct trainer *t = trainer_for(&g, o);
    for (int i = 0; i < 3; i++) {
        struct train_result got;
        assert_good(trainer_step(t, r->row, r->n, &got, &e), &e);
        out->loss[i] = got.loss;
        out->norm = i ? out->norm : got.grad_norm;
    }
    memcpy(out->logprob, r->logprob, sizeof out->logprob);
    trainer_free(t);
    free(teacher);
    free(r);
    golden_release(&g);
    return out;
}

/* Faults: places of a micro-batch that are read as those of a step, or of another row; a run of
 * logits whose teacher is that of another. */
static void cut_is_not_seen(void **state)
{
    static const enum k_type types[] = {K_F32, K_BF16, K_INT8};
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        struct train_options o = some;
        struct outcome *whole = three_steps("llama_plain", types[k], &o, TAUGHT);
        o.cap_tok = 64; /* a row or two at a time */
        struct outcome *cut = three_steps("llama_plain", types[k], &o, TAUGHT);
        assert_memory_equal(&whole->loss[0], &cut->loss[0], sizeof *whole->loss);
        assert_true(fabs(whole->norm - cut->norm) < 1e-6 * whole->norm);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(whole->loss[i] - cut->loss[i]) <
                        (types[k] == K_F32 ? 1e-5 : 1e-2) * whole->loss[i]);
        assert_true(whole->loss[2] < whole->loss[0]);
        free(whole);
        free(cut);
    }
}

/* Faults: a forward of another kind where blocks run again. A capped head has the cap's slope. */
static void checkpointing_is_not_seen(void **state)
{
    static const char *const names[] = {"qwen2", "gemma2"};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct train_options o = some;
        o.lora.rank = k % 2 ? 4 : 0;
        o.lr = 1e-3;
        struct outcome *plain = three_steps(names[k / 2], K_BF16, &o, TAUGHT);
        o.checkpoints_blocks = true;
        struct outcome *again = three_steps(names[k / 2], K_BF16, &o, TAUGHT);
        assert_memory_equal(plain, again, sizeof *plain);
        free(plain);
        free(again);
    }
}

/* Faults: a loss, or a gradient, that is made otherwise where a teacher speaks: one that holds the
 * label certain says what the label says, to the bit, whatever it counts. */
static void certainty_is_cross_entropy(void **state)
{
    static const double weight[] = {0.3, 1};
    static const char *const names[] = {"llama_plain", "gemma2"};
    (void)state;
    for (size_t k = 0; k < 8; k++) {
        struct train_options o = some;
        const char *name = names[k % 2];
        o.lora.rank = k / 2 % 2 ? 4 : 0;
        o.lr = o.lora.rank ? 1e-2 : 1e-3;
        o.distill = weight[k / 4];
        struct outcome *taught = three_steps(name, K_BF16, &o, CERTAIN);
        struct outcome *plain = three_steps(name, K_BF16, &o, NOT_TAUGHT);
        assert_memory_equal(taught, plain, sizeof *plain);
        struct outcome *other = three_steps(name, K_BF16, &o, TAUGHT);
        assert_memory_not_equal(other->loss, plain->loss, sizeof plain->loss);
        free(taught);
        free(plain);
        free(other);
    }
}

/* Fault: a divergence that is not one: below 0, or above it where nothing is left to learn. The
 * model is its own teacher, by the log-probabilities of its labels alone. */
static void of_itself_nothing_is_learned(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct train_result got;
    struct train_options o = some;
    (void)state;
    o.distill = 1;
    o.lora.dropout = 0;
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *r = golden_rows_new(&g);
    struct trainer *t = trainer_for(&g, &o);
    assert_good(trainer_eval(t, r->row, r->n, &got, &e), &e);
    struct teacher *teacher = teacher_new(&g, r);
    forget_others(teacher);
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0, n = 0; k < r->row[i].n; k++)
            if (r->label[i][k] >= 0) {
                teacher->id[i][n * N_TOP] = r->label[i][k];
                teacher->mass[i][n++ * N_TOP] = expf(r->logprob[i][k]);
            }
    teach(teacher, r);
    assert_good(trainer_eval(t, r->row, r->n, &got, &e), &e);
    if (fabs(got.loss) > 1e-6)
        fail_msg("a divergence of %.9g from itself", got.loss);
    assert_good(trainer_step(t, r->row, r->n, &got, &e), &e);
    assert_true(got.grad_norm < 1e-4);
    trainer_free(t);
    free(teacher);
    free(r);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorch_golden),
        cmocka_unit_test(cut_is_not_seen),
        cmocka_unit_test(checkpointing_is_not_seen),
        cmocka_unit_test(certainty_is_cross_entropy),
        cmocka_unit_test(of_itself_nothing_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
