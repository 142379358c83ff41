/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole trainings of a tiny model with a tokenizer and a chat template: rows and their masks, the
 * loop, checkpoints, and going on from them to the same bits.
 */
#include "tests/lib/test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/checkpoint.h"
#include "engine/train/full_dir.h"
#include "engine/train/order.h"
#include "engine/train/tuning.h"
#include "tests/lib/golden.h"

enum { STEP_MAX = 128, N_ROW = 12, SYNCED_MAX = 4096 };

/* The library's, which this takes the place of: what was asked to be on the disk is written down.
 */
static ino_t synced[SYNCED_MAX];
static int n_synced;

int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && n_synced < SYNCED_MAX)
        synced[n_synced++] = st.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

static bool was_synced(const char *path)
{
    struct stat st;
    bool was = false;
    assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < n_synced; i++)
        was |= synced[i] == st.st_ino;
    return was;
}

static const char model_dir[] = "tests/golden/models/llama_tied";

struct world {
    struct golden g;
    struct tokenizer *tok;
    struct template *template;
    struct arena arena;
    char *dir;
};

static void world_init(struct world *w)
{
    struct err e = ERR_INIT;
    golden_init(&w->g, "llama_tied", K_BF16, 0);
    w->tok = tokenizer_load(model_dir, &e);
    assert_good(w->tok ? 0 : -1, &e);
    const char *text = tokenizer_config_template(&w->g.dir.tokenizer, NULL);
    assert_good(template_compile(text, strlen(text), &w->template, &e), &e);
    arena_init(&w->arena, 16 << 20);
    w->dir = test_dir_new();
}

static void world_release(struct world *w)
{
    test_dir_free(w->dir);
    arena_release(&w->arena);
    template_unref(w->template);
    tokenizer_free(w->tok);
    golden_release(&w->g);
}

static void data_init(struct world *w, struct dataset *d, int64_t max_tok, enum dataset_long longer)
{
    dataset_init(d, &(struct dataset_options){.tokenizer = w->tok,
                                              .template = w->template,
                                              .max_tok = max_tok,
                                              .longer = longer,
                                              .end_id = w->g.dir.generation.eos,
                                              .n_end_id = w->g.dir.generation.n_eos});
}

/* {role, content} pairs, NULL at the end. */
static struct jvalue chat(struct world *w, const char *const *at)
{
    struct err e = ERR_INIT;
    struct jvalue list, dict, text;
    assert_good(jv_list(&w->arena, &list, &e), &e);
    for (; *at; at += 2) {
        assert_good(jv_dict(&w->arena, &dict, &e), &e);
        assert_good(jv_str(&w->arena, at[0], strlen(at[0]), &text, &e), &e);
        assert_good(jv_dict_put(&w->arena, &dict, "role", 4, text, &e), &e);
        assert_good(jv_str(&w->arena, at[1], strlen(at[1]), &text, &e), &e);
        assert_good(jv_dict_put(&w->arena, &dict, "content", 7, text, &e), &e);
        assert_good(jv_list_add(&w->arena, &list, dict, &e), &e);
    }
    return list;
}

/* The text of what is learned, and of what is not, in a row. */
static void split(struct world *w, const struct dataset *d, size_t i, bool learned, struct buf *out)
{
    struct err e = ERR_INIT;
    const struct dataset_row *r = &d->row.at[i];
    for (int64_t k = 0; k < r->n; k++)
        if (d->is_learned.at[r->at + (size_t)k] == learned)
            assert_good(tokenizer_decode(w->tok, &d->id.at[r->at + (size_t)k], 1, false, out, &e),
                        &e);
    buf_char(out, '|');
}

/* Faults: a mask that is off by one, that learns what the user said, that misses the token which
 * ends a turn, that ignores a weight. */
static void masks(void **state)
{
    static const char *const two[] = {"system",    "Be kind.", "user", "Hi?",
                                      "assistant", "Hello.",   "user", "More?",
                                      "assistant", "No.",      NULL};
    struct world w;
    struct dataset d;
    struct buf b;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    data_init(&w, &d, 1000, DATASET_CUT);
    buf_init(&b, 1 << 20);
    struct jvalue messages = chat(&w, two);
    const double weight[] = {1, 1, 0, 1, 1};
    assert_good(dataset_add_chat(&d, &messages, NULL, NULL, 0, &e), &e);
    assert_good(dataset_add_chat(&d, &messages, NULL, weight, 5, &e), &e);
    assert_good(dataset_add_text(&d, "the cat ", 8, "sat down", 8, &e), &e);
    split(&w, &d, 0, true, &b);
    split(&w, &d, 1, true, &b);
    split(&w, &d, 2, true, &b);
    assert_non_null(strstr(b.data, "Hello."));
    assert_string_equal(b.data, "Hello.<|end|>No.<|end|>|No.<|end|>|sat down<|end|>|");
    assert_int_equal(d.n_barren, 0);
    const double none[] = {1, 1, 0, 1, 0};
    assert_good(dataset_add_chat(&d, &messages, NULL, none, 5, &e), &e);
    assert_int_equal(d.n_barren, 1);
    buf_release(&b);
    dataset_release(&d);
    world_release(&w);
}

/* Faults: long rows that are dropped silently, or that grow past what was asked. */
static void long_rows(void **state)
{
    static const char *const one[] = {"user", "Say it.", "assistant",
                                      "one two three four five six seven eight nine ten", NULL};
    struct world w;
    struct dataset cut, refuse;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    struct jvalue messages = chat(&w, one);
    data_init(&w, &cut, 20, DATASET_CUT);
    data_init(&w, &refuse, 20, DATASET_REFUSE);
    assert_good(dataset_add_chat(&cut, &messages, NULL, NULL, 0, &e), &e);
    assert_int_equal(cut.row.at[0].n, 20);
    assert_int_equal(cut.n_cut, 1);
    assert_err(dataset_add_chat(&refuse, &messages, NULL, NULL, 0, &e), &e, ERR_TOO_LARGE,
               "a row may have 20");
    assert_int_equal(refuse.row.n, 0);
    assert_int_equal(refuse.id.n, 0);
    dataset_release(&cut);
    dataset_release(&refuse);
    world_release(&w);
}

static struct jvalue answered(struct world *w, const char *text)
{
    const char *const row[] = {"user",       "Say it.",   "assistant", "No.", "user",
                               "Do say it.", "assistant", text,        NULL};
    return chat(w, row);
}

/* Faults: a pair of which one row alone is there, or learned; answers that both begin with that are
 * learned; one that has no choice to learn. */
static void pairs(void **state)
{
    struct world w;
    struct dataset d;
    struct buf b;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    data_init(&w, &d, 100, DATASET_REFUSE);
    buf_init(&b, 1 << 20);
    d.opt.has_pairs = true;
    struct jvalue good = answered(&w, "It."), bad = answered(&w, "I will not."), longest;
    assert_good(dataset_add_pair(&d, &good, &bad, 3, NULL, &e), &e);
    split(&w, &d, 0, true, &b);
    split(&w, &d, 1, true, &b);
    assert_string_equal(b.data, "It.<|end|>|I will not.<|end|>|");
    const struct dataset then = d;
    longest = answered(&w, "one two three four five six seven eight nine ten eleven twelve "
                           "thirteen fourteen fifteen sixteen seventeen eighteen nineteen");
    assert_err(dataset_add_pair(&d, &good, &longest, 3, NULL, &e), &e, ERR_TOO_LARGE, "100");
    assert_int_equal(d.row.n, then.row.n);
    assert_int_equal(d.id.n, then.id.n);
    assert_int_equal(d.is_learned.n, then.is_learned.n);
    assert_true(d.n_learn == then.n_learn && d.longest == then.longest && d.digest == then.digest);
    assert_good(dataset_add_pair(&d, &good, &good, 3, NULL, &e), &e);
    assert_int_equal(d.n_barren, 2);
    assert_int_equal(dataset_n_usable(&d), 1);
    assert_int_equal(d.n_learn, then.n_learn);
    d.opt.longer = DATASET_CUT;
    d.opt.max_tok = d.row.at[0].n - 2; /* both outputs are cut, or nothing is left of them */
    assert_good(dataset_add_pair(&d, &good, &bad, 3, NULL, &e), &e);
    assert_int_equal(d.n_barren % 2, 0);
    buf_release(&b);
    dataset_release(&d);
    world_release(&w);
}

static void orders(void **state)
{
    int64_t a[50], b[50];
    bool seen[50] = {false};
    (void)state;
    train_order(7, 3, 50, a);
    train_order(7, 3, 50, b);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < 50; i++) {
        assert_false(seen[a[i]]);
        seen[a[i]] = true;
    }
    train_order(7, 4, 50, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* ---- whole trainings ----------------------------------------------------------------------- */

struct story {
    double loss[STEP_MAX], norm[STEP_MAX], valid[STEP_MAX]; /* valid: of the set, by epoch */
    int64_t n, n_checkpoint, n_epoch, end_at; /* end_at: steps after which it is ended; 0: never */
    int64_t n_trained;
    int64_t n_event, kill_at; /* the event at which the process ends itself; 0: none */
    bool saved[STEP_MAX + 1]; /* behind this step, between two epochs */
};

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct story *s = ctx;
    (void)e;
    if (++s->n_event == s->kill_at)
        kill(getpid(), SIGKILL);
    if (v->what == TUNING_STEP) {
        assert_true(v->step <= STEP_MAX && v->step >= 1);
        s->loss[v->step - 1] = v->train.loss;
        s->norm[v->step - 1] = v->train.grad_norm;
        s->n = v->step;
        s->n_trained = v->n_trained;
    }
    if (v->what == TUNING_SAVE)
        s->saved[v->step] = true;
    s->n_checkpoint += v->what == TUNING_CHECKPOINT;
    if (v->what == TUNING_EPOCH) {
        s->n_epoch++;
        s->valid[v->epoch - 1] = v->valid.loss;
    }
    return 0;
}

static bool is_enough(void *ctx)
{
    const struct story *s = ctx;
    return s->end_at > 0 && s->n >= s->end_at;
}

static void fill(struct world *w, struct dataset *d)
{
    struct err e = ERR_INIT;
    data_init(w, d, 60, DATASET_CUT);
    for (int i = 0; i < N_ROW; i++) {
        char question[64], answer[64];
        snprintf(question, sizeof question, "What is number %d?", i);
        snprintf(answer, sizeof answer, "It is %d and %d.", i * 7 % 10, i * 3 % 10);
        const char *const row[] = {"user", question, "assistant", answer, NULL};
        struct jvalue messages = chat(w, row);
        assert_good(dataset_add_chat(d, &messages, NULL, NULL, 0, &e), &e);
    }
}

/* The same questions, each with an answer that is preferred to another of any other length. */
static void fill_pairs(struct world *w, struct dataset *d)
{
    struct err e = ERR_INIT;
    data_init(w, d, 60, DATASET_CUT);
    d->opt.has_pairs = true;
    for (int i = 0; i < N_ROW; i++) {
        char question[64], answer[64];
        snprintf(question, sizeof question, "What is number %d?", i);
        snprintf(answer, sizeof answer, "It is %d and %d.", i * 7 % 10, i * 3 % 10);
        const char *const good[] = {"user", question, "assistant", answer, NULL};
        const char *const bad[] = {"user", question, "assistant",
                                   i % 3 ? "No." : "I do not say what it is.", NULL};
        struct jvalue preferred = chat(w, good), other = chat(w, bad);
        assert_good(dataset_add_pair(d, &preferred, &other, 1, NULL, &e), &e);
    }
}

static struct tuning_options options(struct story *s, const struct dataset *d, const char *dir)
{
    const struct train_preference dpo = {.loss = TRAIN_DPO, .beta = 0.1, .gamma = 0},
                                  none = {.loss = TRAIN_CROSS_ENTROPY, .beta = 0, .gamma = 0};
    return (struct tuning_options){
        .train = {.lora = {.rank = 4, .alpha = 8, .dropout = 0.1, .lr_ratio = 4},
                  .noise = d->opt.has_pairs ? 0 : 2,
                  .preference = d->opt.has_pairs ? dpo : none,
                  .lr = 5e-3,
                  .schedule = TRAIN_COSINE,
                  .warmup = 2,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .eps = 1e-8,
                  .max_norm = 1,
                  .seed = 3,
                  .cap_tok = 128},
        .n_epoch = 3,
        .batch = 5,
        .data = d,
        .valid = d,
        .valid_rows = 2,
        .valid_every = 2,
        .checkpoints = dir,
        .checkpoint_steps = 2,
        .keep = 3,
        .event = hear,
        .is_wanted_end = is_enough,
        .ctx = s};
}

static bool run(struct world *w, const struct tuning_options *o)
{
    struct err e = ERR_INIT;
    bool is_done = false;
    struct tuning *t = tuning_new(w->g.model, o, w->g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(tuning_run(t, &is_done, &e), &e);
    tuning_free(t);
    return is_done;
}

/* Faults: a cursor that skips or repeats a row, moments or draws that are not those of the step, a
 * pause that changes something, and be it the steps at which checkpoints are made. */
static void check_paused(void (*fill_rows)(struct world *w, struct dataset *d))
{
    struct world w;
    struct dataset d;
    struct story straight = {0}, paused = {0};
    world_init(&w);
    fill_rows(&w, &d);
    struct tuning_options o = options(&straight, &d, NULL);
    assert_true(run(&w, &o));
    assert_int_equal(straight.n, 9);
    assert_int_equal(straight.n_epoch, 3);
    assert_true(straight.loss[8] < straight.loss[0]);
    o = options(&paused, &d, w.dir);
    for (int64_t end = 1; end <= 9; end++) { /* a new process after every step */
        paused.end_at = end;
        bool is_done = run(&w, &o);
        assert_int_equal(is_done, end == 9);
    }
    assert_memory_equal(straight.loss, paused.loss, sizeof straight.loss);
    assert_memory_equal(straight.norm, paused.norm, sizeof straight.norm);
    assert_int_equal(straight.n_trained, paused.n_trained);
    assert_true(straight.saved[2] && straight.saved[4] && straight.saved[8]);
    assert_memory_equal(straight.saved, paused.saved, sizeof straight.saved);
    assert_memory_equal(straight.valid, paused.valid, sizeof straight.valid);
    struct story late = {0}; /* what it made was not used, as its process was killed */
    o = options(&late, &d, w.dir);
    assert_true(run(&w, &o));
    assert_true(late.n == 0 && late.n_epoch == 1 && late.valid[2] == straight.valid[2]);
    dataset_release(&d);
    world_release(&w);
}

static void paused_equals_straight(void **state)
{
    (void)state;
    check_paused(fill);
    check_paused(fill_pairs);
}

static int count_checkpoints(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *at;
    int n = 0;
    assert_non_null(d);
    while ((at = readdir(d)))
        n += strncmp(at->d_name, "step-", 5) == 0;
    closedir(d);
    return n;
}

/* Faults: a checkpoint more than are to be kept, or one less; a folder whose entries a power cut
 * takes. */
static void checkpoints_are_kept(void **state)
{
    struct world w;
    struct dataset d;
    (void)state;
    world_init(&w);
    fill(&w, &d);
    for (int keep = 1; keep <= 3; keep++) {
        struct story s = {0};
        struct tuning_options o = options(&s, &d, w.dir);
        char sub[512];
        snprintf(sub, sizeof sub, "%s/keep-%d", w.dir, keep);
        o.checkpoints = sub;
        o.checkpoint_steps = 1;
        o.keep = keep;
        n_synced = 0;
        assert_true(run(&w, &o));
        assert_int_equal(count_checkpoints(sub), keep);
        for (int64_t step = 9; step > 9 - keep; step--) {
            char *path = checkpoint_path(sub, step);
            assert_true(was_synced(path));
            free(path);
        }
        assert_true(was_synced(sub));
    }
    dataset_release(&d);
    world_release(&w);
}

/* Fault: gradients that are scaled where they are not too long. Moments hide a scale, but for eps.
 */
static void short_gradients_are_not_clipped(void **state)
{
    struct world w;
    struct dataset d;
    struct story with = {0}, without = {0};
    (void)state;
    world_init(&w);
    fill(&w, &d);
    struct tuning_options o = options(&without, &d, NULL);
    o.train.max_norm = 0;
    o.train.eps = 1e-2;
    assert_true(run(&w, &o));
    o.ctx = &with;
    o.train.max_norm = 1e6;
    assert_true(run(&w, &o));
    assert_int_equal(with.n, without.n);
    assert_memory_equal(with.loss, without.loss, sizeof with.loss);
    assert_memory_equal(with.norm, without.norm, sizeof with.norm);
    dataset_release(&d);
    world_release(&w);
}

/* Kinds of rows that a file may have. */
enum kind { USABLE, BARREN, LONG_ONE, KINDS };

/* 70 rows of each kind in `has`, by turns; long ones are cut or left out. */
static void fill_kinds(struct world *w, struct dataset *d, unsigned has, enum dataset_long longer)
{
    static const double none[] = {1, 0};
    char word[400];
    data_init(w, d, 60, longer);
    for (size_t i = 0; i + 1 < sizeof word; i++)
        word[i] = i % 2 ? ' ' : (char)('a' + i % 26);
    word[sizeof word - 1] = 0;
    for (int i = 0; i < 70 * KINDS; i++) {
        struct err e = ERR_INIT;
        enum kind kind = (enum kind)(i % KINDS);
        const char *const row[] = {"user", "What is it?", "assistant",
                                   kind == LONG_ONE ? word : "It is this.", NULL};
        struct jvalue messages = chat(w, row);
        if (!(has & 1u << kind))
            continue;
        if (dataset_add_chat(d, &messages, NULL, kind == BARREN ? none : NULL, 2, &e))
            assert_true(kind == LONG_ONE && longer == DATASET_REFUSE && e.code == ERR_TOO_LARGE);
    }
}

/* One training whose files have these kinds of rows. */
static void train_kinds(struct world *w, unsigned train, unsigned valid, enum dataset_long longer)
{
    struct dataset d, v;
    struct story s = {0};
    struct err e = ERR_INIT;
    unsigned learns = 1u << USABLE | (longer == DATASET_CUT ? 1u << LONG_ONE : 0);
    fill_kinds(w, &d, train, longer);
    fill_kinds(w, &v, valid, longer);
    struct tuning_options o = options(&s, &d, NULL);
    o.n_epoch = 1;
    o.batch = 40;
    o.valid = &v;
    o.valid_rows = 10;
    if ((train & learns) && (valid & learns)) {
        assert_true(run(w, &o));
        assert_int_equal(s.n, tuning_n_step(&o));
        assert_true(s.valid[0] > 0);
    } else {
        assert_null(tuning_new(w->g.model, &o, w->g.stream, &e));
        assert_non_null(strstr(e.msg, train & learns ? "no row of the validation set has a token"
                                                     : "no row has a token"));
    }
    dataset_release(&d);
    dataset_release(&v);
}

/* Faults: labels behind their array, where rows that have nothing to learn, or that were cut, come
 * in numbers; a loss of rows that have none. Each file meets each kind. */
static void every_kind_of_row(void **state)
{
    struct world w;
    (void)state;
    world_init(&w);
    for (unsigned has = (1u << KINDS) - 1; has > 0; has--)
        for (int longer = DATASET_CUT; longer <= DATASET_REFUSE; longer++) {
            train_kinds(&w, 1u << USABLE, has, (enum dataset_long)longer);
            train_kinds(&w, has, 1u << USABLE, (enum dataset_long)longer);
        }
    world_release(&w);
}

/* The training (c: moments are codes) in a process that is killed at an event or at some time. */
static void killed_run(struct world *w, const struct dataset *d, int64_t rank, bool c, int64_t i)
{
    int64_t at = 1 + (int64_t)rng_below(11, 0, (uint64_t)i, 25);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct golden g;
        struct err e = ERR_INIT;
        struct story s = {.kill_at = i % 2 ? 0 : at};
        bool is_done;
        golden_init(&g, "llama_tied", K_BF16, 0); /* threads do not come along */
        struct tuning_options o = options(&s, d, w->dir);
        o.train.lora.rank = rank;
        o.train.has_codes = c;
        o.checkpoint_steps = 1 + i % 3;
        struct tuning *t = tuning_new(g.model, &o, g.stream, &e);
        _exit(t && tuning_run(t, &is_done, &e) == 0 ? 0 : 1);
    }
    if (i % 2) {
        usleep((unsigned)rng_below(12, 0, (uint64_t)i, 50000));
        kill(child, SIGKILL);
    }
    waitpid(child, NULL, 0);
}

/* Goes on to the end: all that is trained, losses of the steps taken. Rank 0: the model itself. */
static void go_on_to_end(const struct dataset *d, int64_t rank, bool has_codes, const char *dir,
                         struct story *s, struct buf *values)
{
    struct golden g;
    struct err e = ERR_INIT;
    bool is_done = false;
    struct tuning_options o = options(s, d, dir);
    o.train.lora.rank = rank;
    o.train.has_codes = has_codes;
    golden_init(&g, "llama_tied", K_BF16, 0);
    struct tuning *t = tuning_new(g.model, &o, g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(tuning_run(t, &is_done, &e), &e);
    assert_true(is_done);
    const struct train_tensors *on = &trainer_subject(tuning_trainer(t))->tensors;
    buf_clear(values);
    buf_add(values, on->block, on->bytes);
    buf_add(values, g.model->block, g.model->block_bytes);
    tuning_free(t);
    golden_release(&g);
}

static void check_kills(struct world *w, const struct dataset *d, int64_t rank, bool c, int64_t n)
{
    struct story straight = {0};
    struct buf want, got;
    buf_init(&want, 64 << 20);
    buf_init(&got, 64 << 20);
    go_on_to_end(d, rank, c, NULL, &straight, &want);
    for (int64_t i = 0; i < n; i++) {
        struct story last = {0};
        struct err e = ERR_INIT;
        killed_run(w, d, rank, c, i);
        go_on_to_end(d, rank, c, w->dir, &last, &got);
        for (int64_t k = 0; k < STEP_MAX; k++)
            if (last.loss[k] != 0)
                assert_true(last.loss[k] == straight.loss[k]);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        assert_good(fs_remove_tree(w->dir, &e), &e);
    }
    assert_good(fs_mkdirs(w->dir, NULL), NULL);
    buf_release(&want);
    buf_release(&got);
}

/* Faults: a checkpoint that is there in part, or without a moment, or with another step's draws;
 * one that a kill damages; of a whole model, a value without the half that bf16 lacks. TEST_FAULTS=
 * full tries fifty points. */
static void killed_equals_straight(void **state)
{
    const char *how = getenv("TEST_FAULTS");
    bool is_full = how && strcmp(how, "full") == 0;
    struct world w;
    struct dataset d;
    (void)state;
    world_init(&w);
    fill(&w, &d);
    for (int k = 0; k < 4; k++) /* an adapter, all weights; then with moments of 8 bits */
        check_kills(&w, &d, k % 2 ? 0 : 4, k > 1, is_full ? 50 : 6 - k);
    dataset_release(&d);
    fill_pairs(&w, &d);
    check_kills(&w, &d, 4, false, is_full ? 50 : 6);
    dataset_release(&d);
    world_release(&w);
}

static char *state_path(const struct world *w, int64_t step)
{
    char *dir = checkpoint_path(w->dir, step);
    size_t n = strlen(dir) + sizeof "/state.safetensors";
    char *path = xmalloc(n);
    snprintf(path, n, "%s/state.safetensors", dir);
    free(dir);
    return path;
}

/* Faults: damage that is not seen; a good older checkpoint that is not found. */
static void damaged_is_passed_over(void **state)
{
    struct world w;
    struct dataset d;
    struct story s = {0}, again = {0};
    struct stat st;
    (void)state;
    world_init(&w);
    fill(&w, &d);
    struct tuning_options o = options(&s, &d, w.dir);
    s.end_at = 4;
    assert_false(run(&w, &o));
    char *path = state_path(&w, 4);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    o = options(&again, &d, w.dir);
    assert_true(run(&w, &o));
    assert_true(again.loss[2] == 0 || again.loss[2] == s.loss[2]); /* from step 2 or 3 */
    assert_true(again.loss[3] == s.loss[3]);
    free(path);
    /* of another training: refused, not trained over */
    struct err e = ERR_INIT;
    o.train.lr = 1e-3;
    assert_null(tuning_new(w.g.model, &o, w.g.stream, &e));
    assert_non_null(strstr(e.msg, "other options"));
    dataset_release(&d);
    world_release(&w);
}

/* Faults: a training that goes on over other weights, or over the same ones in another type; one of
 * the program before, whose checkpoints do not say over what they were made, that is lost. */
static void goes_on_over_its_base(void **state)
{
    struct world w;
    struct dataset d;
    struct story s = {.end_at = 4}, again = {0};
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w);
    fill(&w, &d);
    struct tuning_options o = options(&s, &d, w.dir);
    assert_false(run(&w, &o));
    o = options(&again, &d, w.dir);
    struct base_id id = w.g.model->base;
    snprintf(w.g.model->base.types, sizeof id.types, "int8");
    assert_null(tuning_new(w.g.model, &o, w.g.stream, &e));
    assert_non_null(strstr(e.msg, "another base"));
    w.g.model->base = id;
    w.g.model->base.files[0] = id.files[0] == '0' ? '1' : '0';
    assert_null(tuning_new(w.g.model, &o, w.g.stream, &e));
    assert_non_null(strstr(e.msg, id.files));
    w.g.model->base.files[0] = 0; /* not known */
    struct tuning *t = tuning_new(w.g.model, &o, w.g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    assert_int_equal(trainer_n_step(tuning_trainer(t)), 4);
    tuning_free(t);
    w.g.model->base = id;
    assert_true(run(&w, &o));
    dataset_release(&d);
    world_release(&w);
}

/* Faults: an adapter's file that is not what was trained. */
static void adapters_are_written(void **state)
{
    struct world w;
    struct dataset d;
    struct story s = {0};
    struct err e = ERR_INIT;
    bool is_done;
    char path[512];
    (void)state;
    world_init(&w);
    fill(&w, &d);
    struct tuning_options o = options(&s, &d, NULL);
    struct tuning *t = tuning_new(w.g.model, &o, w.g.stream, &e);
    assert_good(tuning_run(t, &is_done, &e), &e);
    struct train_subject *subject = trainer_subject(tuning_trainer(t));
    snprintf(path, sizeof path, "%s/tuned", w.dir);
    assert_good(adapter_dir_write(path, subject, "base \"one\"", &e), &e);
    snprintf(path, sizeof path, "%s/tuned/adapter_model.safetensors", w.dir);
    struct weights *file = weights_open_file(path, &e);
    assert_good(file ? 0 : -1, &e);
    assert_int_equal(weights_count(file), subject->tensors.list.n);
    for (size_t i = 0; i < subject->tensors.list.n; i++) {
        const struct train_tensor *x = &subject->tensors.list.at[i];
        char name[256];
        snprintf(name, sizeof name, "base_model.model.model.%s", x->name);
        const struct weight *wt = weights_get(file, name);
        float got[4096];
        assert_non_null(wt);
        assert_true(x->rows * x->cols <= 4096);
        assert_good(weight_read_f32(wt, 0, weight_rows(wt), got, &e), &e);
        assert_memory_equal(got, x->p, (size_t)(x->rows * x->cols) * sizeof *got);
    }
    weights_close(file);
    tuning_free(t);
    dataset_release(&d);
    world_release(&w);
}

/* Faults: a parameter that is left as it was, a matrix that is written turned or not turned, a tied
 * head of its own. A step's values in the files, loaded again, are the memory that was trained. */
static void whole_models_are_written(void **state)
{
    static const char *const names[] = {"llama_tied", "gpt2", "qwen2"};
    static const enum k_type types[] = {K_F32, K_BF16};
    static const int32_t id[] = {1, 2, 3, 4, 5, 6}, label[] = {2, 3, 4, 5, 6, -1};
    const struct train_row row = {.id = id, .label = label, .n = 6};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        struct golden g;
        struct model_dir dir;
        struct train_options o;
        struct train_result r;
        struct err e = ERR_INIT;
        char *root = test_dir_new(), path[512];
        golden_init(&g, names[i / 2], types[i % 2], 0);
        train_options_default(&o);
        o.lora.rank = 0;
        o.lr = 1e-2;
        o.n_step = 2;
        o.cap_tok = 64;
        struct trainer *t = trainer_new(g.model, &o, g.stream, &e);
        assert_good(t ? 0 : -1, &e);
        assert_good(trainer_step(t, &row, 1, &r, &e), &e);
        snprintf(path, sizeof path, "%s/model", root);
        assert_good(full_dir_write(path, trainer_subject(t), &g.dir, &e), &e);
        assert_good(model_dir_init(&dir, path, &e), &e);
        struct model_options mo = {.type = (int)types[i % 2], .kv_type = -1, .ctx = g.model->ctx};
        struct model *m = model_load(&dir, &mo, g.device, &e);
        struct model *before = model_load(&g.dir, &mo, g.device, &e);
        assert_true(m && before && m->block_bytes == g.model->block_bytes);
        assert_memory_equal(m->block, g.model->block, m->block_bytes);
        assert_memory_not_equal(m->block, before->block, m->block_bytes);
        model_free(m);
        model_free(before);
        model_dir_release(&dir);
        trainer_free(t);
        golden_release(&g);
        test_dir_free(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(pairs),
        cmocka_unit_test(orders),
        cmocka_unit_test(paused_equals_straight),
        cmocka_unit_test(checkpoints_are_kept),
        cmocka_unit_test(short_gradients_are_not_clipped),
        cmocka_unit_test(every_kind_of_row),
        cmocka_unit_test(killed_equals_straight),
        cmocka_unit_test(damaged_is_passed_over),
        cmocka_unit_test(goes_on_over_its_base),
        cmocka_unit_test(adapters_are_written),
        cmocka_unit_test(whole_models_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
