/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem jobs` and what can be done to one: get, cancel, pause, resume, events.
 */
#include <stdlib.h>

#include "clients/remote/follow.h"
#include "clients/remote/list.h"
#include "clients/remote/pick.h"
#include "clients/remote/term.h"

#define JOBS "/v1/fine_tuning/jobs"

static const struct opt_row jobs_rows[] = {LIST_ROWS("Jobs")};

const struct cmd_opt cmd_opt_jobs = {jobs_rows, sizeof jobs_rows / sizeof *jobs_rows,
                                     sizeof(struct list_values)};

int cmd_jobs(const struct opt *o)
{
    static const char *const member[] = {"id",         "status",         "model",
                                         "created_at", "trained_tokens", "fine_tuned_model"};
    static const char *const name[] = {"JOB", "STATUS", "BASE", "CREATED", "TOKENS", "RESULT"};
    const struct list_values *v = o->values;
    const struct list_shape list = {.path = JOBS,
                                    .member = member,
                                    .name = name,
                                    .n = sizeof name / sizeof *name,
                                    .gives = "061235",
                                    .empty = "no jobs; `tandem tune FILE` makes one"};
    return list_show(o, &list, v->limit);
}

const struct cmd_opt cmd_opt_jobs_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_cancel = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_pause = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_resume = REMOTE_ONLY;

int cmd_jobs_get(const struct opt *o)
{
    return remote_show(o, "GET", JOBS "/%s");
}

int cmd_jobs_cancel(const struct opt *o)
{
    return remote_show(o, "POST", JOBS "/%s/cancel");
}

int cmd_jobs_pause(const struct opt *o)
{
    return remote_show(o, "POST", JOBS "/%s/pause");
}

int cmd_jobs_resume(const struct opt *o)
{
    return remote_show(o, "POST", JOBS "/%s/resume");
}

/* ---- checkpoints --------------------------------------------------------------------------- */

const struct cmd_opt cmd_opt_jobs_checkpoints = REMOTE_ONLY;

int cmd_jobs_checkpoints(const struct opt *o)
{
    static const char *const member[] = {"step_number", "created_at",
                                         "fine_tuned_model_checkpoint"};
    static const char *const name[] = {"STEP", "CREATED", "MODEL"};
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(r, &e);
    char *id = p ? pick(p, JOBS, o->arg[0], &e) : NULL;
    char *path = id ? remote_path(JOBS "/%s/checkpoints", id, &e) : NULL;
    const struct list_shape list = {.path = path,
                                    .member = member,
                                    .name = name,
                                    .n = sizeof name / sizeof *name,
                                    .gives = "210",
                                    .empty = "no checkpoints yet"};
    int status = path ? list_show(o, &list, 0) : cmd_fail(o, &e);
    peer_free(p);
    free(id);
    free(path);
    return status;
}

/* ---- events -------------------------------------------------------------------------------- */

struct events_values {
    struct remote_options remote;
    bool follow;
};

static const struct opt_row events_rows[] = {
    {.section = "Events",
     .name = "follow",
     .letter = 'f',
     .type = OPT_BOOL,
     .help = "go on until the job ends, as `tandem tune --follow` does; the status is 0 when it "
             "succeeded, 1 when it did not",
     .offset = offsetof(struct events_values, follow)},
    REMOTE_ROWS};

const struct cmd_opt cmd_opt_jobs_events = {events_rows, sizeof events_rows / sizeof *events_rows,
                                            sizeof(struct events_values)};

/* The newest come first; people read from the oldest on. */
static int keep(void *ctx, const json_t *event, struct err *e)
{
    (void)e;
    json_array_insert(ctx, 0, (json_t *)(uintptr_t)event);
    return 0;
}

static int print_events(struct peer *p, const struct remote_options *o, const char *id,
                        struct err *e)
{
    json_t *events = json_array();
    char *path = remote_path(JOBS "/%s/events", id, e), room[REMOTE_TEXT_BYTES];
    const json_t *v;
    size_t i;
    int rc = path ? remote_each(p, path, 0, keep, events, e) : -1;
    json_array_foreach(events, i, v)
    {
        if (rc)
            break;
        if (o->json) {
            remote_print_json(v);
            continue;
        }
        printf("%s  ", remote_text(v, "created_at", room));
        term_put(stdout, remote_text(v, "message", room));
        putchar('\n');
    }
    free(path);
    json_decref(events);
    return rc;
}

int cmd_jobs_events(const struct opt *o)
{
    const struct events_values *v = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    char *id = p ? pick(p, JOBS, o->arg[0], &e) : NULL;
    int status = CMD_FAILED, rc = -1;
    if (id && v->follow) {
        rc = follow_job(p, &v->remote, id, &status, &e);
    } else if (id) {
        rc = print_events(p, &v->remote, id, &e);
        status = CMD_GOOD;
    }
    free(id);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : status;
}
