/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of jobs. What a job was asked for never changes; what becomes of it changes only by
 * store_job_move, which looks at the state first.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/vec.h"
#include "server/store/store_own.h"

#define COLUMNS                                                                                    \
    "id, owner, model, training_file, validation_file, suffix, metadata, hyper, "                  \
    "error_code, error_message, error_param, tuned_model, result_files, state, created, started, " \
    "finished, seed, trained_tokens, estimated_finish, step, n_step, wants_cancel, wants_pause, "  \
    "fingerprint, grader, ancestor, ancestor_digest, response_format"
#define READ COLUMNS ", EXISTS (SELECT 1 FROM shared WHERE shared.job = job.id)"

static int take(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct job *j = out;
    const char *hyper = NULL;
    const char **const text[] = {
        &j->id,          &j->owner,       &j->model,       &j->training_file, &j->validation_file,
        &j->suffix,      &j->metadata,    &hyper,          &j->error_code,    &j->error_message,
        &j->error_param, &j->tuned_model, &j->result_files};
    int c = 0;
    *j = (struct job){.id = NULL};
    for (; c < (int)(sizeof text / sizeof *text); c++)
        *text[c] = store_text(q, c, a);
    j->state = (enum job_state)sqlite3_column_int(q, c++);
    int64_t *const number[] = {&j->created,        &j->started,          &j->finished, &j->seed,
                               &j->trained_tokens, &j->estimated_finish, &j->step,     &j->n_step};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        *number[i] = sqlite3_column_int64(q, c++);
    j->wants_cancel = sqlite3_column_int(q, c++);
    j->wants_pause = sqlite3_column_int(q, c++);
    j->fingerprint = store_text(q, c++, a);
    j->grader = store_text(q, c++, a);
    j->ancestor = store_text(q, c++, a);
    j->ancestor_digest = store_text(q, c++, a);
    j->response_format = store_text(q, c++, a);
    j->is_shared = sqlite3_column_int(q, c);
    return job_hyper_read(hyper ? hyper : "", &j->hyper, e);
}

static const char *hyper_text(const struct job *j, char text[HYPER_TEXT_BYTES])
{
    struct buf b;
    buf_init(&b, HYPER_TEXT_BYTES);
    job_hyper_write(&j->hyper, &b);
    snprintf(text, HYPER_TEXT_BYTES, "%s", b.data);
    buf_release(&b);
    return text;
}

static int no_job(struct err *e, const char *id)
{
    return err_set(e, ERR_NOT_FOUND, "no such job: %.64s", id);
}

/* One row, or ERR_NOT_FOUND; q is finalized. */
static int one(struct store *s, sqlite3_stmt *q, const char *id, struct arena *a, struct job *out,
               struct err *e)
{
    int row = q ? store_row(s, q, e) : -1;
    int rc = row == 1 ? take(q, a, out, e) : row == 0 ? no_job(e, id) : -1;
    sqlite3_finalize(q);
    return rc;
}

/* ---- making -------------------------------------------------------------------------------- */

/* 1: the same creation was made before, and is in *found; 0: it was not. */
static int find_retry(struct store *s, const struct job *j, const char *retry, const char *body,
                      int64_t retry_s, struct arena *a, struct job *found, struct err *e)
{
    if (!retry)
        return 0;
    sqlite3_stmt *q =
        store_query(s, e,
                    "SELECT " READ ", body FROM job WHERE owner = ? AND retry = ? AND created >= ? "
                    "ORDER BY seq DESC LIMIT 1",
                    "tti", j->owner, retry, j->created - retry_s);
    int row = q ? store_row(s, q, e) : -1;
    if (row == 1) {
        const char *before = (const char *)sqlite3_column_text(q, sqlite3_column_count(q) - 1);
        if (!before || strcmp(before, body))
            row = err_set(e, ERR_EXISTS, "this key was used for another request");
        else if (take(q, a, found, e))
            row = -1;
    }
    sqlite3_finalize(q);
    return row;
}

int store_job_retry(struct store *s, const struct job *j, const char *retry, const char *body,
                    int64_t retry_s, struct arena *a, struct job *found, struct err *e)
{
    *found = (struct job){.id = NULL};
    if (store_begin(s, e))
        return -1;
    return store_end(s, find_retry(s, j, retry, body, retry_s, a, found, e) < 0 ? -1 : 0, e);
}

static int insert(struct store *s, const struct job *j, const char *retry, const char *body,
                  struct err *e)
{
    char hyper[HYPER_TEXT_BYTES];
    return store_run(
        s,
        store_query(s, e,
                    "INSERT INTO job (" COLUMNS ", retry, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
                    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "tttttttttttttiiiiiiiiiiittttttt", j->id, j->owner, j->model, j->training_file,
                    j->validation_file, j->suffix, j->metadata, hyper_text(j, hyper), j->error_code,
                    j->error_message, j->error_param, j->tuned_model, j->result_files,
                    (int64_t)j->state, j->created, j->started, j->finished, j->seed,
                    j->trained_tokens, j->estimated_finish, j->step, j->n_step,
                    (int64_t)j->wants_cancel, (int64_t)j->wants_pause, j->fingerprint, j->grader,
                    j->ancestor, j->ancestor_digest, j->response_format, retry,
                    retry ? body : NULL),
        e);
}

static int insert_event(struct store *s, const char *job, const struct job_event *v, struct err *e)
{
    return store_run(s,
                     store_query(s, e,
                                 "INSERT INTO event (id, job, level, type, message, data, created) "
                                 "VALUES (?, ?, ?, ?, ?, ?, ?)",
                                 "tttttti", v->id, job, v->level, v->type, v->message, v->data,
                                 v->created),
                     e);
}

int store_job_add(struct store *s, const struct job *j, const struct job_event *v,
                  const char *retry, const char *body, int64_t retry_s, struct arena *a,
                  struct job *found, struct err *e)
{
    *found = (struct job){.id = NULL};
    if (store_begin(s, e))
        return -1;
    int rc = find_retry(s, j, retry, body, retry_s, a, found, e);
    bool is_new = rc == 0;
    if (is_new)
        rc = insert(s, j, retry, body, e);
    if (is_new && rc == 0 && j->is_shared)
        rc = store_run(s, store_query(s, e, "INSERT INTO shared (job) VALUES (?)", "t", j->id), e);
    if (is_new && rc == 0 && v)
        rc = insert_event(s, j->id, v, e);
    return store_end(s, rc < 0 ? -1 : 0, e);
}

/* ---- finding ------------------------------------------------------------------------------- */

int store_job_get(struct store *s, const char *owner, const char *id, struct arena *a,
                  struct job *out, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q =
        store_query(s, e, "SELECT " READ " FROM job WHERE owner = ? AND id = ?", "tt", owner, id);
    return store_end(s, one(s, q, id, a, out, e), e);
}

int store_job_list(struct store *s, const char *owner, const struct store_page *page,
                   struct arena *a, struct job **out, size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "job",
                                 .columns = READ,
                                 .where = "owner = ?1",
                                 .of = {owner},
                                 .size = sizeof **out,
                                 .take = take};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}

/* Of the base ?4; what a fingerprint says before its colon names the files. */
#define IS_OF_BASE                                                                                 \
    "(fingerprint = ?4 OR (step = 0 AND substr(fingerprint, 1, instr(fingerprint, ':')) = "        \
    "substr(?4, 1, instr(?4, ':'))))"

int store_job_next(struct store *s, const struct store_turn *t, struct arena *a, struct job *out,
                   struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT " READ " FROM job WHERE seq IN (SELECT min(seq) FROM job WHERE state IN "
        "(?1, ?2, ?3) AND (?5 >> state) & 1 AND instr(?6, id) = 0 AND (state = ?3 OR " IS_OF_BASE
        ") AND has_key(owner) GROUP BY owner, state) ORDER BY state = ?3 DESC, (SELECT count(*) FROM job AS o "
        "WHERE o.owner = job.owner AND o.state IN (?1, ?2, ?3) AND (?5 >> o.state) & 1 "
        "AND instr(?6, o.id)), owner <= ?7, owner, seq LIMIT 1",
        "iiititt", (int64_t)JOB_VALIDATING, (int64_t)JOB_QUEUED, (int64_t)JOB_RUNNING,
        t->fingerprint, (int64_t)t->states, t->in_hand, t->last);
    return store_end(s, one(s, q, "any", a, out, e), e);
}

/* All that q gives, as a transaction that was begun for it; q is finalized. */
static int all(struct store *s, sqlite3_stmt *q, struct arena *a, struct job **out, size_t *n,
               struct err *e)
{
    VEC(struct job) list = {0};
    struct job j;
    int row = -1;
    while (q && (row = store_row(s, q, e)) == 1 && (row = take(q, a, &j, e)) == 0)
        vec_push(&list, j);
    sqlite3_finalize(q);
    *n = list.n;
    *out = ARENA_ARRAY(a, struct job, list.n);
    if (list.n)
        memcpy(*out, list.at, list.n * sizeof j);
    vec_release(&list);
    return store_end(s, row < 0 ? -1 : 0, e);
}

int store_job_strange(struct store *s, const char *fingerprint, struct arena *a, struct job **out,
                      size_t *n, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e,
        "SELECT " READ " FROM job WHERE state IN (?1, ?2, ?3) AND NOT coalesce(" IS_OF_BASE
        ", 0) ORDER BY seq LIMIT 1000",
        "iiit", (int64_t)JOB_VALIDATING, (int64_t)JOB_QUEUED, (int64_t)JOB_PAUSED, fingerprint);
    return all(s, q, a, out, n, e);
}

int store_job_stalled(struct store *s, const char *code, struct arena *a, struct job **out,
                      size_t *n, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT " READ " FROM job WHERE state = ? AND error_code = ? ORDER BY seq LIMIT ?",
        "iti", (int64_t)JOB_PAUSED, code, (int64_t)STORE_STALLED_MAX);
    return all(s, q, a, out, n, e);
}

int store_adopt(struct store *s, const char *model, const char *fingerprint, int64_t *n,
                struct err *e)
{
    *n = 0;
    if (store_begin(s, e))
        return -1;
    int rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE job SET fingerprint = ? "
                                   "WHERE fingerprint IS NULL AND model = ?",
                                   "tt", fingerprint, model),
                       e);
    *n += sqlite3_changes(s->db);
    if (!rc)
        rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE tuned SET fingerprint = ? "
                                   "WHERE fingerprint IS NULL AND is_full AND base = ?",
                                   "tt", fingerprint, model),
                       e);
    *n += sqlite3_changes(s->db);
    return store_end(s, rc, e);
}

/* ---- changing ------------------------------------------------------------------------------ */

static int update(struct store *s, const struct job *j, unsigned from, struct err *e)
{
    char hyper[HYPER_TEXT_BYTES];
    int rc = store_run(
        s,
        store_query(s, e,
                    "UPDATE job SET state = ?2, hyper = ?3, error_code = ?4, error_message = ?5, "
                    "error_param = ?6, tuned_model = ?7, result_files = ?8, started = ?9, "
                    "finished = ?10, trained_tokens = ?11, estimated_finish = ?12, step = ?13, "
                    "n_step = ?14, wants_cancel = wants_cancel AND ?2 = ?16, "
                    "wants_pause = wants_pause AND ?2 = ?16, fingerprint = ?17 "
                    "WHERE id = ?1 AND (?15 >> state) & 1",
                    "tittttttiiiiiiiit", j->id, (int64_t)j->state, hyper_text(j, hyper),
                    j->error_code, j->error_message, j->error_param, j->tuned_model,
                    j->result_files, j->started, j->finished, j->trained_tokens,
                    j->estimated_finish, j->step, j->n_step, (int64_t)from, (int64_t)JOB_RUNNING,
                    j->fingerprint),
        e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_BUSY, "job %.64s is in another state", j->id);
    return rc;
}

static int put_notes(struct store *s, const struct store_change *c, struct err *e)
{
    int rc = c->tuned ? store_note_tuned(s, c->tuned, e) : 0;
    for (size_t i = 0; !rc && i < c->n_file; i++)
        rc = store_note_file(s, &c->file[i], e);
    return rc;
}

int store_job_change(struct store *s, const struct store_change *c, struct err *e)
{
    bool ends = store_wants_notice(s, c->job);
    if (put_notes(s, c, e) || store_begin(s, e))
        return -1;
    int rc = update(s, c->job, c->from, e);
    for (size_t i = 0; !rc && i < c->n_file; i++)
        rc = store_put_file(s, "INSERT OR IGNORE", &c->file[i], e);
    if (!rc && c->tuned)
        rc = store_put_tuned(s, c->tuned, e);
    for (size_t i = 0; !rc && i < c->n_event; i++)
        rc = insert_event(s, c->job->id, &c->event[i], e);
    if (!rc && ends)
        rc = store_put_notice(s, c->job, e);
    rc = store_end(s, rc, e);
    if (!rc && ends)
        s->notice_came(s->notice_ctx);
    return rc;
}

int store_job_move(struct store *s, const struct job *j, unsigned from, const struct job_event *v,
                   struct err *e)
{
    return store_job_change(
        s, &(struct store_change){.job = j, .from = from, .event = v, .n_event = v != NULL}, e);
}

int store_job_ask(struct store *s, const char *owner, const char *id, bool cancel, bool pause,
                  struct err *e)
{
    if (store_begin(s, e))
        return -1;
    int rc = store_run(s,
                       store_query(s, e,
                                   "UPDATE job SET wants_cancel = wants_cancel OR ?3, "
                                   "wants_pause = wants_pause OR ?4 "
                                   "WHERE owner = ?1 AND id = ?2 AND state = ?5",
                                   "ttiii", owner, id, (int64_t)cancel, (int64_t)pause,
                                   (int64_t)JOB_RUNNING),
                       e);
    if (!rc && sqlite3_changes(s->db) == 0)
        rc = err_set(e, ERR_BUSY, "job %.64s does not run", id);
    return store_end(s, rc, e);
}

int store_job_asked(struct store *s, const char *id, bool *cancel, bool *pause, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q =
        store_query(s, e, "SELECT wants_cancel, wants_pause FROM job WHERE id = ?", "t", id);
    int row = q ? store_row(s, q, e) : -1;
    *cancel = row == 1 && sqlite3_column_int(q, 0);
    *pause = row == 1 && sqlite3_column_int(q, 1);
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : row == 0 ? no_job(e, id) : -1, e);
}

int store_job_shares(struct store *s, const char *id, bool *shares, struct err *e)
{
    return store_has(s, "SELECT 1 FROM shared WHERE job = ?", id, shares, e);
}

int store_job_count(struct store *s, const char *owner, int64_t *all, int64_t *waiting,
                    struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(
        s, e, "SELECT count(*), coalesce(sum(1 << state & ?2 = 0), 0) FROM job WHERE owner = ?1",
        "ti", owner, (int64_t)(1u << JOB_SUCCEEDED | 1u << JOB_FAILED | 1u << JOB_CANCELLED));
    int row = q ? store_row(s, q, e) : -1;
    *all = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    *waiting = row == 1 ? sqlite3_column_int64(q, 1) : 0;
    sqlite3_finalize(q);
    return store_end(s, row == 1 ? 0 : -1, e);
}

int store_job_is_over(struct store *s, const char *id, bool *is_over, struct err *e)
{
    if (store_begin(s, e))
        return -1;
    sqlite3_stmt *q = store_query(s, e, "SELECT state FROM job WHERE id = ?", "t", id);
    int row = q ? store_row(s, q, e) : -1;
    int state = row == 1 ? sqlite3_column_int(q, 0) : JOB_QUEUED;
    *is_over = state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
    sqlite3_finalize(q);
    return store_end(s, row < 0 ? -1 : 0, e);
}

/* ---- events -------------------------------------------------------------------------------- */

int store_event_add(struct store *s, const char *job, const struct job_event *v, struct err *e)
{
    return store_events_add(s, job, v, 1, e);
}

int store_events_add(struct store *s, const char *job, const struct job_event *v, size_t n,
                     struct err *e)
{
    int rc = 0;
    if (store_begin(s, e))
        return -1;
    for (size_t i = 0; !rc && i < n; i++)
        rc = insert_event(s, job, &v[i], e);
    return store_end(s, rc, e);
}

static int take_event(sqlite3_stmt *q, struct arena *a, void *out, struct err *e)
{
    struct job_event *v = out;
    (void)e;
    *v = (struct job_event){.id = store_text(q, 0, a),
                            .level = store_text(q, 1, a),
                            .type = store_text(q, 2, a),
                            .message = store_text(q, 3, a),
                            .data = store_text(q, 4, a),
                            .seq = sqlite3_column_int64(q, 5),
                            .created = sqlite3_column_int64(q, 6)};
    return 0;
}

int store_event_list(struct store *s, const char *job, const struct store_page *page,
                     struct arena *a, struct job_event **out, size_t *n, bool *more, struct err *e)
{
    const struct store_list l = {.table = "event",
                                 .columns = "id, level, type, message, data, seq, created",
                                 .where = "job = ?1",
                                 .of = {job},
                                 .size = sizeof **out,
                                 .take = take_event};
    *out = store_list(s, &l, page, a, n, more, e);
    return *out ? 0 : -1;
}
