/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/fine_tuning/check: a whole file as a job would read it, before there is a job.
 *
 * It runs in turns of a few milliseconds on the desk's thread, so that a large file holds nobody
 * up, and ends where the asker goes.
 */
#include <time.h>

#include "api/check.h"
#include "api/train_row.h"
#include "engine/tune.h"
#include "server/data/data_dir.h"
#include "server/desk/tuning.h"
#include "server/http/route.h"

enum { TURN_US = 50 * 1000 };

/* What one turn leaves to the next, in the errand's arena. */
struct checking {
    struct check_ask ask;
    struct train_said said;
    struct tune_check *check; /* owned: released with the arena */
};

static void free_check(void *check)
{
    tune_check_free(check);
}

static int begin(struct errand *t, struct api_error *e)
{
    struct checking *c = t->kept = ARENA_NEW(&t->arena, struct checking);
    struct err why = ERR_INIT;
    *c = (struct checking){0};
    if (check_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &c->ask, e) ||
        errand_file(t, c->ask.training_file, "fine-tune", "training_file", e))
        return -1;
    t->ignored = c->ask.ignored;
    if (tune_check_method(desk_engine(t->desk), c->ask.hyper.method == HYPER_EMBEDDING,
                          c->ask.hyper.method == HYPER_CLASSIFICATION, &why))
        return api_fail(e, 400, "invalid_value", "method.type", "%s.", why.msg);
    const struct job_hyper *h = &c->ask.hyper;
    bool judges = h->method == HYPER_DPO && h->loss == HYPER_KTO;
    const struct tune_rows_options o = {.created_s = (int64_t)time(NULL),
                                        .has_pairs = h->method == HYPER_DPO && !judges,
                                        .has_verdicts = judges,
                                        .has_anchors = h->method == HYPER_EMBEDDING,
                                        .has_labels = h->method == HYPER_CLASSIFICATION,
                                        .n_sample = h->method == HYPER_REINFORCEMENT,
                                        .max_new = 1,
                                        .reader = {.fn = api_train_read, .ctx = &c->said}};
    int fd = data_open(store_dir(desk_store(t->desk)), DATA_FILES, c->ask.training_file, &why);
    c->check = fd < 0 ? NULL : tune_check_new(desk_engine(t->desk), &o, fd, &why);
    if (!c->check)
        return api_fail_err(e, &why, "training_file");
    arena_defer(&t->arena, free_check, c->check);
    return 0;
}

static void show(struct errand *t, const struct checking *c)
{
    const struct tune_check_info info = tune_check_info(c->check);
    struct check_fault fault[TUNE_FAULTS_MAX];
    struct jout j = jout_on(&t->out);
    struct check shown = {.training_file = c->ask.training_file,
                          .n_line = info.n_line,
                          .n_example = info.n_example,
                          .min_example = desk_options(t->desk)->min_examples,
                          .n_tok = info.n_tok,
                          .n_learn = info.n_learn,
                          .n_cut = info.n_cut,
                          .n_barren = info.n_barren,
                          .n_fault = info.n_fault,
                          .fault = fault,
                          .unread = c->said.unread};
    for (; shown.n_shown < TUNE_FAULTS_MAX && (int64_t)shown.n_shown < info.n_fault;
         shown.n_shown++) {
        const struct tune_fault f = tune_check_fault(c->check, shown.n_shown);
        fault[shown.n_shown] = (struct check_fault){f.line, f.example, f.message};
    }
    check_write(&j, &shown);
}

static enum errand_end work_check(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    bool is_done;
    if (!t->kept && begin(t, e))
        return ERRAND_FAILED;
    struct checking *c = t->kept;
    if (tune_check_some(c->check, TURN_US, &is_done, &why)) {
        api_fail_err(e, &why, "training_file");
        return ERRAND_FAILED;
    }
    if (!is_done)
        return ERRAND_AGAIN;
    show(t, c);
    return ERRAND_DONE;
}

void route_tuning_check(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_check);
}
