/* SPDX-License-Identifier: Apache-2.0
 *
 * A training on the model that answers meanwhile.
 */
#include <unistd.h>

#include "api/train_row.h"
#include "clients/lib/lib_own.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/tune.h"

struct teaching {
    const struct tandem_model *m;         /* borrowed */
    const struct tandem_train_options *o; /* borrowed */
    double loss;                          /* of the newest step */
    bool is_ended;                        /* by who is told */
};

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct teaching *t = ctx;
    bool is_step = v->what == TUNING_STEP;
    t->loss = is_step ? v->train.loss : t->loss;
    const struct tandem_train_step s = {.step = v->step,
                                        .n_step = v->n_step,
                                        .loss = t->loss,
                                        .valid_loss = v->has_valid ? v->valid.loss : -1};
    (void)e;
    if (t->o->step && (is_step || v->has_valid))
        t->is_ended |= t->o->step(t->o->ctx, &s) != 0;
    return 0;
}

static bool is_wanted_end(void *ctx)
{
    const struct teaching *t = ctx;
    return t->is_ended || lib_is_closing(t->m);
}

static int read_rows(struct tune_rows *r, const char *path, struct err *e)
{
    int fd = fs_open(path, e);
    if (fd < 0)
        return -1;
    if (tune_rows_read(r, fd, e))
        return err_wrap(e, "%s", path);
    return tune_rows_info(r).n_learn > 0
               ? 0
               : err_set(e, ERR_BAD_INPUT, "%s: there is nothing to learn in it", path);
}

static int check(const char *file, const char *out, const struct tandem_train_options *o,
                 struct err *e)
{
    if (!file || !out)
        return err_set(e, ERR_BAD_INPUT, "a file of rows and a folder for the result are needed");
    if (access(out, F_OK) == 0)
        return err_set(e, ERR_EXISTS, "%s: is there already", out);
    if (o->epochs < 0 || o->batch < 0 || o->rank < 0 || o->rank > TRAIN_RANK_MAX ||
        o->max_length < 0 || !(o->alpha >= 0) || !(o->learning_rate >= 0))
        return err_set(e, ERR_BAD_INPUT,
                       "epochs, batch, rank (at most %d), alpha, learning_rate and max_length must "
                       "not be below 0",
                       TRAIN_RANK_MAX);
    return 0;
}

static struct tune_options ask(const struct tandem_train_options *o, const struct tune_rows *data,
                               const struct tune_rows *valid, struct teaching *t)
{
    int64_t rank = o->rank ? o->rank : 16;
    return (struct tune_options){
        .data = data,
        .valid = o->validation ? valid : NULL,
        .lora = {.rank = rank, .alpha = o->alpha > 0 ? o->alpha : 2 * (double)rank},
        .targets = "",
        .lr = o->learning_rate > 0 ? o->learning_rate : 2e-4,
        .max_norm = 1,
        .schedule = TRAIN_LINEAR,
        .n_epoch = o->epochs ? o->epochs : 3,
        .batch = o->batch ? o->batch : 4,
        .seed = o->seed,
        .event = hear,
        .is_wanted_end = is_wanted_end,
        .ctx = t};
}

/* Rows are there. */
static int teach(const struct teaching *by, const struct tune_options *o, const char *out,
                 struct err *e)
{
    struct engine *g = by->m->engine;
    bool is_done = false;
    struct tune *t = tune_new(g, o, e);
    int rc = t && !tune_begin(t, e) ? tune_run(t, &is_done, e) : -1;
    if (!rc && !by->is_ended)
        rc = is_done ? tune_publish(t, out, engine_info(g)->name, e)
                     : err_set(e, ERR_BUSY, "the model was closed");
    tune_free(t);
    return rc;
}

static int train(struct tandem_model *m, const char *file, const char *out,
                 const struct tandem_train_options *o, struct err *e)
{
    struct train_said said = {.unread = ""};
    const struct tune_rows_options ro = {.created_s = clock_wall_us() / 1000000,
                                         .max_tok = o->max_length,
                                         .reader = {.fn = api_train_read, .ctx = &said}};
    struct teaching t = {.m = m, .o = o};
    struct tune_rows *data = tune_rows_new(m->engine, &ro), *valid = tune_rows_new(m->engine, &ro);
    int rc = read_rows(data, file, e) || (o->validation && read_rows(valid, o->validation, e));
    if (!rc) {
        const struct tune_options to = ask(o, data, valid, &t);
        rc = teach(&t, &to, out, e);
    }
    tune_rows_free(data);
    tune_rows_free(valid);
    return rc ? -1 : 0;
}

static int alone(struct tandem_model *m, const char *file, const char *out,
                 const struct tandem_train_options *o, struct err *e)
{
    if (pthread_mutex_trylock(&m->trains))
        return err_set(e, ERR_BUSY, "the model is in a training");
    int rc = train(m, file, out, o, e);
    pthread_mutex_unlock(&m->trains);
    return rc;
}

int tandem_train(struct tandem_model *m, const char *file, const char *out,
                 const struct tandem_train_options *o, struct tandem_error *e)
{
    struct tandem_train_options all = TANDEM_TRAIN_OPTIONS;
    struct err why = ERR_INIT;
    if (lib_options(&all, o, &why) || check(file, out, &all, &why))
        return lib_fail(e, &why);
    lib_enter(m);
    int rc = alone(m, file, out, &all, &why);
    lib_leave(m);
    return rc ? lib_fail(e, &why) : 0;
}
