/* SPDX-License-Identifier: Apache-2.0
 *
 * Training over ranks against one rank: losses and gradients of adapters and of whole models where
 * 2 and 4 ranks share the model, where a step's rows are spread over 2 and 4, and both; checkpoints
 * of some ranks that go on at others; a rank that fails; and what is trained is what is served.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/lead.h"
#include "engine/train/checkpoint.h"
#include "engine/train/team.h"
#include "engine/train/trainer.h"
#include "tests/lib/formats.h"
#include "tests/lib/golden_rows.h"

enum { STEPS = 4, HALF = 2, VALUES_BYTES_MAX = 64 << 20 };

/* What a training gave, at rank 0. */
struct story {
    struct train_options opt;
    const struct golden_rows *rows;
    const char *from, *to; /* checkpoints: goes on behind HALF steps; is left behind as many */
    int falls;             /* the rank that fails behind the first step; 0: none */
    struct train_result step[STEPS], eval;
    VEC(int64_t) size;   /* of each tensor */
    struct buf gradient; /* the first moments behind the first step, as one rank would have them */
    struct buf values;   /* all that is trained, behind the last */
    struct buf half;     /* the same, behind HALF, where it is saved or goes on */
};

/* All of one kind, at the first rank. */
static int keep(struct story *s, struct buf *b, enum train_array which, struct trainer *t,
                struct stream *stream, struct err *e)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct train_state state;
    int rc = 0;
    train_state_begin(&state, on, stream);
    for (size_t i = 0; i < on->list.n && train_is_lead(&on->ranks) && !rc; i++) {
        int64_t dim[2];
        train_state_shape(&on->list.at[i], dim);
        float *x = try_alloc((size_t)(dim[0] * dim[1]), sizeof *x, "a tensor", e);
        rc = train_state_get(&state, i, which, 0, dim[0], x, e);
        if (!rc)
            buf_add(b, x, (size_t)(dim[0] * dim[1]) * sizeof *x);
        if (which == TRAIN_MOMENT1)
            vec_push(&s->size, dim[0] * dim[1]);
        mem_free(x);
    }
    return train_state_end(&state, rc, e);
}

static int step(struct story *s, struct trainer *t, int i, struct train_result *out, struct err *e)
{
    struct train_row row[GOLDEN_ROWS];
    float reference[GOLDEN_ROWS][GOLDEN_ROW_MAX];
    int64_t n = s->rows->n;
    for (int64_t k = 0; k < n; k++) {
        row[k] = s->rows->row[k];
        row[k].logprob = NULL; /* one array for all ranks */
        row[k].reference = reference[k];
        reference[k][0] = NAN;
    }
    if (train_has_pairs(&s->opt.preference))
        n -= n % 2;
    return i < STEPS ? trainer_step(t, row, n, out, e) : trainer_eval(t, row, n, out, e);
}

/* What comes behind step i. */
static int behind(struct story *s, struct trainer *t, int i, struct team_rank *r, struct err *e)
{
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct checkpoint c = {.step = HALF};
    if (s->falls && comm_rank(r->ranks.all) == s->falls)
        return err_set(e, ERR_IO, "rank %d fell", s->falls);
    if (i == 0)
        return keep(s, &s->gradient, TRAIN_MOMENT1, t, r->stream, e);
    if (i == HALF - 1 && s->to)
        return checkpoint_save(s->to, &c, on, r->stream, e) ||
                       keep(s, &s->half, TRAIN_VALUE, t, r->stream, e)
                   ? -1
                   : 0;
    return i == STEPS - 1 ? keep(s, &s->values, TRAIN_VALUE, t, r->stream, e) : 0;
}

static int go_on(struct story *s, struct trainer *t, struct team_rank *r, int *i, struct err *e)
{
    struct checkpoint c = {0};
    if (!s->from)
        return 0;
    if (checkpoint_load(s->from, &c, &trainer_subject(t)->tensors, r->stream, e))
        return -1;
    assert_int_equal(c.step, HALF);
    *i = HALF;
    trainer_set_step(t, HALF);
    return keep(s, &s->half, TRAIN_VALUE, t, r->stream, e);
}

static int train(void *ctx, struct team_rank *r, struct err *e)
{
    struct story *s = ctx;
    struct train_options o = s->opt;
    struct train_result got = {0};
    int i = 0;
    o.ranks = r->ranks;
    struct trainer *t = trainer_new(r->model, &o, r->stream, e);
    int rc = t ? go_on(s, t, r, &i, e) : -1;
    for (; i <= STEPS && !rc; i++) {
        rc = step(s, t, i, &got, e) || behind(s, t, i, r, e) ? -1 : 0;
        if (train_is_lead(&r->ranks))
            *(i < STEPS ? &s->step[i] : &s->eval) = got;
    }
    trainer_free(t);
    return rc;
}

static int run(struct story *s, const struct golden *g, const int size[2], struct err *e)
{
    struct team_options team = {
        .dir = &g->dir,
        .model = {.type = (int)model_main_type(g->model), .kv_type = -1, .ctx = g->model->ctx},
        .device = "cpu",
        .n_tensor = size[0],
        .n_data = size[1],
        .n_thread = 1,
        .work = train,
        .ctx = s};
    buf_init(&s->gradient, VALUES_BYTES_MAX);
    buf_init(&s->values, VALUES_BYTES_MAX);
    buf_init(&s->half, VALUES_BYTES_MAX);
    return team_run(&team, e);
}

static void story_run(struct story *s, const struct golden *g, const int size[2])
{
    struct err e = ERR_INIT;
    assert_good(run(s, g, size, &e), &e);
}

static void story_release(struct story *s)
{
    buf_release(&s->gradient);
    buf_release(&s->values);
    buf_release(&s->half);
    vec_release(&s->size);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * fabs(b);
}

/* How far a number of a gradient may be. Of the delta rule, where an error of one row comes to all
 * before it, farther: of weights of qwen3_5's last convolution one rank is 1.5e-5 of the largest to
 * one side of what they are in f64, and two ranks 2.0e-5 to the other. */
static double far_of(const char *name, const struct story *s)
{
    return strcmp(name, "qwen3_5") != 0 ? 1e-5 : s->opt.lora.rank > 0 ? 2e-5 : 4e-5;
}

/* Losses and norms within 1e-5. */
static void compare(const char *name, const struct story *a, const struct story *b, int first,
                    const int size[2])
{
    char text[128];
    snprintf(text, sizeof text, "%s, rank %d, %d x %d", name, (int)b->opt.lora.rank, size[0],
             size[1]);
    for (int i = first; i < STEPS; i++)
        if (!is_near(a->step[i].loss, b->step[i].loss) ||
            !is_near(a->step[i].grad_norm, b->step[i].grad_norm))
            fail_msg("%s, step %d: loss %.9g and norm %.9g, one rank has %.9g and %.9g", text, i,
                     a->step[i].loss, a->step[i].grad_norm, b->step[i].loss, b->step[i].grad_norm);
    assert_true(is_near(a->eval.loss, b->eval.loss));
    if (first > 0)
        return;
    assert_int_equal(a->step[0].n_label, b->step[0].n_label);
    assert_true(a->step[0].accuracy == b->step[0].accuracy);
    assert_int_equal(a->gradient.len, b->gradient.len);
    const float *x = (const float *)(const void *)a->gradient.data;
    const float *y = (const float *)(const void *)b->gradient.data;
    for (size_t i = 0; i < b->size.n; x += b->size.at[i], y += b->size.at[i], i++)
        golden_near(text, x, y, b->size.at[i], far_of(name, a));
}

static const struct train_options some = {.lora = {.rank = 4, .alpha = 8, .lr_ratio = 2},
                                          .lr = 1e-3,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .max_norm = 1,
                                          .seed = 5,
                                          .cap_tok = GOLDEN_ROWS * GOLDEN_ROW_MAX};

static const int sizes[][2] = {{2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}};

enum { N_TOP = 2 };

/* A teacher that holds each label half as likely as the id beside it, which it leaves little else.
 */
static void teach(struct golden_rows *r, int64_t n_vocab)
{
    static int32_t id[GOLDEN_ROWS][GOLDEN_ROW_MAX * (N_TOP + 1)];
    static float mass[GOLDEN_ROWS][GOLDEN_ROW_MAX * (N_TOP + 1)];
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t k = 0, n = 0; k < r->row[i].n; k++) {
            if (r->label[i][k] < 0)
                continue;
            for (int32_t j = 0; j < N_TOP; j++, n++) {
                id[i][n] = (r->label[i][k] + j) % (int32_t)n_vocab;
                mass[i][n] = j ? 0.6f : 0.3f;
            }
            id[i][n++] = -1;
        }
        r->row[i].top_id = id[i];
        r->row[i].top = mass[i];
        r->row[i].n_top = N_TOP;
    }
}

static void all_sizes(const char *name, const struct train_options *o)
{
    struct golden g;
    golden_init_short(&g, name, K_F32);
    struct golden_rows *rows = golden_rows_new(&g);
    if (o->n_top)
        teach(rows, g.model->cfg.n_vocab);
    struct story one = {.opt = *o, .rows = rows};
    story_run(&one, &g, (const int[]){1, 1});
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct story many = {.opt = *o, .rows = rows};
        story_run(&many, &g, sizes[k]);
        compare(name, &many, &one, 0, sizes[k]);
        /* before the first update nothing but the order of gradients' sums can differ */
        if (sizes[k][0] == 1)
            assert_true(many.step[0].loss == one.step[0].loss);
        story_release(&many);
    }
    story_release(&one);
    free(rows);
    golden_release(&g);
}

static const char *const names[] = {"llama_plain", "llama_tied",     "qwen2",  "qwen3",  "gpt2",
                                    "lfm2",        "granite_hybrid", "gemma4", "gemma3n"};
enum { N_NAME = sizeof names / sizeof *names };

/* Faults: a half that is cut on the wrong side, a sum over ranks that is missing or taken twice, a
 * first value that follows the place of a part, a mean over a rank's own tokens, draws of dropout
 * or of noise that are a rank's own, a gradient that is summed before and behind a dropout; of a
 * slice of a slice (a rank's heads of a delta rule's queries), which lands where the outer one
 * begins; of a layer that is summed over ranks before it is whole.
 */
static void adapters(void **state)
{
    (void)state;
    struct train_options o = some;
    for (size_t i = 0; i < N_NAME; i++) {
        o.lora.dropout = i % 2 ? 0.1 : 0;
        o.noise = i % 2 ? 0 : 0.2;
        o.checkpoints_blocks = i % 7 == 1; /* llama_tied and gemma3n */
        all_sizes(names[i], &o);
    }
    all_sizes("qwen3_5", &some);
    all_sizes("qwen3_next", &some);
}

/* Faults: as above, of halves of each expert, which no rank has a part of alone; a gradient of
 * theirs that is summed over ranks that have the whole. */
static void adapters_of_experts(void **state)
{
    static const char *const mixtures[] = {"qwen3_moe", "mixtral", "gpt_oss", "gemma4_experts"};
    struct train_options o = some;
    (void)state;
    o.lora.target[0] = "experts", o.lora.target[1] = "o_proj", o.lora.n_target = 2;
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        all_sizes(mixtures[i], &o);
}

/* Faults: a pair whose rows are two ranks', a reference that is a rank's own, a graph of it that
 * has the adapter. */
static void preferences(void **state)
{
    (void)state;
    struct train_options o = some;
    o.preference = (struct train_preference){.loss = TRAIN_DPO, .beta = 0.1, .gamma = 0};
    all_sizes("llama_plain", &o);
    o.preference = (struct train_preference){.loss = TRAIN_ORPO, .beta = 0.1, .gamma = 0};
    o.checkpoints_blocks = true;
    all_sizes("qwen2", &o);
}

/* Faults: a teacher of other ranks' rows, or of a part of the vocabulary; a loss that stays a
 * rank's own. */
static void teachers(void **state)
{
    (void)state;
    struct train_options o = some;
    o.distill = 0.75;
    o.n_top = N_TOP;
    all_sizes("llama_plain", &o);
    o.lora.rank = 0;
    all_sizes("llama_tied", &o);
}

/* Faults: a gradient of a norm of heads that is one rank's, a bias that several ranks train, a
 * moment at another rank's place, a layer whose gradients are not summed. */
static void whole_models(void **state)
{
    struct train_options o = some;
    (void)state;
    o.lora.rank = 0;
    for (size_t i = 0; i < N_NAME; i++) {
        o.noise = i % 2 ? 0.2 : 0;
        all_sizes(names[i], &o);
    }
    o.noise = 0;
    all_sizes("qwen3_5", &o);
    all_sizes("qwen3_next", &o);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, b->len) == 0;
}

/* What 2 ranks saved goes on at every size, and what one saved at 2. Faults: a tensor that is saved
 * in part, a moment at another place or of another rank, a rank that goes on with other values, or
 * without the halves that bf16 lacks; at the same size a bit that is lost. */
static void check_sizes(const char *dir, enum k_type type, int64_t rank)
{
    static const int saved[][2] = {{2, 1}, {1, 2}, {2, 2}, {1, 1}};
    static const int goes_on[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}};
    struct golden g;
    golden_init_short(&g, "qwen3", type);
    struct golden_rows *rows = golden_rows_new(&g);
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        struct story all = {.opt = some, .rows = rows, .to = dir};
        all.opt.lora.rank = rank;
        all.opt.lora.dropout = rank ? 0.1 : 0;
        story_run(&all, &g, saved[i]);
        for (size_t k = 0; k < sizeof goes_on / sizeof *goes_on; k++) {
            struct story rest = {.opt = all.opt, .rows = rows, .from = dir};
            story_run(&rest, &g, goes_on[k]);
            assert_true(is_same(&rest.half, &all.half));
            if (memcmp(saved[i], goes_on[k], sizeof *saved) == 0) {
                assert_true(is_same(&rest.values, &all.values));
                assert_memory_equal(&rest.step[HALF], &all.step[HALF],
                                    (STEPS - HALF) * sizeof *all.step);
            }
            if (type == K_F32) /* bf16 rounds other sums to other sides */
                compare("going on", &rest, &all, HALF, goes_on[k]);
            story_release(&rest);
        }
        story_release(&all);
        assert_good(fs_remove_tree(dir, NULL), NULL);
    }
    free(rows);
    golden_release(&g);
}

static void other_sizes_go_on(void **state)
{
    char *dir = test_dir_new();
    (void)state;
    check_sizes(dir, K_F32, 4);
    check_sizes(dir, K_F32, 0);
    check_sizes(dir, K_BF16, 0);
    test_dir_free(dir);
}

/* Faults: ranks that wait for one that is gone, words that are not its own. */
static void a_rank_fails(void **state)
{
    struct golden g;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct golden_rows *rows = golden_rows_new(&g);
    for (int rank = 1; rank < 4; rank++) {
        struct story s = {.opt = some, .rows = rows, .falls = rank};
        struct err e = ERR_INIT;
        assert_int_equal(run(&s, &g, (const int[]){2, 2}, &e), -1);
        assert_non_null(strstr(e.msg, " fell"));
        story_release(&s);
    }
    free(rows);
    golden_release(&g);
}

/* ---- what is trained is what is served ------------------------------------------------------ */

struct pair {
    struct train_row row;
    float trained[GOLDEN_ROW_MAX], served[GOLDEN_ROW_MAX]; /* at the first rank */
};

/* The log-probability of each label, from the logits as the sampler folds them. */
static void fold(const struct op_view *logits, const struct train_row *row, struct device *d,
                 float *logprob)
{
    for (int64_t i = 0; i < row->n; i++) {
        struct k_ce_state state;
        int64_t n = logits->shape.cols;
        for (int64_t lo = 0; lo < n; lo += K_CE_CHUNK) {
            struct k_ce a = {.logits = logits->p + i * logits->ld + lo,
                             .ld = logits->ld,
                             .m = 1,
                             .lo = lo,
                             .n = n - lo < K_CE_CHUNK ? n - lo : K_CE_CHUNK,
                             .target = &row->label[i],
                             .state = &state};
            kernel_run(device_kernels(d), K_ce_fwd, &a, NULL);
        }
        logprob[i] = row->label[i] < 0 ? 0 : state.target_logit - k_ce_lse(&state);
    }
}

static int serve(struct pair *p, struct team_rank *r, struct err *e)
{
    struct runner_options o = {
        .cap = {[DIM_TOK] = GOLDEN_ROW_MAX, [DIM_OUT] = GOLDEN_ROW_MAX, [DIM_SEQ] = 1},
        .n_cell = GOLDEN_ROW_MAX / K_CELL + 1,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct op_view logits;
    if (!train_is_lead(&r->ranks))
        return follow(r->model, r->stream, NULL, e);
    struct runner *runner = runner_new(r->model, &o, r->stream, e);
    int rc = runner ? runner_feed(runner, p->row.id, p->row.n, 0, p->row.n, &logits, e) : -1;
    if (!rc)
        fold(&logits, &p->row, r->device, p->served);
    runner_free(runner);
    lead_dismiss(r->model);
    return rc;
}

static int train_and_serve(void *ctx, struct team_rank *r, struct err *e)
{
    struct pair *p = ctx;
    struct train_options o = some;
    struct train_row row = p->row;
    struct train_result unused;
    o.ranks = r->ranks;
    row.logprob = train_is_lead(&r->ranks) ? p->trained : NULL;
    struct trainer *t = trainer_new(r->model, &o, r->stream, e);
    int rc = t ? trainer_step(t, &row, 1, &unused, e) : -1;
    trainer_free(t);
    return rc ? -1 : serve(p, r, e);
}

/* Law 1 at every size: before its first update an adapter says nothing, so a trained token's
 * log-probability is that of serving over as many ranks. Faults: a head that is shared in another
 * way, or folded in another order. */
static void trained_is_served(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMATS_PACKED; i++)
        for (int size = 2; size <= 4; size += 2) {
            struct golden g;
            struct pair p = {0};
            struct err e = ERR_INIT;
            golden_init_short(&g, names[(i + 1) % N_NAME], formats_packed[i]);
            struct golden_rows *rows = golden_rows_new(&g);
            struct team_options team = {
                .dir = &g.dir,
                .model = {.type = (int)formats_packed[i], .kv_type = -1, .ctx = g.model->ctx},
                .device = "cpu",
                .n_tensor = size,
                .n_data = 1,
                .n_thread = 1,
                .work = train_and_serve,
                .ctx = &p};
            p.row = rows->row[0];
            assert_good(team_run(&team, &e), &e);
            assert_true(p.row.n > 1 && p.served[p.row.n - 2] < 0);
            assert_memory_equal(p.trained, p.served, (size_t)p.row.n * sizeof *p.served);
            free(rows);
            golden_release(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teachers),
        cmocka_unit_test(adapters),
        cmocka_unit_test(adapters_of_experts),
        cmocka_unit_test(preferences),
        cmocka_unit_test(whole_models),
        cmocka_unit_test(a_rank_fails),
        cmocka_unit_test(other_sizes_go_on),
        cmocka_unit_test(trained_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
