/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem jobs` and what can be done to one: get, cancel, pause, resume, events.
 */
#include "clients/remote/follow.h"
#include "clients/remote/list.h"
#include "clients/remote/term.h"

#define JOBS "/v1/fine_tuning/jobs"

struct jobs_values {
    struct remote_options remote;
    int64_t limit;
};

static const struct opt_row jobs_rows[] = {{.section = "Jobs",
                                            .name = "limit",
                                            .letter = 'n',
                                            .type = OPT_INT,
                                            .fallback = "20",
                                            .min = 0,
                                            .max = 1e9,
                                            .hint = "N",
                                            .help = "the newest so many; 0: all",
                                            .offset = offsetof(struct jobs_values, limit)},
                                           REMOTE_ROWS};

const struct cmd_opt cmd_opt_jobs = {jobs_rows, sizeof jobs_rows / sizeof *jobs_rows,
                                     sizeof(struct jobs_values)};

int cmd_jobs(const struct opt *o)
{
    static const char *const member[] = {"id",         "status",         "model",
                                         "created_at", "trained_tokens", "fine_tuned_model"};
    static const char *const name[] = {"JOB", "STATUS", "BASE", "CREATED", "TOKENS", "RESULT"};
    const struct jobs_values *v = o->values;
    const struct list_options list = {.path = JOBS,
                                      .query = "",
                                      .limit = v->limit,
                                      .member = member,
                                      .name = name,
                                      .n = sizeof name / sizeof *name,
                                      .empty = "no jobs; `tandem tune FILE` makes one"};
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    int rc = p ? list_print(p, &v->remote, &list, &e) : -1;
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

/* METHOD of one job, whose id is the first word; what is answered is shown. */
static int ask_one(const struct opt *o, const char *method, const char *path)
{
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    json_t *job = NULL;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? remote_ask(p, method, path, o->arg[0], &job, &e) : -1;
    if (!rc)
        remote_print(r, job);
    json_decref(job);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

const struct cmd_opt cmd_opt_jobs_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_cancel = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_pause = REMOTE_ONLY;
const struct cmd_opt cmd_opt_jobs_resume = REMOTE_ONLY;

int cmd_jobs_get(const struct opt *o)
{
    return ask_one(o, "GET", JOBS "/%s");
}

int cmd_jobs_cancel(const struct opt *o)
{
    return ask_one(o, "POST", JOBS "/%s/cancel");
}

int cmd_jobs_pause(const struct opt *o)
{
    return ask_one(o, "POST", JOBS "/%s/pause");
}

int cmd_jobs_resume(const struct opt *o)
{
    return ask_one(o, "POST", JOBS "/%s/resume");
}

/* ---- checkpoints --------------------------------------------------------------------------- */

const struct cmd_opt cmd_opt_jobs_checkpoints = REMOTE_ONLY;

int cmd_jobs_checkpoints(const struct opt *o)
{
    static const char *const member[] = {"step_number", "created_at",
                                         "fine_tuned_model_checkpoint"};
    static const char *const name[] = {"STEP", "CREATED", "MODEL"};
    const struct remote_options *r = o->values;
    struct list_options list = {.query = "",
                                .member = member,
                                .name = name,
                                .n = sizeof name / sizeof *name,
                                .empty = "no checkpoints yet"};
    struct err e = ERR_INIT;
    struct buf path;
    char *id = peer_escape(o->arg[0]);
    buf_init(&path, 1 << 20);
    buf_printf(&path, JOBS "/%s/checkpoints", id);
    list.path = path.data;
    struct peer *p = buf_check(&path, "the id", &e) ? NULL : remote_peer(r, &e);
    int rc = p ? list_print(p, r, &list, &e) : -1;
    peer_free(p);
    buf_release(&path);
    free(id);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
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
    char *escaped = peer_escape(id), room[REMOTE_TEXT_BYTES];
    const json_t *v;
    size_t i;
    struct buf path;
    buf_init(&path, 1 << 20);
    buf_printf(&path, JOBS "/%s/events", escaped);
    int rc = buf_check(&path, "the id", e) ? -1 : remote_each(p, path.data, "", 0, keep, events, e);
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
    buf_release(&path);
    free(escaped);
    json_decref(events);
    return rc;
}

int cmd_jobs_events(const struct opt *o)
{
    const struct events_values *v = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    int status = CMD_FAILED, rc = -1;
    if (p && v->follow) {
        rc = follow_job(p, &v->remote, o->arg[0], &status, &e);
    } else if (p) {
        rc = print_events(p, &v->remote, o->arg[0], &e);
        status = CMD_GOOD;
    }
    peer_free(p);
    return rc ? cmd_fail(o, &e) : status;
}
