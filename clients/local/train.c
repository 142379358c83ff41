/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem train CONFIG`: what a fine-tuning job does, without a server. Every option may stand in
 * the file. Into the output folder go checkpoints/, from which the same command goes on where it
 * was stopped, steps.csv, and at the end adapter/, a PEFT directory, or model/, a whole one.
 *
 * `init = random` is pre-training: the model's directory needs no weights, every parameter is
 * trained, and begins as OUT/first has it, which is written anew each time from the same seed.
 *
 * With --tp and --dp, or under mpirun, it is trained by several ranks: threads of this process,
 * each with a part of the model of its own, or this process among others that all read the same
 * files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/json.h"
#include "api/train_row.h"
#include "clients/local/train_rank.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/model/first.h"
#include "engine/run/crew.h"
#include "engine/train/train_file.h"

#define ROW(section_, name_, type_, fallback_, min_, max_, hint_, help_, field_)                   \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_),                            \
        .offset = offsetof(struct train_values, field_)                                            \
    }

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    ROW("Files", "model", OPT_TEXT, NULL, 0, 0, "DIR", "the model's directory", dir),
    ROW(NULL, "from", OPT_TEXT, NULL, 0, 0, "DIR",
        "an adapter to go on from, a PEFT directory: its rank, alpha and targets are the training's",
        from),
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
    ROW("Training", "method", OPT_CHOICE, "supervised", 0, 0,
        "supervised|dpo|x_embedding|x_classification",
        "learn rows, of pairs of outputs to prefer one, or texts' vectors, or labels", method),
    ROW(NULL, "lr", OPT_DOUBLE, "2e-4", 1e-12, 10, "X", "learning rate", lr),
#define TRAIN_TRAIN(kind, flag, field, hint, help, fallback, min, max)                             \
    ROW(NULL, flag, HYPER_OPT_##kind, fallback, min, max, hint, help, field),
#define HYPER(name, member, kind, min, max, words, about, of, whose, ...)                          \
    TRAIN_##whose(kind, __VA_ARGS__)
#include "api/hyper.def"
#undef HYPER
    ROW(NULL, "seed", OPT_INT, "0", 0, 2147483647, "S", "the same seed trains the same adapter",
        seed),
    ROW(NULL, "keep", OPT_INT, "3", 1, 1000, "N", "checkpoints that are kept", keep),
    ROW("Memory", "micro-batch", OPT_INT, "2048", 1, 1 << 24, "N",
        "tokens computed at once, at least the longest row's", micro),
    ROW(NULL, "train-memory", OPT_SIZE, "0", 0, 1e15, "SIZE",
        "memory that the training may take; 0: what is free", memory),
    ROW("Ranks", "tp", OPT_INT, "1", 1, COMM_RANK_MAX, "N", "ranks that share the model", model.tp),
    ROW(NULL, "dp", OPT_INT, "0", 0, COMM_RANK_MAX, "N",
        "groups of such ranks, with rows of their own; 0: one, or as many as processes make up",
        dp),
    ROW(NULL, "parallel", OPT_CHOICE, "given", 0, 0, "given|auto",
        "auto: --tp and --dp are chosen from the model, the training, the devices that are here and "
        "their memory; a line says why",
        parallel),
};

const struct cmd_opt cmd_opt_train = {
    rows,
    sizeof rows / sizeof *rows,
    sizeof(struct train_values),
};

static int find_text(struct train *t, struct err *e)
{
    if (!t->on.tokenizer)
        return err_set(e, ERR_BAD_INPUT, "%s: no tokenizer.json", t->v->dir);
    if (t->on.template_err.code)
        return err_set(e, ERR_BAD_INPUT, "%s", t->on.template_err.msg);
    return 0;
}

static bool speaks(const struct train *t)
{
    return !t->group || comm_rank(t->group) == 0;
}

static void say_file(const char *path, const struct dataset *d, const struct train_file *f,
                     const char *unread)
{
    fprintf(stderr, "%s: %" PRId64 " rows, %zu tokens, %" PRId64 " to learn", path, f->n_example,
            d->id.n, d->n_learn);
    if (d->n_cut)
        fprintf(stderr, "; %" PRId64 " cut at %" PRId64 " tokens", d->n_cut, d->opt.max_tok);
    if (d->left_out.n)
        fprintf(stderr, "; %zu left out, more than %" PRId64 " tokens", d->left_out.n,
                d->opt.max_tok);
    if (d->n_barren)
        fprintf(stderr, "; %" PRId64 " with nothing to learn", d->n_barren);
    if (*unread)
        fprintf(stderr, "; members that nothing reads: %s", unread);
    fputc('\n', stderr);
}

static int read_file(struct train *t, const char *path, struct dataset *d, struct err *e)
{
    int64_t ctx = t->v->model.load.ctx ? t->v->model.load.ctx : t->on.dir.config.max_pos;
    struct train_said said = {.unread = ""};
    const struct train_reader reader = {.fn = api_train_read, .ctx = &said};
    struct train_file f;
    int64_t most = t->v->length && t->v->length < ctx ? t->v->length : ctx;
    int64_t served = t->on.dir.config.max_text;
    if (train_texts(t).loss && served > 0 && served < most)
        most = served;                                            /* where serving cuts them */
    int64_t micro = t->v->micro / (train_of_pairs(t->v) ? 2 : 1); /* which holds a pair */
    dataset_init(d, &(struct dataset_options){
                        .tokenizer = t->on.tokenizer,
                        .template = t->on.template,
                        .max_tok = most < micro ? most : micro,
                        .has_pairs = train_of_pairs(t->v),
                        .has_verdicts = train_of_preferences(t->v) && !train_of_pairs(t->v),
                        .texts = train_texts(t),
                        .longer = strcmp(t->v->longer, "cut") == 0 ? DATASET_CUT : DATASET_REFUSE,
                        .now = clock_local_s(t->now),
                        .end_id = t->on.dir.generation.eos,
                        .n_end_id = t->on.dir.generation.n_eos});
    if (train_file_read(train_file_open(path, e), &reader, d, &f, e))
        return err_wrap(e, "%s", path);
    if (speaks(t))
        say_file(path, d, &f, said.unread);
    return d == &t->data && t->v->distill > 0 && d->n_taught == 0
               ? err_set(e, ERR_BAD_INPUT,
                         "--distill-weight: no row of %s has 'logprobs' of a teacher", path)
               : 0;
}

static int check_given(const struct train_values *v, struct err *e)
{
    const char *lack = !v->dir ? "model" : !v->data ? "data" : !v->out ? "out" : NULL;
    if (lack)
        return err_set(e, ERR_BAD_INPUT, "--%s is needed", lack);
    if (train_of_preferences(v) && (v->rank == 0 || strcmp(v->init, "random") == 0))
        return err_set(e, ERR_BAD_INPUT,
                       "--method dpo trains an adapter, and the model without it is what it is "
                       "compared with: --rank must be above 0, and --init weights");
    if ((strcmp(v->result, "best") == 0 || v->early_stopping) && !v->valid)
        return err_set(e, ERR_BAD_INPUT,
                       "--result best and --early-stopping need --valid: rows to "
                       "measure on");
    if (v->warmup && v->warmup_ratio > 0)
        return err_set(e, ERR_BAD_INPUT, "--warmup and --warmup-ratio: give one of them");
    if (train_of_preferences(v) && !train_of_pairs(v) && v->batch < 2)
        return err_set(e, ERR_BAD_INPUT,
                       "--loss x_kto holds a row against others of its step: --batch must be at "
                       "least 2");
    if (train_of_pairs(v) && v->micro < 2)
        return err_set(e, ERR_BAD_INPUT, "--micro-batch must hold a pair: at least 2");
    return 0;
}

static bool has_other_targets(const struct train *t)
{
    const struct opt_list *given = &t->v->target;
    struct train_lora l = {.rank = 0};
    for (size_t i = 0; i < given->n && l.n_target < TRAIN_TARGET_MAX; i++)
        l.target[l.n_target++] = given->at[i];
    return !train_lora_same_targets(&l, &t->lora);
}

/* Names that are none are told of where the training is filled in. */
static unsigned saves_of(const struct train_values *v)
{
    struct train_lora l = {.rank = 0};
    struct err unknown = ERR_INIT;
    return train_saves(v, &l, &unknown) ? 0 : l.saves;
}

/* What is said otherwise of an adapter than it is. */
static int check_ancestor(const struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    const struct {
        const char *flag;
        bool differs;
    } said[] = {{"init", strcmp(v->init, "random") == 0},
                {"rank", v->rank != t->lora.rank},
                {"alpha", v->alpha != t->lora.alpha},
                {"rslora", v->rslora != t->lora.is_rs},
                {"dora", v->dora != t->lora.is_dora},
                {"target", has_other_targets(t)},
                {"save-module", saves_of(t->v) != t->lora.saves}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i].differs && opt_is_given(t->opt, said[i].flag))
            return err_set(e, ERR_BAD_INPUT,
                           "--%s is another than that of the adapter which --from names: leave it "
                           "out",
                           said[i].flag);
    return 0;
}

static int read_ancestor(struct train *t, struct err *e)
{
    const char *dir = t->v->from;
    if (!dir)
        return 0;
    return train_ancestor_read(dir, &t->ancestor, &t->lora, &t->arena, e) ? err_wrap(e, "%s", dir)
                                                                          : check_ancestor(t, e);
}

static bool chooses(const struct train *t)
{
    return strcmp(t->v->parallel, "auto") == 0;
}

/* How many there will be, where nobody says: which of them share the model is chosen once it is
 * known what is trained. */
static int count_ranks(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    int n = t->group ? comm_size(t->group) : 0, n_here = n;
    if (v->model.tp > 1 || v->dp)
        return err_set(e, ERR_BAD_INPUT,
                       "--parallel auto chooses what --tp and --dp say: give one of them");
    t->place.n_device = n;
    if ((t->group && crew_count_here(t->group, &n_here, e)) ||
        (speaks(t) && parallel_look(&t->place, v->model.load.device, n, n_here, e)))
        return -1;
    t->n_tensor = 1;
    t->n_data = t->place.n_device;
    return 0;
}

/* How many ranks there are, and what of this machine each has; all processes agree on the time. */
static int find_ranks(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    int n = t->group ? comm_size(t->group) : 1, tp = (int)v->model.tp;
    struct train_ranks all = {.all = t->group};
    t->n_tensor = tp;
    t->n_data = v->dp ? (int)v->dp : n > tp ? n / tp : 1;
    if (chooses(t) && count_ranks(t, e))
        return -1;
    if (t->group && t->n_tensor * t->n_data != n)
        return err_set(e, ERR_BAD_INPUT, "%d processes were started; --tp %d and --dp %d make %d",
                       n, tp, t->n_data, tp * t->n_data);
    t->n_here = t->n_tensor * t->n_data;
    if (t->n_here > COMM_RANK_MAX)
        return err_set(e, ERR_TOO_LARGE, "%d ranks: at most %d there may be", t->n_here,
                       COMM_RANK_MAX);
    if (t->group && crew_count_here(t->group, &t->n_here, e))
        return -1;
    return crew_threads(t->group, t->group ? 1 : t->n_here, v->model.load.threads, &t->n_thread,
                        e) ||
                   train_broadcast(&all, &t->now, sizeof t->now, e)
               ? -1
               : 0;
}

static bool has_ranks(const struct train *t)
{
    return t->n_tensor * t->n_data > 1;
}

/* Where all of the model is trained, its weights are in a format that can be. */
static struct local_options model_of(const struct train *t)
{
    struct local_options o = t->v->model;
    o.is_trained = t->v->rank == 0 || strcmp(t->v->init, "random") == 0;
    return o;
}

/* What --parallel auto takes, at the first rank, for all. */
static int choose_ranks(struct train *t, struct err *e)
{
    struct local_options o = model_of(t);
    struct model_options mo = local_model_options(&o);
    struct train_ranks all = {.all = t->group};
    struct tuning_options to = {.n_epoch = 0};
    struct parallel taken = {0};
    int rc = 0;
    if (!chooses(t))
        return 0;
    if (speaks(t))
        rc = train_fill(t, &all, &to, e) ||
                     parallel_train(&taken, &t->place, &t->on.dir, &mo, t->on.device, &to,
                                    (size_t)t->v->memory, e)
                 ? -1
                 : 0;
    t->is_common = true;
    if (train_broadcast_end(&all, rc, e) || train_broadcast(&all, &taken, sizeof taken, e))
        return -1;
    t->is_common = false;
    t->n_tensor = taken.tp;
    t->n_data = taken.dp;
    if (speaks(t))
        fprintf(stderr, "--parallel auto: %s\n", taken.why);
    return 0;
}

/* The place of the result is free, or has what an earlier training made. */
static int check_place(const struct train *t, struct err *e)
{
    struct train_ranks all = {.all = t->group};
    char *path = train_result_path(t);
    int rc = speaks(t) ? made_may_remove(path, e) : 0;
    free(path);
    if (rc && e->code == ERR_EXISTS)
        err_wrap(e, "what is trained has no place; move away what lies there, or give another "
                    "--out");
    return train_broadcast_end(&all, rc, e);
}

/* The directory in which training begins: the model's, or one of its shape, which one process
 * writes for all. */
static int write_first(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    enum k_type type = resident_type(v->model.load.quantize) == K_F32 ? K_F32 : K_BF16;
    struct train_ranks all = {.all = t->group};
    int rc = 0;
    if (strcmp(v->init, "random") != 0)
        return 0;
    t->first = train_path(t, "first");
    if (speaks(t))
        rc = fs_mkdirs(v->out, e) || made_remove(t->first, e) ||
                     model_first_write(v->dir, type, (uint64_t)v->seed, t->first, e)
                 ? -1
                 : 0;
    return train_broadcast_end(&all, rc, e);
}

static int load(struct train *t, struct err *e)
{
    struct local_options o = model_of(t);
    o.tp = 0;
    o.text_only = has_ranks(t);
    return local_load(&t->on, t->first ? t->first : t->v->dir, &o, true, e);
}

/* All that comes before there is anything for ranks to do. */
static int prepare(struct train *t, struct err *e)
{
    const struct train_values *v = t->v;
    t->is_common = true;
    if (check_given(v, e) || read_ancestor(t, e) || find_ranks(t, e) || check_place(t, e) ||
        write_first(t, e))
        return -1;
    t->is_common = false;
    return load(t, e) || train_check_method(t, e) || find_text(t, e) ||
                   read_file(t, v->data, &t->data, e) ||
                   (v->valid && read_file(t, v->valid, &t->valid, e)) || choose_ranks(t, e)
               ? -1
               : 0;
}

static int work(struct train *t, struct err *e)
{
    struct local_options o = model_of(t);
    struct team_options team = {.dir = &t->on.dir,
                                .model = local_model_options(&o),
                                .device = o.load.device,
                                .kernels =
                                    strcmp(o.load.kernels, "auto") == 0 ? NULL : o.load.kernels,
                                .n_tensor = t->n_tensor,
                                .n_data = t->n_data,
                                .n_thread = t->n_thread,
                                .comm = t->group,
                                .work = train_rank,
                                .ctx = t};
    struct team_rank alone = {.device = t->on.device, .stream = t->on.stream, .model = t->on.model};
    return has_ranks(t) ? team_run(&team, e) : train_rank(t, &alone, e);
}

/* Ends the group of processes; true: another one says what went wrong. */
static bool leave(struct train *t, const struct err *e)
{
    bool is_told = t->is_common && !speaks(t);
    if (t->group && e->code)
        comm_abort(t->group, e->msg);
    comm_free(t->group);
    return is_told;
}

int cmd_train(const struct opt *o)
{
    struct train t = {
        .v = o->values, .opt = o, .now = time(NULL), .has_terminal = isatty(STDERR_FILENO)};
    struct train_values *values = o->values;
    struct err e = ERR_INIT;
    char *of_hub = NULL;
    if (values->dir && cmd_model(values->dir, &of_hub, &e))
        return cmd_fail(o, &e);
    values->dir = of_hub ? of_hub : values->dir;
    api_json_init();
    arena_init(&t.arena, 0);
    int rc = local_group(0, &t.group, &e) || prepare(&t, &e) ? -1 : 0;
    if (!rc)
        rc = work(&t, &e);
    if (t.csv && fclose(t.csv) && !rc)
        rc = err_sys(&e, "steps.csv");
    dataset_release(&t.data);
    dataset_release(&t.valid);
    resident_release(&t.on);
    free(t.first);
    free(of_hub);
    arena_release(&t.arena);
    return leave(&t, &e) ? CMD_FAILED : rc ? cmd_fail(o, &e) : CMD_GOOD;
}
