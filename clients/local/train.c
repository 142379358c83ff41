/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem train CONFIG`: what a fine-tuning job does, without a server. Every option may stand in
 * the file. Into the output folder go checkpoints/, from which the same command goes on where it
 * was stopped, steps.csv, and at the end adapter/, a PEFT directory, or model/, a whole one.
 *
 * `init = random` is pre-training: the model's directory needs no weights, every parameter is
 * trained, and begins as OUT/first has it, which is written anew each time from the same seed.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/json.h"
#include "clients/local/load.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/model/first.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/full_dir.h"
#include "engine/train/plan.h"
#include "server/train_file.h"

enum { TARGETS_MAX = TRAIN_TARGET_MAX, BAR = 24 };

struct train_values {
    struct local_options model;
    const char *dir, *init, *data, *valid, *out;
    int64_t rank, warmup, epochs, batch, length, micro, seed, checkpoint_steps, keep, memory;
    double alpha, dropout, lr, decay, clip;
    struct opt_list target;
    const char *schedule, *longer, *recompute;
    bool rslora;
};

#define ROW(section_, name_, type_, fallback_, min_, max_, hint_, help_, field_)                   \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_),                            \
        .offset = offsetof(struct train_values, field_)                                            \
    }

static const struct opt_row rows[] = {
    LOCAL_MODEL_ROWS,
    ROW("Files", "model", OPT_TEXT, NULL, 0, 0, "DIR", "the model's directory", dir),
    ROW(NULL, "init", OPT_CHOICE, "weights", 0, 0, "weights|random",
        "begin with the model's weights, or train every parameter of its shape from nothing", init),
    ROW(NULL, "data", OPT_TEXT, NULL, 0, 0, "FILE", "rows to learn, a line of JSON each", data),
    ROW(NULL, "valid", OPT_TEXT, NULL, 0, 0, "FILE", "rows to measure on", valid),
    ROW(NULL, "out", OPT_TEXT, NULL, 0, 0, "DIR", "where checkpoints and the result go", out),
    {.name = "config",
     .type = OPT_CONFIG_ARG,
     .hint = "FILE",
     .help = "a file with these options, one a line",
     .offset = offsetof(struct train_values, model.config)},
    ROW("Adapter", "rank", OPT_INT, "16", 0, TRAIN_RANK_MAX, "R",
        "rank of the adapter; 0: none, every parameter is trained", rank),
    ROW(NULL, "alpha", OPT_DOUBLE, "32", 1e-6, 1e6, "A", "its scale is alpha / rank", alpha),
    ROW(NULL, "rslora", OPT_BOOL, NULL, 0, 0, NULL, "its scale is alpha / sqrt(rank)", rslora),
    ROW(NULL, "lora-dropout", OPT_DOUBLE, "0", 0, 0.95, "P", "share of its inputs left out",
        dropout),
    ROW(NULL, "target", OPT_LIST, NULL, 0, 0, "NAME",
        "a product to adapt, as q_proj; none: all of them", target),
    ROW("Training", "epochs", OPT_INT, "3", 1, 10000, "N", "times that every row is seen", epochs),
    ROW(NULL, "batch", OPT_INT, "8", 1, 65536, "N", "rows of a step", batch),
    ROW(NULL, "lr", OPT_DOUBLE, "2e-4", 1e-12, 10, "X", "learning rate", lr),
    ROW(NULL, "schedule", OPT_CHOICE, "linear", 0, 0, "constant|linear|cosine",
        "how the learning rate falls", schedule),
    ROW(NULL, "warmup", OPT_INT, "0", 0, 1 << 30, "N", "steps in which it first rises", warmup),
    ROW(NULL, "weight-decay", OPT_DOUBLE, "0", 0, 10, "X", "of matrices", decay),
    ROW(NULL, "clip", OPT_DOUBLE, "1", 0, 1e9, "X", "largest norm of the gradient; 0: any", clip),
    ROW(NULL, "seed", OPT_INT, "0", 0, 2147483647, "S", "the same seed trains the same adapter",
        seed),
    ROW("Rows", "length", OPT_INT, "0", 0, 1 << 24, "N",
        "most tokens of a row; 0: the model's context", length),
    ROW(NULL, "longer", OPT_CHOICE, "cut", 0, 0, "cut|refuse", "longer rows are cut, or left out",
        longer),
    ROW(NULL, "micro-batch", OPT_INT, "2048", 1, 1 << 24, "N",
        "tokens computed at once, at least the longest row's", micro),
    ROW(NULL, "recompute", OPT_CHOICE, "auto", 0, 0, "auto|on|off",
        "less memory for a second forward, to the same bits; auto: where memory is short",
        recompute),
    ROW(NULL, "train-memory", OPT_SIZE, "0", 0, 1e15, "SIZE",
        "memory that the training may take; 0: what is free", memory),
    ROW("Checkpoints", "checkpoint-steps", OPT_INT, "0", 0, 1 << 30, "N",
        "steps between them, besides at the end of each epoch", checkpoint_steps),
    ROW(NULL, "keep", OPT_INT, "3", 1, 1000, "N", "checkpoints that are kept", keep),
};

const struct cmd_opt cmd_opt_train = {
    rows,
    sizeof rows / sizeof *rows,
    sizeof(struct train_values),
};

/* Ctrl-C ends the training behind a checkpoint; a second one at once. */
static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    is_stopped = 1;
    signal(signal_number, SIG_DFL);
}

struct train {
    const struct train_values *v;
    struct resident on; /* the model */
    struct dataset data, valid;
    struct tuning *tuning;
    char *first; /* owned: the directory of random weights; NULL: none */
    FILE *csv;
    int64_t begin_us, first_step, n_tok;
    bool has_terminal;
};

static char *path_in(const struct train *t, const char *name)
{
    size_t n = strlen(t->v->out) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", t->v->out, name);
    return path;
}

static int find_text(struct train *t, struct err *e)
{
    if (!t->on.tokenizer)
        return err_set(e, ERR_BAD_INPUT, "%s: no tokenizer.json", t->v->dir);
    if (t->on.template_err.code)
        return err_set(e, ERR_BAD_INPUT, "%s", t->on.template_err.msg);
    return 0;
}

static int read_file(struct train *t, const char *path, struct dataset *d, struct err *e)
{
    const struct model *m = t->on.model;
    struct api_error why = {0};
    struct train_file f;
    int64_t most = t->v->length && t->v->length < m->ctx ? t->v->length : m->ctx;
    dataset_init(d, &(struct dataset_options){
                        .tokenizer = t->on.tokenizer,
                        .template = t->on.template,
                        .max_tok = most < t->v->micro ? most : t->v->micro,
                        .longer = strcmp(t->v->longer, "cut") == 0 ? DATASET_CUT : DATASET_REFUSE,
                        .now = clock_local_s(time(NULL)),
                        .end_id = t->on.dir.generation.eos,
                        .n_end_id = t->on.dir.generation.n_eos});
    if (train_file_read(path, d, &f, &why))
        return err_set(e, ERR_BAD_INPUT, "%s: %.400s", path, why.message);
    fprintf(stderr, "%s: %" PRId64 " rows, %zu tokens, %" PRId64 " to learn", path, f.n_example,
            d->id.n, d->n_learn);
    if (d->n_cut)
        fprintf(stderr, "; %" PRId64 " cut at %" PRId64 " tokens", d->n_cut, d->opt.max_tok);
    if (d->left_out.n)
        fprintf(stderr, "; %zu left out, more than %" PRId64 " tokens", d->left_out.n,
                d->opt.max_tok);
    if (d->n_barren)
        fprintf(stderr, "; %" PRId64 " with nothing to learn", d->n_barren);
    fputc('\n', stderr);
    return 0;
}

static void show(struct train *t, const struct tuning_event *v)
{
    double s = (double)(clock_us() - t->begin_us) / 1e6;
    int64_t done = v->step - t->first_step;
    double left = done > 0 ? s / (double)done * (double)(v->n_step - v->step) : 0;
    int full = (int)(BAR * v->step / v->n_step);
    t->n_tok += v->train.n_tok;
    if (t->has_terminal)
        fprintf(stderr,
                "\r\033[K[%.*s%.*s] step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  "
                "%02d:%02d left",
                full, "########################", BAR - full, "........................", v->step,
                v->n_step, v->train.loss, (double)t->n_tok / s, (int)(left / 60),
                (int)fmod(left, 60));
    else
        fprintf(stderr,
                "step %" PRId64 "/%" PRId64 "  loss %.4f  accuracy %.3f  norm %.3f  "
                "%.0f tokens/s\n",
                v->step, v->n_step, v->train.loss, v->train.accuracy, v->train.grad_norm,
                (double)t->n_tok / s);
}

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct train *t = ctx;
    (void)e;
    if (v->what == TUNING_STEP) {
        fprintf(t->csv, "%" PRId64 ",%.6f,%.6f,", v->step, v->train.loss, v->train.accuracy);
        if (v->has_valid)
            fprintf(t->csv, "%.6f,%.6f\n", v->valid.loss, v->valid.accuracy);
        else
            fputs(",\n", t->csv);
        show(t, v);
    } else if (v->what == TUNING_EPOCH && v->has_valid) {
        fprintf(stderr, "%sepoch %" PRId64 ": validation loss %.4f, accuracy %.3f\n",
                t->has_terminal ? "\r\033[K" : "", v->epoch, v->valid.loss, v->valid.accuracy);
    }
    return fflush(t->csv) ? err_sys(e, "steps.csv") : 0;
}

static bool is_wanted_end(void *ctx)
{
    (void)ctx;
    return is_stopped;
}

static enum train_schedule schedule_of(const char *name)
{
    return strcmp(name, "linear") == 0   ? TRAIN_LINEAR
           : strcmp(name, "cosine") == 0 ? TRAIN_COSINE
                                         : TRAIN_CONSTANT;
}

/* An adapter to random weights would have nothing to adapt. */
static int64_t rank_of(const struct train_values *v)
{
    return strcmp(v->init, "random") == 0 ? 0 : v->rank;
}

static int fill(const struct train *t, struct tuning_options *o, struct err *e)
{
    const struct train_values *v = t->v;
    train_options_default(&o->train);
    o->train.lora = (struct train_lora){
        .rank = rank_of(v), .alpha = v->alpha, .dropout = v->dropout, .is_rs = v->rslora};
    if (v->target.n > TARGETS_MAX)
        return err_set(e, ERR_BAD_INPUT, "--target: at most %d", TARGETS_MAX);
    for (size_t i = 0; i < v->target.n; i++)
        o->train.lora.target[o->train.lora.n_target++] = v->target.at[i];
    o->train.lr = v->lr;
    o->train.schedule = schedule_of(v->schedule);
    o->train.warmup = v->warmup;
    o->train.decay = v->decay;
    o->train.max_norm = v->clip;
    o->train.seed = (uint64_t)v->seed;
    o->train.cap_tok = v->micro;
    o->n_epoch = v->epochs;
    o->batch = v->batch;
    o->data = &t->data;
    o->valid = v->valid ? &t->valid : NULL;
    o->checkpoint_steps = v->checkpoint_steps;
    o->keep = (int)v->keep;
    o->event = hear;
    o->is_wanted_end = is_wanted_end;
    return 0;
}

/* What it takes is said before it takes it. */
static int plan(const struct train *t, struct tuning_options *o, struct err *e)
{
    const char *how = t->v->recompute;
    char text[TRAIN_PLAN_TEXT_BYTES];
    struct train_plan p;
    size_t total, left;
    device_memory(t->on.device, &total, &left);
    if (train_plan(t->on.model, t->on.device, o,
                   strcmp(how, "on") == 0    ? RECOMPUTE_ON
                   : strcmp(how, "off") == 0 ? RECOMPUTE_OFF
                                             : RECOMPUTE_AUTO,
                   false, t->v->memory ? (size_t)t->v->memory : left, &p, e))
        return -1;
    o->train.checkpoints_blocks = p.recomputes;
    fprintf(stderr, "%s\n", train_plan_text(&p, text));
    return 0;
}

/* The whole training; *is_done: to its end. */
static int run(struct train *t, bool *is_done, struct err *e)
{
    char *checkpoints = path_in(t, "checkpoints"), *csv = path_in(t, "steps.csv");
    struct tuning_options o = {.checkpoints = checkpoints, .ctx = t};
    int rc = -1;
    if (fill(t, &o, e) || plan(t, &o, e) || fs_mkdirs(checkpoints, e))
        goto done;
    t->tuning = tuning_new(t->on.model, &o, t->on.stream, e);
    if (!t->tuning)
        goto done;
    t->first_step = trainer_n_step(tuning_trainer(t->tuning));
    t->csv = fopen(csv, t->first_step ? "a" : "w");
    if (!t->csv) {
        err_sys(e, "%s", csv);
        goto done;
    }
    if (t->first_step)
        fprintf(stderr, "going on behind step %" PRId64 "\n", t->first_step);
    else
        fputs("step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n", t->csv);
    t->begin_us = clock_us();
    rc = tuning_run(t->tuning, is_done, e);
    if (t->has_terminal)
        fputc('\n', stderr);
done:
    free(checkpoints);
    free(csv);
    return rc;
}

static int put_result(struct train *t, struct err *e)
{
    bool is_full = rank_of(t->v) == 0;
    char *path = path_in(t, is_full ? "model" : "adapter");
    struct train_subject *s = trainer_subject(tuning_trainer(t->tuning));
    int rc = fs_remove_tree(path, e);
    if (!rc)
        rc = is_full ? full_dir_write(path, s, &t->on.dir, e)
                     : adapter_dir_write(path, s, t->v->dir, e);
    if (!rc)
        fprintf(stderr, "the %s is in %s\n", is_full ? "model" : "adapter", path);
    if (!rc && t->first)
        rc = fs_remove_tree(t->first, e);
    free(path);
    return rc;
}

static int check_given(const struct train_values *v, struct err *e)
{
    const char *lack = !v->dir ? "model" : !v->data ? "data" : !v->out ? "out" : NULL;
    return lack ? err_set(e, ERR_BAD_INPUT, "--%s is needed", lack) : 0;
}

/* Where the training begins: the model's directory, or one of its shape. */
static int load(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    enum k_type type = resident_type(v->model.quantize) == K_F32 ? K_F32 : K_BF16;
    if (strcmp(v->init, "random") == 0) {
        t->first = path_in(t, "first");
        if (fs_mkdirs(v->out, e) || fs_remove_tree(t->first, e) ||
            model_first_write(v->dir, type, (uint64_t)v->seed, t->first, e))
            return -1;
    }
    return local_load(&t->on, t->first ? t->first : v->dir, &v->model, true, e);
}

static int train(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    bool is_done = false;
    if (check_given(v, e) || load(t, e) || find_text(t, e) || read_file(t, v->data, &t->data, e) ||
        (v->valid && read_file(t, v->valid, &t->valid, e)))
        return -1;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (run(t, &is_done, e))
        return -1;
    if (is_done)
        return put_result(t, e);
    fprintf(stderr, "stopped behind step %" PRId64 "; the same command goes on from there\n",
            trainer_n_step(tuning_trainer(t->tuning)));
    return 0;
}

int cmd_train(const struct opt *o)
{
    struct train t = {.v = o->values, .has_terminal = isatty(STDERR_FILENO)};
    struct err e = ERR_INIT;
    api_json_init();
    int rc = train(&t, &e);
    if (t.csv && fclose(t.csv) && !rc)
        rc = err_sys(&e, "steps.csv");
    tuning_free(t.tuning);
    dataset_release(&t.data);
    dataset_release(&t.valid);
    resident_release(&t.on);
    free(t.first);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
