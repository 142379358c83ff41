/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs that are open, or have lines that were not taken yet, and the thread that sends them:
 * each some seconds behind the last time, the first time and at a job's end at once, and now and
 * then without lines, since a run of which nothing is heard is taken for dead.
 */
#include "server/wandb/wandb.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "api/wandb.h"
#include "engine/base/base64.h"
#include "engine/base/clock.h"
#include "engine/base/curl_post.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/url.h"

enum {
    KEY_BYTES_MAX = 1024,
    LINES_BYTES = 4 << 20,
    SUMMARY_BYTES = 32 << 10,
    BODY_BYTES = LINES_BYTES + (1 << 20),
    ANSWER_BYTES = 64 << 10,
    TIMEOUT_MS = 15000,
    LAST_MS = 500, /* that a stop waits for what is under way */
    REST_S = 5,    /* between two parts */
    BEAT_S = 30,   /* between two without lines */
    REST_MAX_S = 60,
    DOUBLINGS_MAX = 6,
    GIVEN_UP_S = 3600, /* behind a job's end */
    STATUS_GOOD = 200,
    STATUS_MOVED = 300,
    STATUS_REFUSED = 400,
    STATUS_TIMEOUT = 408,
    STATUS_BUSY = 429,
    STATUS_BROKEN = 500
};

struct wandb_run {
    struct wandb *wandb;            /* borrowed */
    struct wandb_run *next;         /* of all; under the lock, as what follows */
    char *id, *shown, *config;      /* owned; constant */
    struct wandb_numbers row, last; /* of the step at hand; of each name the newest */
    struct wandb_when when;
    int64_t begin_us;
    struct buf lines; /* that nobody has sent yet, commas between them */
    int64_t n_new, n_lost;
    bool is_closed;
    enum wandb_end end;
    int64_t closed_us, n_close; /* n_close: how often it was closed */
    struct wandb_place place;   /* the thread's, as what follows */
    struct buf sent;            /* lines that are offered until they are taken */
    int64_t n_sent;
    int tries;
    int64_t due_us, told_us;
    bool is_known, is_over;
};

struct wandb {
    char entity[WANDB_NAME_BYTES];
    const char *project;
    const char *url; /* borrowed; n_url: without slashes at its end */
    int n_url;
    const struct curl_lib *curl;
    struct curl_slist *headers; /* owned; has the key */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread;
    struct wandb_run *runs; /* owned; under the lock, as what follows */
    bool is_over;
    int64_t last_us; /* of a stop: when nothing is waited for any more */
};

const char *wandb_url(const char *option)
{
    const char *env = getenv("WANDB_BASE_URL");
    if (option && *option)
        return option;
    return env && *env ? env : "https://api.wandb.ai";
}

/* ---- sending ------------------------------------------------------------------------------- */

static bool is_late(void *ctx)
{
    struct wandb *w = ctx;
    pthread_mutex_lock(&w->lock);
    bool is = w->is_over && clock_us() > w->last_us;
    pthread_mutex_unlock(&w->lock);
    return is;
}

/* The status; 0: nobody answered, and text says why. */
static long post(struct wandb *w, const char *path, const struct buf *body, struct buf *answer,
                 char text[CURL_ERROR_SIZE])
{
    struct buf url;
    buf_init(&url, URL_PATH_BYTES * 4);
    buf_printf(&url, "%.*s%s", w->n_url, w->url, path);
    const struct curl_post p = {.url = url.data ? url.data : "",
                                .headers = w->headers,
                                .body = body->data,
                                .n_body = body->len,
                                .answer = answer,
                                .timeout_ms = TIMEOUT_MS,
                                .is_late = is_late,
                                .ctx = w};
    long status = curl_post(w->curl, &p, text);
    buf_release(&url);
    return status;
}

static bool is_good(long status)
{
    return status >= STATUS_GOOD && status < STATUS_MOVED;
}

/* Makes the run, or finds it. */
static long tell_run(struct wandb_run *r, char text[CURL_ERROR_SIZE])
{
    struct wandb *w = r->wandb;
    struct err e = ERR_INIT;
    struct buf body, answer;
    buf_init(&body, BODY_BYTES);
    buf_init(&answer, ANSWER_BYTES);
    wandb_write_run(&(struct wandb_run_names){.entity = *w->entity ? w->entity : NULL,
                                              .project = w->project,
                                              .run = r->id,
                                              .shown = r->shown,
                                              .config = r->config},
                    &body);
    long status = post(w, "/graphql", &body, &answer, text);
    if (is_good(status) && wandb_read_run(answer.data, answer.len, &r->place, &e)) {
        snprintf(text, CURL_ERROR_SIZE, "%.200s", e.msg);
        status = STATUS_REFUSED;
    }
    r->is_known = is_good(status);
    buf_release(&body);
    buf_release(&answer);
    return status;
}

/* What of a run is told next, as it is when the lock is given up: a job may go on with it, and end
 * otherwise, before that is taken. */
struct offer {
    bool is_lines, is_end;
    enum wandb_end end;
    int64_t n_close;
    struct buf summary;
};

static long tell_lines(struct wandb_run *r, const struct offer *o, char text[CURL_ERROR_SIZE])
{
    struct buf body, path;
    buf_init(&body, BODY_BYTES);
    buf_init(&path, URL_PATH_BYTES * 4);
    wandb_write_path(&r->place, r->id, &path);
    wandb_write_part(&(struct wandb_part){.first = r->place.n_line,
                                          .lines = r->n_sent ? r->sent.data : NULL,
                                          .summary = o->summary.data,
                                          .is_end = o->is_end && o->end != WANDB_HALTED,
                                          .has_failed = o->end == WANDB_FAILED},
                     &body);
    long status = path.data ? post(r->wandb, path.data, &body, NULL, text) : 0;
    buf_release(&body);
    buf_release(&path);
    return status;
}

/* ---- what came of it ----------------------------------------------------------------------- */

static void log_lost(const struct wandb_run *r, long status, const char *text)
{
    log_event(LOG_WARN, "a job's numbers are not sent to Weights & Biases any more",
              LOG_TEXT("job", r->id), LOG_INT("status", status), LOG_TEXT("error", text));
}

static void went_well(struct wandb_run *r, const struct offer *o)
{
    if (r->tries)
        log_event(LOG_INFO, "Weights & Biases takes a job's numbers again", LOG_TEXT("job", r->id));
    r->tries = 0;
    if (!o->is_lines)
        return;
    r->told_us = clock_us();
    r->place.n_line += r->n_sent;
    r->n_sent = 0;
    buf_clear(&r->sent);
    r->is_over = o->is_end && r->is_closed && r->n_close == o->n_close;
}

/* What may pass is tried again, as long as the job runs, and for a while behind it. */
static void went_wrong(struct wandb_run *r, long status, const char *text)
{
    int64_t now = clock_us(),
            rest_s = r->tries < DOUBLINGS_MAX ? INT64_C(1) << r->tries : REST_MAX_S;
    bool may_pass =
        status == 0 || status == STATUS_TIMEOUT || status == STATUS_BUSY || status >= STATUS_BROKEN;
    bool is_time =
        !r->wandb->is_over && (!r->is_closed || now - r->closed_us < (int64_t)GIVEN_UP_S * 1000000);
    r->is_over = !may_pass || !is_time;
    if (r->is_over)
        log_lost(r, status, text);
    else if (r->tries == 0)
        log_event(LOG_WARN, "Weights & Biases does not take a job's numbers",
                  LOG_TEXT("job", r->id), LOG_INT("status", status), LOG_TEXT("error", text));
    r->tries++;
    r->due_us = now + rest_s * 1000000;
}

/* Called with the lock, which is not held while somebody else is waited for. */
static void bring_on(struct wandb_run *r)
{
    struct wandb *w = r->wandb;
    struct offer o = {.is_lines = r->is_known};
    char text[CURL_ERROR_SIZE] = "";
    buf_init(&o.summary, SUMMARY_BYTES);
    if (o.is_lines && !r->n_sent && r->n_new) {
        struct buf taken = r->lines;
        r->lines = r->sent;
        r->sent = taken;
        r->n_sent = r->n_new;
        r->n_new = 0;
    }
    o.is_end = o.is_lines && r->is_closed && !r->n_new;
    o.end = r->end;
    o.n_close = r->n_close;
    if (o.is_lines && r->n_sent)
        wandb_write_line(&r->last, &r->when, &o.summary);
    pthread_mutex_unlock(&w->lock);
    long status = o.is_lines ? tell_lines(r, &o, text) : tell_run(r, text);
    pthread_mutex_lock(&w->lock);
    if (is_good(status))
        went_well(r, &o);
    else
        went_wrong(r, status, text);
    buf_release(&o.summary);
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* When there is something to say of it. */
static int64_t due_of(const struct wandb_run *r)
{
    if (r->is_over)
        return r->is_closed ? 0 : INT64_MAX;
    if (r->tries)
        return r->due_us;
    if (r->is_closed || !r->is_known)
        return 0;
    return r->told_us + (int64_t)(r->n_new ? REST_S : BEAT_S) * 1000000;
}

static struct wandb_run *first_due(struct wandb *w)
{
    struct wandb_run *first = w->runs;
    for (struct wandb_run *r = w->runs; r; r = r->next)
        first = due_of(r) < due_of(first) ? r : first;
    return first;
}

static void drop(struct wandb_run *r)
{
    struct wandb_run **at = &r->wandb->runs;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    buf_release(&r->lines);
    buf_release(&r->sent);
    free(r->id);
    free(r->shown);
    free(r->config);
    free(r);
}

static void *run(void *arg)
{
    struct wandb *w = arg;
    pthread_mutex_lock(&w->lock);
    while (w->runs || !w->is_over) {
        struct wandb_run *r = first_due(w);
        int64_t due = r ? due_of(r) : INT64_MAX;
        if (r && r->is_over && r->is_closed)
            drop(r);
        else if (r && (w->is_over || due <= clock_us()))
            bring_on(r);
        else if (due == INT64_MAX)
            pthread_cond_wait(&w->wake, &w->lock);
        else
            clock_cond_wait(&w->wake, &w->lock, due * 1000);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- a job's end of it --------------------------------------------------------------------- */

static struct wandb_run *new_run(struct wandb *w, const char *id, const char *shown,
                                 const char *config)
{
    struct wandb_run *r = xcalloc(1, sizeof *r);
    r->wandb = w;
    r->id = xstrdup(id);
    r->shown = xstrdup(shown);
    r->config = xstrdup(config);
    r->begin_us = clock_us();
    buf_init(&r->lines, LINES_BYTES);
    buf_init(&r->sent, LINES_BYTES);
    r->next = w->runs;
    w->runs = r;
    return r;
}

/* A job that halted, and whose lines are not all taken, goes on in the same run: a second one would
 * find fewer lines there, and take their places. */
struct wandb_run *wandb_open(struct wandb *w, const char *id, const char *shown, const char *config)
{
    pthread_mutex_lock(&w->lock);
    struct wandb_run *r = w->runs;
    while (r && (r->is_over || strcmp(r->id, id) != 0))
        r = r->next;
    if (!r)
        r = new_run(w, id, shown, config);
    r->is_closed = false;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    return r;
}

/* The step's line is whole. */
static void end_row(struct wandb_run *r)
{
    size_t before = r->lines.len;
    if (!r->row.n)
        return;
    if (before)
        buf_char(&r->lines, ',');
    wandb_write_line(&r->row, &r->when, &r->lines);
    r->row.n = 0;
    if (r->lines.failed) { /* what is half there goes */
        r->lines.len = before;
        r->lines.data[before] = 0;
        r->lines.failed = r->lines.no_memory = false;
        r->n_lost++;
        return;
    }
    r->n_new++;
    pthread_cond_signal(&r->wandb->wake);
}

static void set(void *ctx, const char *name, double value)
{
    struct wandb_run *r = ctx;
    wandb_set(&r->row, name, value);
    wandb_set(&r->last, name, value);
}

void wandb_add(struct wandb_run *r, int64_t step, const char *data)
{
    pthread_mutex_lock(&r->wandb->lock);
    if (step != r->when.step)
        end_row(r);
    r->when = (struct wandb_when){.step = step,
                                  .s = (double)clock_wall_us() / 1e6,
                                  .since_begin_s = (double)(clock_us() - r->begin_us) / 1e6};
    if (!r->is_over)
        job_metrics_each(data, set, r);
    pthread_mutex_unlock(&r->wandb->lock);
}

void wandb_close(struct wandb_run *r, enum wandb_end end)
{
    struct wandb *w = r->wandb;
    pthread_mutex_lock(&w->lock);
    end_row(r);
    if (r->n_lost)
        log_event(LOG_WARN, "numbers of a job were lost: more came than could be sent",
                  LOG_TEXT("job", r->id), LOG_INT("steps", r->n_lost));
    r->is_closed = true;
    r->n_close++;
    r->end = end;
    r->closed_us = clock_us();
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

/* ---- beginning and end --------------------------------------------------------------------- */

/* Of a file its first line. */
static int read_key(const char *path, struct buf *key, struct err *e)
{
    const char *env = getenv("WANDB_API_KEY");
    if (path && *path && fs_read(path, key, e))
        return err_wrap(e, "--wandb-key-file %s", path);
    if (!(path && *path))
        buf_str(key, env ? env : "");
    buf_char(key, 0);
    if (key->failed)
        return buf_check(key, "the key of Weights & Biases", e);
    key->len = strcspn(key->data, "\r\n");
    key->data[key->len] = 0;
    return key->len ? 0
                    : err_set(e, ERR_BAD_INPUT,
                              "--wandb: a key is needed, in --wandb-key-file or WANDB_API_KEY");
}

static int make_headers(struct wandb *w, const char *key_file, struct err *e)
{
    struct buf key, user, basic;
    buf_init(&key, KEY_BYTES_MAX);
    buf_init(&user, KEY_BYTES_MAX * 2);
    buf_init(&basic, KEY_BYTES_MAX * 4);
    int rc = read_key(key_file, &key, e);
    if (!rc) {
        buf_printf(&user, "api:%s", key.data);
        buf_str(&basic, "Basic ");
        base64_write(&basic, user.data, user.len);
        w->headers = curl_lib_header(w->curl, w->headers, "Authorization", basic.data);
        w->headers = curl_lib_header(w->curl, w->headers, "Content-Type", "application/json");
        w->headers = curl_lib_header(w->curl, w->headers, "User-Agent", "tandem");
        w->headers = curl_lib_header(w->curl, w->headers, "Expect", "");
    }
    buf_release(&key);
    buf_release(&user);
    buf_release(&basic);
    return rc;
}

static int begin(struct wandb *w, const struct wandb_options *o, struct err *e)
{
    struct url url;
    const char *slash = strchr(o->project, '/');
    size_t n = slash ? (size_t)(slash - o->project) : 0;
    w->project = slash ? slash + 1 : o->project;
    if (n >= sizeof w->entity || !*w->project || strchr(w->project, '/') || (slash && n == 0))
        return err_set(e, ERR_BAD_INPUT, "--wandb %.200s: PROJECT or ENTITY/PROJECT is expected",
                       o->project);
    memcpy(w->entity, o->project, n);
    if (url_parse(w->url, &url, e))
        return err_wrap(e, "--wandb-url %s", w->url);
    if (!(w->curl = curl_lib_get(e)) || make_headers(w, o->key_file, e))
        return -1;
    errno = pthread_create(&w->thread, NULL, run, w);
    w->has_thread = errno == 0;
    return w->has_thread ? 0 : err_sys(e, "starting the thread that tells Weights & Biases");
}

struct wandb *wandb_new(const struct wandb_options *o, struct err *e)
{
    struct wandb *w = xcalloc(1, sizeof *w);
    w->url = wandb_url(o->url);
    w->n_url = (int)strlen(w->url);
    while (w->n_url && w->url[w->n_url - 1] == '/')
        w->n_url--;
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->wake);
    if (!begin(w, o, e))
        return w;
    wandb_free(w);
    return NULL;
}

void wandb_free(struct wandb *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_over = true;
    w->last_us = clock_us() + (int64_t)LAST_MS * 1000;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    if (w->headers)
        w->curl->slist_free_all(w->headers);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
