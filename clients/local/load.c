/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading for the commands of this folder. On a terminal a bar shows how far it is; elsewhere
 * nothing is printed, since it takes a second or two.
 */
#include "clients/local/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/run/crew.h"

enum { BAR = 30, BAR_AFTER_NS = 300000000 };

struct bar {
    int64_t begin_ns;
    bool is_shown;
};

/* Called by any compute thread: one line is one write, so that lines never mix. */
static void show_progress(void *ctx, uint64_t done, uint64_t all)
{
    struct bar *b = ctx;
    char line[128];
    int full = all ? (int)(BAR * done / all) : BAR;
    if (clock_ns() - b->begin_ns < BAR_AFTER_NS)
        return;
    int n = snprintf(line, sizeof line, "\rloading [%.*s%.*s] %.1f of %.1f GB", full,
                     "##############################", BAR - full, "..............................",
                     (double)done / 1e9, (double)all / 1e9);
    if (write(STDERR_FILENO, line, (size_t)n) == n)
        b->is_shown = true;
}

struct model_options local_model_options(const struct local_options *o)
{
    struct model_options mo = resident_model_options(&o->load);
    mo.is_trained = o->is_trained;
    return mo;
}

static bool wants_random(const struct local_options *o)
{
    return o->weights && strcmp(o->weights, "random") == 0;
}

static void hide(const struct bar *b)
{
    if (b->is_shown)
        fputs("\r\033[K", stderr);
}

int local_group(int64_t deadline_ms, struct comm **c, struct err *e)
{
    const struct comm_options o = {.deadline_ms = deadline_ms};
    return comm_launched_new(&o, c, e);
}

int local_follow(const char *path, const struct local_options *o, struct comm *c,
                 crew_work_fn *work, struct err *e)
{
    bool is_auto = !o->load.kernels || strcmp(o->load.kernels, "auto") == 0;
    struct model_dir dir = {0};
    struct crew_options co = {.dir = &dir,
                              .model = local_model_options(o),
                              .device = o->load.device,
                              .kernels = is_auto ? NULL : o->load.kernels,
                              .comm = c,
                              .work = work};
    int rc = crew_threads(c, 1, o->load.threads, &co.n_thread, e) || model_dir_init(&dir, path, e);
    if (!rc) {
        rc = crew_follow(&co, e);
    } else {
        comm_abort(c, e->msg);
        comm_free(c);
    }
    model_dir_release(&dir);
    return rc ? -1 : 0;
}

int local_load(struct resident *r, const char *path, const struct local_options *o, bool wants_text,
               struct err *e)
{
    struct bar bar = {.begin_ns = clock_ns()};
    bool shows = isatty(STDERR_FILENO);
    struct resident_options ro = {.dir = path,
                                  .load = o->load,
                                  .tp = o->group ? comm_size(o->group) : (int)o->tp,
                                  .comm = o->group,
                                  .is_trained = o->is_trained,
                                  .wants_text = wants_text,
                                  .text_only = o->text_only,
                                  .random_weights = wants_random(o),
                                  .progress = shows ? show_progress : NULL,
                                  .progress_ctx = &bar};
    int rc = resident_init(r, &ro, e);
    hide(&bar);
    return rc;
}

double local_train_floor(const struct opt *o, double percent)
{
    bool has_other = opt_is_given(o, "train-share") || opt_is_given(o, "target-itl");
    return has_other && !opt_is_given(o, "train-floor") ? 0 : percent;
}

struct engine *local_engine(const char *path, const struct local_options *o,
                            const struct engine_options *with, struct err *e)
{
    struct bar bar = {.begin_ns = clock_ns()};
    struct engine_options eo = *with;
    eo.model = path;
    eo.load = o->load;
    eo.random_weights = wants_random(o);
    eo.progress = isatty(STDERR_FILENO) ? show_progress : NULL;
    eo.progress_ctx = &bar;
    struct engine *g = engine_new(&eo, e);
    hide(&bar);
    return g;
}
