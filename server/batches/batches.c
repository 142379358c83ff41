/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread: sees which batches there are, brings each on, begins lines as long as there are
 * places for them, and sleeps until an answer, a client or a second's end wakes it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/batches/batches_own.h"
#include "server/data/data_dir.h"
#include "server/metrics/metrics.h"

enum {
    RUNS_MAX = 64,
    RUN_ARENA = 8 << 20,
    LOOK_ARENA = 16 << 20,
    TELL_US = 1000 * 1000,
    REST_US = 1000 * 1000, /* the first; each after it is twice as long */
    REST_US_MAX = 60 * 1000 * 1000,
    TICK_NS = 1000 * 1000 * 1000
};

/* ---- which there are ------------------------------------------------------------------------- */

static const char *copy(struct arena *a, const char *text)
{
    return text ? arena_strdup(a, text) : NULL;
}

static struct batch_run *run_new(struct batches *b, const struct batch *row)
{
    struct batch_run *r = xcalloc(1, sizeof *r);
    r->all = b;
    r->input.fd = r->log.fd = -1;
    arena_init(&r->arena, RUN_ARENA);
    arena_init(&r->attempt, RUN_ARENA);
    r->batch = *row;
    r->batch.id = copy(&r->arena, row->id);
    r->batch.owner = copy(&r->arena, row->owner);
    r->batch.endpoint = copy(&r->arena, row->endpoint);
    r->batch.input_file = copy(&r->arena, row->input_file);
    r->batch.model = copy(&r->arena, row->model);
    r->batch.metadata = copy(&r->arena, row->metadata);
    r->batch.errors = r->batch.output_file = r->batch.error_file = NULL;
    r->has_key = true;
    return r;
}

/* Keys change while the server runs. */
static void see_owner(struct batch_run *r)
{
    bool had = r->has_key;
    r->has_key = r->all->opt.who(r->all->opt.ctx, r->batch.owner, &r->who, &r->quota);
    r->who.name = r->batch.owner;
    r->who.rule = NULL; /* limits are those of the door; time that nobody wants has none */
    r->who.is_idle = true;
    if (had && !r->has_key)
        log_event(LOG_WARN, "a batch waits: no key has its owner's name any more",
                  LOG_TEXT("batch", r->batch.id), LOG_TEXT("owner", r->batch.owner));
}

static void run_free(struct batch_run *r)
{
    batch_flights_drop(r);
    batch_input_release(&r->input);
    batch_log_release(&r->log);
    arena_release(&r->attempt);
    arena_release(&r->arena);
    free(r);
}

static struct batch_run *find(const struct batches *b, const char *id)
{
    for (size_t i = 0; i < b->run.n; i++)
        if (strcmp(b->run.at[i]->batch.id, id) == 0)
            return b->run.at[i];
    return NULL;
}

static bool is_among(const struct batch *row, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].id, id) == 0)
            return true;
    return false;
}

static void drop_others(struct batches *b, const struct batch *row, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < b->run.n; i++) {
        struct batch_run *r = b->run.at[i];
        if (!r->is_over && is_among(row, n, r->batch.id))
            b->run.at[k++] = r;
        else
            run_free(r);
    }
    b->run.n = k;
}

/* What the store says of those that are to be worked on; clients may have changed it. */
static void see_rows(struct batches *b)
{
    struct arena a;
    struct batch *row;
    struct err e = ERR_INIT;
    size_t n;
    arena_init(&a, LOOK_ARENA);
    b->rests = store_batch_open(b->opt.store, (int64_t)time(NULL), RUNS_MAX, &a, &row, &n, &e);
    if (b->rests) {
        log_event(LOG_ERROR, "batches cannot be read", LOG_TEXT("why", e.msg));
        arena_release(&a);
        return;
    }
    drop_others(b, row, n);
    for (size_t i = 0; i < n; i++) {
        struct batch_run *r = find(b, row[i].id);
        if (!r) {
            vec_push(&b->run, run_new(b, &row[i]));
        } else if (row[i].state == BATCH_CANCELLING) {
            r->rest_us = r->batch.state == BATCH_CANCELLING ? r->rest_us : 0;
            r->batch.state = BATCH_CANCELLING;
            r->batch.at[BATCH_CANCELLING] = row[i].at[BATCH_CANCELLING];
        }
    }
    for (size_t i = 0; i < b->run.n; i++)
        see_owner(b->run.at[i]);
    metrics_set(b->opt.metrics, METRIC_batches, 0, (int64_t)b->run.n);
    arena_release(&a);
}

/* ---- one of them ----------------------------------------------------------------------------- */

static int fail_file(struct batch_run *r, const struct api_error *fault, int64_t line,
                     struct err *e)
{
    batch_fault(r, fault, line);
    return batch_end(r, BATCH_FAILED, NULL, NULL, e);
}

static int open_log(struct batch_run *r, int64_t n_line, struct err *e)
{
    char *path = batch_log_path(r);
    int rc = batch_log_init(&r->log, path, (size_t)n_line, &r->batch, e);
    free(path);
    if (rc || batch_see_quota(r, e)) {
        batch_log_release(&r->log);
        return -1;
    }
    r->batch.n_line = n_line;
    r->is_open = true;
    return 0;
}

/* The file is not as it was, and the log has answers: those are its owner's. */
static int fail_begun(struct batch_run *r, const struct api_error *fault, int64_t line,
                      struct err *e)
{
    if (open_log(r, r->batch.n_line, e))
        return -1;
    if (!fail_file(r, fault, line, e))
        return 0;
    r->is_open = false; /* there is no input to go on with */
    batch_log_release(&r->log);
    return -1;
}

static int open_input(struct batch_run *r, struct err *e)
{
    struct api_error fault;
    int64_t line;
    batch_input_release(&r->input); /* of an attempt that failed behind it */
    int rc = batch_input_init(&r->input, r->all->opt.store, &r->batch, &fault, &line, e);
    if (rc <= 0)
        return rc;
    batch_input_release(&r->input);
    return r->batch.state == BATCH_VALIDATING ? fail_file(r, &fault, line, e)
                                              : fail_begun(r, &fault, line, e);
}

static int validate(struct batch_run *r, struct err *e)
{
    if (open_input(r, e) || r->is_over)
        return r->is_over ? 0 : -1;
    if (batch_check(r, e))
        return -1;
    if (r->batch.errors)
        return batch_end(r, BATCH_FAILED, NULL, NULL, e);
    if (batch_move(r, BATCH_IN_PROGRESS, 1u << BATCH_VALIDATING, e))
        return -1;
    r->is_over = true; /* it comes back when it is its owner's turn */
    log_event(LOG_INFO, "batch begins", LOG_TEXT("batch", r->batch.id),
              LOG_INT("requests", r->batch.n_line));
    return 0;
}

static int open_run(struct batch_run *r, struct err *e)
{
    if (open_input(r, e) || r->is_over)
        return r->is_over ? 0 : -1;
    if (open_log(r, (int64_t)r->input.line.n, e))
        return -1;
    r->has_news = true;
    if (r->batch.state == BATCH_FINALIZING && r->log.n_answered < r->log.n_line)
        return batch_move(r, BATCH_IN_PROGRESS, 1u << BATCH_FINALIZING, e); /* answers were lost */
    return 0;
}

static int fail_quota(struct batch_run *r, struct err *e)
{
    struct api_error fault;
    api_fail(&fault, 400, "files_quota_exceeded", NULL,
             "The files of this API key have as many bytes as they may have: what was answered "
             "until then is in the files of this batch.");
    return fail_file(r, &fault, 0, e);
}

/* All is answered, and that is on the disk before the row says so: a batch that is finalizing
 * begins no line. */
static int finalize(struct batch_run *r, struct err *e)
{
    return batch_log_sync(&r->log, e) || batch_move(r, BATCH_FINALIZING, 1u << BATCH_IN_PROGRESS, e)
               ? -1
               : 0;
}

/* True: its end is due, and was tried; rc says with what. */
static bool comes_to_end(struct batch_run *r, int *rc, struct err *e)
{
    const struct batch *b = &r->batch;
    if (b->state == BATCH_CANCELLING)
        *rc = batch_end(r, BATCH_CANCELLED, "batch_cancelled",
                        "This request was not executed: its batch was cancelled.", e);
    else if (r->is_open && r->log.n_answered == r->log.n_line)
        *rc = (b->state == BATCH_IN_PROGRESS && finalize(r, e)) ||
                      batch_end(r, BATCH_COMPLETED, NULL, NULL, e)
                  ? -1
                  : 0;
    else if (b->expires <= (int64_t)time(NULL))
        *rc = batch_end(r, BATCH_EXPIRED, "batch_expired",
                        "This request could not be executed before the completion window expired.",
                        e);
    else if (r->bytes_left <= 0)
        *rc = fail_quota(r, e);
    else
        return false;
    return true;
}

/* What an attempt that failed has left in the batch goes with its texts. */
static void begin_attempt(struct batch_run *r)
{
    r->batch.errors = NULL;
    if (!r->batch.at[BATCH_IN_PROGRESS]) /* else it is the row's */
        r->batch.model = NULL;
    arena_reset(&r->attempt);
}

static int go_on(struct batch_run *r, int64_t now, struct err *e)
{
    int rc = 0;
    begin_attempt(r);
    if (r->batch.state == BATCH_VALIDATING)
        return validate(r, e);
    if (!r->is_open && (r->batch.at[BATCH_IN_PROGRESS] || r->batch.state == BATCH_IN_PROGRESS)) {
        if (open_run(r, e) || r->is_over)
            return r->is_over ? 0 : -1;
    }
    if (r->is_open && batch_log_write(&r->log, e))
        return -1;
    if (comes_to_end(r, &rc, e))
        return rc;
    if (!r->has_news || now - r->told_us < TELL_US)
        return 0;
    r->told_us = now;
    return batch_log_sync(&r->log, e) || batch_tell(r, 1u << BATCH_IN_PROGRESS, e) ? -1 : 0;
}

/* What cannot be done now is tried again: a disk may have room then. Where a client changed the
 * row meanwhile that is seen first. */
void batch_rest(struct batch_run *r, const struct err *e)
{
    if (clock_us() < r->rest_us)
        return;
    int64_t longer = r->rested_us < REST_US_MAX / 2 ? 2 * r->rested_us : REST_US_MAX;
    r->rested_us = r->rested_us ? longer : REST_US;
    r->rest_us = clock_us() + r->rested_us;
    if (e->code != ERR_BUSY && !r->says_rest)
        log_event(LOG_ERROR, "a batch rests", LOG_TEXT("batch", r->batch.id),
                  LOG_TEXT("why", e->msg));
    r->says_rest |= e->code != ERR_BUSY;
}

static void bring_on(struct batch_run *r)
{
    struct err e = ERR_INIT;
    int64_t now = clock_us();
    if (r->is_over || now < r->rest_us)
        return;
    if (go_on(r, now, &e)) {
        batch_rest(r, &e);
        return;
    }
    if (!r->is_full) {
        r->says_rest = false;
        r->rested_us = 0;
    }
    if (r->is_over && r->batch.state != BATCH_IN_PROGRESS)
        log_event(LOG_INFO, "batch ended", LOG_TEXT("batch", r->batch.id),
                  LOG_INT("answers", r->batch.n_good), LOG_INT("errors", r->batch.n_bad));
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A batch that cannot write down what it has begins no further line. */
static bool may_begin(const struct batch_run *r, int64_t now)
{
    return r->is_open && !r->is_over && r->has_key && r->batch.state == BATCH_IN_PROGRESS &&
           now >= r->rest_us && r->bytes_left > 0 && r->next < r->log.n_line &&
           r->batch.expires > (int64_t)time(NULL);
}

/* In turns, until no place is free or no batch has a line. */
static void begin_lines(struct batches *b)
{
    int64_t now = clock_us();
    size_t n_idle = 0;
    while (now >= b->hold_us && b->flight.n < b->opt.at_once && n_idle < b->run.n) {
        struct batch_run *r = b->run.at[b->turn++ % b->run.n];
        struct err e = ERR_INIT;
        int rc = may_begin(r, now) ? batch_flight_begin(r, &e) : 1;
        if (rc < 0)
            batch_rest(r, &e);
        n_idle = rc ? n_idle + 1 : 0;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool has_woken(const struct batches *b)
{
    for (size_t i = 0; i < b->flight.n; i++)
        if (b->flight.at[i]->is_woken)
            return true;
    return false;
}

static bool has_over(const struct batches *b)
{
    for (size_t i = 0; i < b->run.n; i++)
        if (b->run.at[i]->is_over)
            return true;
    return false;
}

/* False: it stops. Rows are looked at again now and then: time brings ends and turns. */
static bool sleep_for_mail(struct batches *b, bool *looks)
{
    int64_t until_ns = clock_ns() + TICK_NS;
    bool is_late = false;
    *looks = has_over(b) && !b->rests;
    pthread_mutex_lock(&b->lock);
    while (!b->stops && !b->has_mail && !*looks && !has_woken(b) && !is_late) {
        if (b->run.n || b->rests)
            is_late = !clock_cond_wait(&b->wake, &b->lock, until_ns);
        else
            pthread_cond_wait(&b->wake, &b->lock);
    }
    *looks |= b->has_mail || is_late;
    b->has_mail = false;
    bool goes_on = !b->stops;
    pthread_mutex_unlock(&b->lock);
    return goes_on;
}

/* What was answered is kept; nobody is told anything else. */
static void put_away(struct batch_run *r)
{
    struct err e = ERR_INIT;
    batch_flights_drop(r);
    if (r->is_open && !r->is_over &&
        (batch_log_write(&r->log, &e) || batch_log_sync(&r->log, &e) ||
         batch_tell(r, 1u << BATCH_IN_PROGRESS, &e)) &&
        e.code != ERR_BUSY)
        log_event(LOG_ERROR, "a batch's last answers are asked again",
                  LOG_TEXT("batch", r->batch.id), LOG_TEXT("why", e.msg));
    run_free(r);
}

static void *batches_main(void *arg)
{
    struct batches *b = arg;
    bool looks = true;
    do {
        if (looks)
            see_rows(b);
        batch_flights_look(b);
        for (size_t i = 0; i < b->run.n; i++)
            bring_on(b->run.at[i]);
        begin_lines(b);
    } while (sleep_for_mail(b, &looks));
    for (size_t i = 0; i < b->run.n; i++)
        put_away(b->run.at[i]);
    b->run.n = 0;
    pthread_mutex_lock(&b->lock);
    while (b->n_live)
        pthread_cond_wait(&b->wake, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Of a batch that ended, and was killed before they were removed, its answers go. Those of one that
 * the store never heard of may be all that is left of a store that an older one replaced. */
static int sweep_one(struct batches *b, const char *name, struct err *e)
{
    const struct data_dir *d = store_dir(b->opt.store);
    bool is_there, is_open;
    if (store_batch_has(b->opt.store, name, &is_there, e) ||
        store_batch_is_open(b->opt.store, name, &is_open, e))
        return -1;
    return is_open    ? 0
           : is_there ? data_remove(d, DATA_BATCHES, name, e)
                      : data_set_aside(d, DATA_BATCHES, name, "no row names this batch", e);
}

static void sweep(struct batches *b)
{
    struct err e = ERR_INIT;
    size_t n = strlen(b->opt.dir) + strlen(data_folder_name(DATA_BATCHES)) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", b->opt.dir, data_folder_name(DATA_BATCHES));
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (data_is_our_name(entry->d_name) && sweep_one(b, entry->d_name, &e))
            log_event(LOG_WARN, "answers of a batch stay", LOG_TEXT("why", e.msg));
    if (dir)
        closedir(dir);
    free(path);
}

struct batches *batches_new(const struct batches_options *o, struct err *e)
{
    struct batches *b = xcalloc(1, sizeof *b);
    b->opt = *o;
    pthread_mutex_init(&b->lock, NULL);
    clock_cond_init(&b->wake);
    sweep(b);
    b->has_thread = !pthread_create(&b->thread, NULL, batches_main, b);
    if (b->has_thread)
        return b;
    err_set(e, ERR_NO_MEMORY, "the thread of batches cannot be started");
    batches_free(b);
    return NULL;
}

void batches_wake(struct batches *b)
{
    pthread_mutex_lock(&b->lock);
    b->has_mail = true;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

void batches_stop(struct batches *b)
{
    if (!b || !b->has_thread)
        return;
    pthread_mutex_lock(&b->lock);
    b->stops = true;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    b->has_thread = false;
}

void batches_free(struct batches *b)
{
    if (!b)
        return;
    batches_stop(b);
    vec_release(&b->run);
    vec_release(&b->flight);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
