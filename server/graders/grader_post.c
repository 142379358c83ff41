/* SPDX-License-Identifier: Apache-2.0
 *
 * A request over HTTP to an address that is allowed. libcurl follows nothing by itself and takes no
 * proxy from the environment: what was allowed is what is asked. A fault that may pass (nobody
 * there, status 408, 429, 5xx) is tried again, later each time.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/curl_lib.h"
#include "server/graders/graders_own.h"

enum {
    TRIES = 6,
    REST_MS = 100, /* doubled with each try */
    RETRY_MAX_S = 60,
    CONNECT_MS = 10000,
    LEAST_MS = 10, /* of a try: curl ends the last one up to a millisecond early */
    LINE_BYTES = 8192,
    SAID_BYTES = 200,
    STATUS_MOVED = 300,
    STATUS_BAD = 400,
    STATUS_TIMEOUT = 408,
    STATUS_BUSY = 429,
    STATUS_BROKEN = 500
};

struct post {
    const struct grader_question *q; /* borrowed */
    const struct curl_lib *curl;     /* borrowed */
    CURL *easy;                      /* owned */
    struct curl_slist *headers;      /* owned */
    struct buf *out;                 /* borrowed */
    char text[CURL_ERROR_SIZE];
};

static size_t on_body(char *at, size_t size, size_t n, void *ctx)
{
    struct post *p = ctx;
    return buf_add(p->out, at, size * n) ? CURL_WRITEFUNC_ERROR : size * n;
}

static int on_tick(void *ctx, curl_off_t all, curl_off_t done, curl_off_t up, curl_off_t sent)
{
    const struct post *p = ctx;
    (void)all, (void)done, (void)up, (void)sent;
    return grader_is_ended(p->q);
}

static void add_header(struct post *p, const char *name, const char *value)
{
    p->headers = curl_lib_header(p->curl, p->headers, name, value);
}

/* The operator's key goes along unless the grader has one of its own. */
static void add_headers(struct post *p, const char *key)
{
    bool has_key = false;
    add_header(p, "Content-Type", "application/json");
    add_header(p, "User-Agent", "tandem");
    for (size_t i = 0; i < p->q->n_header; i++) {
        has_key = has_key || !strcasecmp(p->q->header[i].name, "Authorization");
        add_header(p, p->q->header[i].name, p->q->header[i].value);
    }
    struct curl_slist *more = p->curl->slist_append(p->headers, "Expect:");
    p->headers = more ? more : p->headers;
    if (key && !has_key) {
        struct buf bearer;
        buf_init(&bearer, LINE_BYTES);
        buf_printf(&bearer, "Bearer %s", key);
        add_header(p, "Authorization", bearer.data ? bearer.data : "");
        buf_release(&bearer);
    }
    p->curl->easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
}

static void set_up(struct post *p, int64_t left_ms)
{
    const struct curl_lib *c = p->curl;
    c->easy_setopt(p->easy, CURLOPT_URL, p->q->url);
    c->easy_setopt(p->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    c->easy_setopt(p->easy, CURLOPT_PATH_AS_IS, 1L);
    c->easy_setopt(p->easy, CURLOPT_FOLLOWLOCATION, 0L);
    c->easy_setopt(p->easy, CURLOPT_PROXY, "");
    c->easy_setopt(p->easy, CURLOPT_NOSIGNAL, 1L);
    c->easy_setopt(p->easy, CURLOPT_ERRORBUFFER, p->text);
    c->easy_setopt(p->easy, CURLOPT_NOPROGRESS, 0L);
    c->easy_setopt(p->easy, CURLOPT_XFERINFOFUNCTION, on_tick);
    c->easy_setopt(p->easy, CURLOPT_XFERINFODATA, p);
    c->easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->easy_setopt(p->easy, CURLOPT_WRITEDATA, p);
    c->easy_setopt(p->easy, CURLOPT_POST, 1L);
    c->easy_setopt(p->easy, CURLOPT_POSTFIELDS, p->q->body);
    c->easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->q->n_body);
    c->easy_setopt(p->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    c->easy_setopt(p->easy, CURLOPT_CONNECTTIMEOUT_MS,
                   (long)(left_ms < CONNECT_MS ? left_ms : CONNECT_MS));
}

static int64_t retry_ms(const struct post *p)
{
    struct curl_header *found;
    if (p->curl->easy_header(p->easy, "Retry-After", 0, CURLH_HEADER, -1, &found) != CURLHE_OK)
        return 0;
    long s = strtol(found->value, NULL, 10);
    return s < 0 ? 0 : (s > RETRY_MAX_S ? RETRY_MAX_S : s) * 1000;
}

static int judge_status(const struct post *p, long status, struct err *e)
{
    enum err_code code =
        status == STATUS_TIMEOUT || status == STATUS_BUSY || status >= STATUS_BROKEN
            ? ERR_BUSY
            : ERR_BAD_INPUT;
    if (status < STATUS_MOVED)
        return 0;
    return err_set(e, code, "status %ld%s%s%.*s", status,
                   status < STATUS_BAD ? ", and redirects are not followed" : "",
                   p->out->len ? ": " : "",
                   (int)(p->out->len < SAID_BYTES ? p->out->len : SAID_BYTES),
                   p->out->data ? p->out->data : "");
}

/* ERR_BUSY: another try may help. */
static int try_once(struct post *p, const char *key, int64_t left_ms, int64_t *rest_ms,
                    struct err *e)
{
    long status = 0;
    p->easy = p->curl->easy_init();
    p->headers = NULL;
    p->text[0] = 0;
    buf_clear(p->out);
    if (!p->easy)
        return err_set(e, ERR_NO_MEMORY, "no memory for a connection");
    set_up(p, left_ms);
    add_headers(p, key);
    CURLcode rc = p->curl->easy_perform(p->easy);
    p->curl->easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    *rest_ms = retry_ms(p);
    int bad = rc == CURLE_OK ? judge_status(p, status, e)
              : p->out->failed
                  ? err_set(e, ERR_TOO_LARGE, "the answer is too long")
                  : err_set(e, ERR_BUSY, "%s", *p->text ? p->text : p->curl->easy_strerror(rc));
    p->curl->slist_free_all(p->headers);
    p->curl->easy_cleanup(p->easy);
    return bad;
}

int grader_post(struct graders *g, const struct grader_question *q, int64_t until_us,
                struct buf *out, struct err *e)
{
    struct post p = {.q = q, .curl = curl_lib_get(e), .out = out};
    const struct grader_allowed *at = graders_find(g, q->url);
    if (!p.curl)
        return -1;
    for (int i = 0; i < TRIES; i++) {
        int64_t left = (until_us - clock_us()) / 1000, rest = 0;
        if (left < LEAST_MS)
            return err_set(e, ERR_BUSY, "no answer in time");
        if (!try_once(&p, at ? at->key : NULL, left, &rest, e))
            return 0;
        int64_t least = (int64_t)REST_MS << i;
        if (e->code != ERR_BUSY || !grader_rest(q, rest > least ? rest : least, until_us))
            return -1;
    }
    return -1;
}
