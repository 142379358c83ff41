/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread: it tells what is due, one after the other, and rests until something else is.
 */
#include "server/webhooks/webhooks.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/jout.h"
#include "engine/base/clock.h"
#include "engine/base/curl_post.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/url.h"
#include "server/store/store_notice.h"

enum {
    SECRET_BYTES_MAX = 1024,
    BODY_BYTES_MAX = 4096,
    TIMEOUT_MS = 15000,
    REST_MAX_S = 3600, /* between two tries: 1 s, doubled up to this */
    GIVEN_UP_S = 3 * 24 * 3600,
    BROKEN_S = 10, /* a store that does not answer */
    STATUS_GOOD = 200,
    STATUS_MOVED = 300
};

struct webhooks {
    const char *url; /* borrowed */
    struct store *store;
    const struct curl_lib *curl;
    struct buf key; /* owned */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool runs;
    bool has_mail, is_over; /* under the lock */
};

/* ---- telling ------------------------------------------------------------------------------- */

static bool is_late(void *ctx)
{
    struct webhooks *w = ctx;
    pthread_mutex_lock(&w->lock);
    bool is = w->is_over;
    pthread_mutex_unlock(&w->lock);
    return is;
}

static int64_t now_s(void)
{
    return clock_wall_us() / 1000000;
}

static void write_body(const struct notice_row *n, struct buf *out)
{
    char type[64];
    struct jout j = jout_on(out);
    snprintf(type, sizeof type, "fine_tuning.job.%s", job_state_name(n->state));
    jout_open(&j, '{');
    jout_put_str(&j, "id", n->id);
    jout_put_str(&j, "object", "event");
    jout_put_int(&j, "created_at", n->created);
    jout_put_str(&j, "type", type);
    jout_key(&j, "data");
    jout_open(&j, '{');
    jout_put_str(&j, "id", n->job);
    jout_close(&j, '}');
    jout_close(&j, '}');
}

/* The status; 0: nobody answered, and text says why. */
static long post(struct webhooks *w, const struct notice_row *n, char text[CURL_ERROR_SIZE])
{
    char signature[WEBHOOK_SIGNATURE_BYTES], stamp[24];
    struct buf body;
    int64_t now = now_s();
    struct curl_slist *headers = NULL;
    buf_init(&body, BODY_BYTES_MAX);
    write_body(n, &body);
    webhook_sign(&w->key, n->id, now, body.data, signature);
    snprintf(stamp, sizeof stamp, "%" PRId64, now);
    headers = curl_lib_header(w->curl, headers, "Content-Type", "application/json");
    headers = curl_lib_header(w->curl, headers, "User-Agent", "tandem");
    headers = curl_lib_header(w->curl, headers, "webhook-id", n->id);
    headers = curl_lib_header(w->curl, headers, "webhook-timestamp", stamp);
    headers = curl_lib_header(w->curl, headers, "webhook-signature", signature);
    const struct curl_post p = {.url = w->url,
                                .headers = headers,
                                .body = body.data,
                                .n_body = body.len,
                                .timeout_ms = TIMEOUT_MS,
                                .is_late = is_late,
                                .ctx = w};
    long status = curl_post(w->curl, &p, text);
    w->curl->slist_free_all(headers);
    buf_release(&body);
    return status;
}

static int tell(struct webhooks *w, struct notice_row *n, struct err *e)
{
    char text[CURL_ERROR_SIZE] = "";
    long status = post(w, n, text);
    if (status >= STATUS_GOOD && status < STATUS_MOVED)
        return store_notice_drop(w->store, n->id, e);
    if (is_late(w))
        return 0;
    bool is_last = now_s() - n->created > GIVEN_UP_S;
    log_event(LOG_WARN, is_last ? "a webhook is given up" : "a webhook is not taken",
              LOG_TEXT("job", n->job), LOG_INT("tries", n->tries + 1), LOG_INT("status", status),
              LOG_TEXT("error", text));
    if (is_last)
        return store_notice_drop(w->store, n->id, e);
    n->due = now_s() + (n->tries < 12 ? INT64_C(1) << n->tries : REST_MAX_S);
    n->tries++;
    return store_notice_later(w->store, n, e);
}

/* All that is due. In how many seconds the next one is; -1: there is none. */
static int64_t tell_due(struct webhooks *w)
{
    int64_t wait_s = 0;
    while (!wait_s && !is_late(w)) {
        struct err e = ERR_INIT;
        struct notice_row n;
        struct arena a;
        arena_init(&a, BODY_BYTES_MAX);
        int rc = store_notice_next(w->store, &a, &n, &e);
        if (!rc && n.due > now_s())
            wait_s = n.due - now_s();
        else if (!rc)
            rc = tell(w, &n, &e);
        if (rc && e.code != ERR_NOT_FOUND)
            log_event(LOG_ERROR, "a webhook's row cannot be used", LOG_TEXT("why", e.msg));
        if (rc)
            wait_s = e.code == ERR_NOT_FOUND ? -1 : BROKEN_S;
        arena_release(&a);
    }
    return wait_s;
}

static void *run(void *arg)
{
    struct webhooks *w = arg;
    for (bool goes_on = true; goes_on;) {
        int64_t wait_s = tell_due(w), until_ns = clock_ns() + wait_s * 1000000000;
        bool is_time = false;
        pthread_mutex_lock(&w->lock);
        while (!w->has_mail && !w->is_over && !is_time)
            if (wait_s < 0)
                pthread_cond_wait(&w->wake, &w->lock);
            else
                is_time = !clock_cond_wait(&w->wake, &w->lock, until_ns);
        w->has_mail = false;
        goes_on = !w->is_over;
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static void wake(void *ctx)
{
    struct webhooks *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->has_mail = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static int read_key(struct webhooks *w, const char *path, struct err *e)
{
    struct buf text;
    buf_init(&text, SECRET_BYTES_MAX);
    int rc = fs_read(path, &text, e);
    if (!rc) {
        buf_char(&text, 0);
        text.data[strcspn(text.data, "\r\n")] = 0;
        rc = webhook_key(text.data, &w->key, e);
    }
    buf_release(&text);
    return rc ? err_wrap(e, "--webhook-secret-file %s", path) : 0;
}

static int begin(struct webhooks *w, const struct webhooks_options *o, struct err *e)
{
    struct url url;
    if (url_parse(o->url, &url, e))
        return err_wrap(e, "--webhook %s", o->url);
    if (!o->secret_file || !*o->secret_file)
        return err_set(e, ERR_BAD_INPUT,
                       "--webhook: --webhook-secret-file is needed, so that who "
                       "is told can see who tells it");
    if (read_key(w, o->secret_file, e) || !(w->curl = curl_lib_get(e)))
        return -1;
    store_notices_begin(w->store, wake, w);
    errno = pthread_create(&w->thread, NULL, run, w);
    w->runs = errno == 0;
    return w->runs ? 0 : err_sys(e, "starting the thread that tells of jobs");
}

struct webhooks *webhooks_new(const struct webhooks_options *o, struct err *e)
{
    struct webhooks *w = xcalloc(1, sizeof *w);
    w->url = o->url;
    w->store = o->store;
    buf_init(&w->key, SECRET_BYTES_MAX);
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->wake);
    if (!begin(w, o, e))
        return w;
    webhooks_free(w);
    return NULL;
}

void webhooks_free(struct webhooks *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_over = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->runs)
        pthread_join(w->thread, NULL);
    store_notices_begin(w->store, NULL, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    buf_release(&w->key);
    free(w);
}
