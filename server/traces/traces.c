/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffer and the thread that empties it: some seconds after a span came, or at once where there
 * are many. What a collector refuses for now is offered to it again; what came meanwhile waits.
 */
#include "server/traces/traces.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/curl_post.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

enum {
    BUFFER_BYTES = 4 << 20,
    SEND_BYTES = 512 << 10, /* are sent without waiting for more */
    REST_S = 2,
    TIMEOUT_MS = 5000,
    LAST_MS = 500, /* that a stop waits for what is under way */
    TRIES = 3,
    HEADER_BYTES = 8192,
    STATUS_GOOD = 200,
    STATUS_MOVED = 300,
    STATUS_BUSY = 429,
    STATUS_BROKEN = 500
};

struct traces {
    char url[TRACE_URL_BYTES];
    const char *service; /* borrowed, as headers */
    const char *headers;
    double share;
    const struct curl_lib *curl; /* borrowed */
    struct curl_slist *list;     /* owned: headers of each request */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool runs;
    struct buf spans; /* under the lock, as those behind it */
    int64_t n_lost;   /* since the log was told */
    bool is_over;
    int64_t last_us; /* of a stop: when nothing is waited for any more */
    bool is_failing; /* the thread's: the log knows it */
};

const char *traces_endpoint(const char *option)
{
    const char *env = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (option && *option)
        return option;
    return env && *env ? env : NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Whether the server stops, and has waited long enough. */
static bool is_late(void *ctx)
{
    struct traces *t = ctx;
    pthread_mutex_lock(&t->lock);
    bool is = t->is_over && clock_us() > t->last_us;
    pthread_mutex_unlock(&t->lock);
    return is;
}

static long post(struct traces *t, const struct buf *body, char text[CURL_ERROR_SIZE])
{
    const struct curl_post p = {.url = t->url,
                                .headers = t->list,
                                .body = body->data,
                                .n_body = body->len,
                                .timeout_ms = TIMEOUT_MS,
                                .is_late = is_late,
                                .ctx = t};
    return curl_post(t->curl, &p, text);
}

/* False: it is the end. */
static bool rest(struct traces *t, int seconds)
{
    int64_t until_ns = clock_ns() + (int64_t)seconds * 1000000000;
    while (!t->is_over && clock_cond_wait(&t->wake, &t->lock, until_ns))
        continue;
    return !t->is_over;
}

static bool is_worth_a_try(long status)
{
    return status == 0 || status == STATUS_BUSY || status >= STATUS_BROKEN;
}

static void tell(struct traces *t, bool is_good, long status, const char *text)
{
    if (is_good == !t->is_failing)
        return;
    t->is_failing = !is_good;
    if (is_good)
        log_event(LOG_INFO, "traces are taken again", LOG_TEXT("endpoint", t->url));
    else
        log_event(LOG_WARN, "traces are lost: the collector does not take them",
                  LOG_TEXT("endpoint", t->url), LOG_INT("status", status), LOG_TEXT("error", text));
}

/* Called with the lock, which is not held meanwhile. */
static void send_spans(struct traces *t)
{
    struct buf body = t->spans;
    char text[CURL_ERROR_SIZE] = "";
    long status = 0;
    int64_t lost = t->n_lost;
    bool goes_on = true;
    buf_init(&t->spans, BUFFER_BYTES);
    trace_write_head(&t->spans, t->service);
    t->n_lost = 0;
    body.max_bytes += SEND_BYTES; /* for the tail */
    trace_write_tail(&body);
    for (int i = 0; i < TRIES && goes_on; i++) {
        pthread_mutex_unlock(&t->lock);
        status = post(t, &body, text);
        pthread_mutex_lock(&t->lock);
        goes_on = is_worth_a_try(status) && rest(t, 1 << i);
    }
    tell(t, status >= STATUS_GOOD && status < STATUS_MOVED, status, text);
    if (lost)
        log_event(LOG_WARN, "spans of requests were lost: more came than could be sent",
                  LOG_INT("requests", lost));
    buf_release(&body);
}

static bool has_spans(const struct traces *t)
{
    return t->spans.len && t->spans.data[t->spans.len - 1] == '}';
}

static void *run(void *arg)
{
    struct traces *t = arg;
    pthread_mutex_lock(&t->lock);
    for (bool goes_on = true; goes_on;) {
        while (!t->is_over && !has_spans(t))
            pthread_cond_wait(&t->wake, &t->lock);
        if (t->spans.len < SEND_BYTES)
            goes_on = rest(t, REST_S);
        goes_on = goes_on && !t->is_over;
        if (has_spans(t) && !(t->is_over && t->is_failing))
            send_spans(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A value may be escaped, as in a URL. */
static void unescape(char *s)
{
    char *to = s;
    unsigned c;
    for (; *s; s++)
        if (*s == '%' && sscanf(s + 1, "%2x", &c) == 1 && c) {
            *to++ = (char)c;
            s += s[2] ? 2 : 1;
        } else {
            *to++ = *s;
        }
    *to = 0;
}

static int add_header(struct traces *t, char *name, struct err *e)
{
    name += strspn(name, " ");
    char *value = strchr(name, '=');
    if (!value || value == name)
        return err_set(e, ERR_BAD_INPUT,
                       "OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE,NAME=VALUE is expected");
    *value++ = 0;
    unescape(value);
    if (strpbrk(value, "\r\n") || strpbrk(name, "\r\n: "))
        return err_set(e, ERR_BAD_INPUT, "OTEL_EXPORTER_OTLP_HEADERS: %s is no header of one line",
                       name);
    t->list = curl_lib_header(t->curl, t->list, name, value);
    return 0;
}

static int add_headers(struct traces *t, const char *text, struct err *e)
{
    char own[HEADER_BYTES];
    t->list = curl_lib_header(t->curl, t->list, "Content-Type", "application/json");
    t->list = curl_lib_header(t->curl, t->list, "Expect", "");
    if (!text || !*text)
        return 0;
    if (strlen(text) >= sizeof own)
        return err_set(e, ERR_TOO_LARGE, "OTEL_EXPORTER_OTLP_HEADERS: at most %d bytes",
                       HEADER_BYTES - 1);
    snprintf(own, sizeof own, "%s", text);
    for (char *at = own, *next = own; next; at = next) {
        size_t n = strcspn(at, ",");
        next = at[n] ? at + n + 1 : NULL;
        at[n] = 0;
        if (add_header(t, at, e))
            return -1;
    }
    return 0;
}

static int begin(struct traces *t, const struct traces_options *o, struct err *e)
{
    struct url url;
    size_t n = strlen(o->endpoint);
    while (n && o->endpoint[n - 1] == '/')
        n--;
    if (url_parse(o->endpoint, &url, e))
        return err_wrap(e, "--otlp-endpoint %s", o->endpoint);
    if (snprintf(t->url, sizeof t->url, "%.*s/v1/traces", (int)n, o->endpoint) >=
        (int)sizeof t->url)
        return err_set(e, ERR_TOO_LARGE, "--otlp-endpoint: at most %d bytes", TRACE_URL_BYTES);
    if (!(t->curl = curl_lib_get(e)) || add_headers(t, o->headers, e))
        return -1;
    buf_init(&t->spans, BUFFER_BYTES);
    trace_write_head(&t->spans, t->service);
    pthread_mutex_init(&t->lock, NULL);
    clock_cond_init(&t->wake);
    errno = pthread_create(&t->thread, NULL, run, t);
    t->runs = errno == 0;
    return t->runs ? 0 : err_sys(e, "starting the thread that sends traces");
}

struct traces *traces_new(const struct traces_options *o, struct err *e)
{
    struct traces *t = xcalloc(1, sizeof *t);
    t->service = o->service && *o->service ? o->service : "tandem";
    t->share = o->share;
    if (begin(t, o, e)) {
        traces_free(t);
        return NULL;
    }
    return t;
}

void traces_free(struct traces *t)
{
    if (!t)
        return;
    if (t->runs) {
        pthread_mutex_lock(&t->lock);
        t->is_over = true;
        t->last_us = clock_us() + (int64_t)LAST_MS * 1000;
        pthread_cond_signal(&t->wake);
        pthread_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    if (t->list)
        t->curl->slist_free_all(t->list);
    buf_release(&t->spans);
    free(t);
}

void traces_add(struct traces *t, const struct http_record *r)
{
    struct trace_ids ids;
    if (!trace_begin(&ids, r->request->trace, t->share))
        return;
    pthread_mutex_lock(&t->lock);
    size_t before = t->spans.len;
    bool was_quiet = !has_spans(t);
    trace_write(&t->spans, &ids, r, clock_us(), clock_wall_us());
    if (t->spans.failed) { /* what is half there goes */
        t->spans.len = before;
        t->spans.data[before] = 0;
        t->spans.failed = t->spans.no_memory = false;
        t->n_lost++;
    }
    if (was_quiet || (before < SEND_BYTES && t->spans.len >= SEND_BYTES))
        pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}
