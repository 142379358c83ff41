/* SPDX-License-Identifier: Apache-2.0
 *
 * A transfer is one hop: libcurl follows nothing by itself, and speaks http and https alone.
 */
#include "clients/hub/http.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/curl_lib.h"
#include "engine/base/mem.h"

enum {
    CONNECT_S = 20,
    STALL_S = 60, /* without a byte */
    HOPS_MAX = 5,
    URL_BYTES_MAX = 16 << 10,
    PAGE_BYTES_MAX = 64 << 10, /* of a page for people, which nobody reads */
    SAID_BYTES = 300,
    RETRY_MAX_S = 300,
    TRIES = 5,     /* that come no further */
    WAIT_MS = 200, /* doubled before each of them */
    STOP_MS = 100, /* after which a stop is seen */
    STATUS_GOOD = 200,
    STATUS_PART = 206,
    STATUS_MOVED = 300,
    STATUS_BAD = 400
};

struct hub_http {
    const struct hub_place *place; /* borrowed */
    const atomic_bool *stop;       /* borrowed */
    const struct curl_lib *curl;   /* borrowed */
    CURL *easy;                    /* owned */
    struct curl_slist *headers;    /* owned */
    const struct hub_sink *sink;   /* of the request under way */
    int64_t from;
    bool has_begun;
    size_t n_page;  /* bytes of a page for people */
    struct err why; /* the sink's */
    char text[CURL_ERROR_SIZE];
};

struct hub_http *hub_http_new(const struct hub_place *p, const atomic_bool *stop, struct err *e)
{
    const struct curl_lib *curl = curl_lib_get(e);
    if (!curl)
        return NULL;
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != 0) {
        err_set(e, ERR_IO, "libcurl could not be made ready");
        return NULL;
    }
    struct hub_http *h = xcalloc(1, sizeof *h);
    *h = (struct hub_http){.place = p, .stop = stop, .curl = curl, .easy = curl->easy_init()};
    if (h->easy)
        return h;
    err_set(e, ERR_NO_MEMORY, "no memory for a connection");
    hub_http_free(h);
    return NULL;
}

void hub_http_free(struct hub_http *h)
{
    if (!h)
        return;
    h->curl->slist_free_all(h->headers);
    h->curl->easy_cleanup(h->easy);
    h->curl->global_cleanup();
    free(h);
}

void hub_http_escape(struct buf *out, const char *path, bool keeps_slashes)
{
    for (const char *s = path; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) || (c == '/' && keeps_slashes))
            buf_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

/* ---- what an answer says ---- */

static const char *header(const struct hub_http *h, const char *name)
{
    struct curl_header *found;
    return h->curl->easy_header(h->easy, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK
               ? found->value
               : NULL;
}

/* "abc", W/"abc" or abc, where it is a hash. */
static void take_hash(const char *tag, char hash[HUB_HASH_BYTES])
{
    tag += !strncmp(tag, "W/", 2) ? 2 : 0;
    tag += *tag == '"';
    size_t n = strspn(tag, "0123456789abcdef");
    bool ends = !tag[n] || !strcmp(tag + n, "\"");
    if (ends && (n == 64 || n == 40)) {
        memcpy(hash, tag, n);
        hash[n] = 0;
    }
}

/* A number of bytes or seconds, or -1. */
static int64_t number(const char *text)
{
    char *end;
    if (!text || !isdigit((unsigned char)*text) || strlen(text) > 18)
        return -1;
    long long n = strtoll(text, &end, 10);
    return *end ? -1 : n;
}

/* The first answer that says a thing counts; whether it says where the file is kept, so that what
 * it leads to is asked for bytes alone. */
static bool take_said(const struct hub_http *h, struct hub_said *said, long status)
{
    const char *linked = header(h, "X-Linked-Etag"), *tag = header(h, "ETag");
    int64_t retry = number(header(h, "Retry-After"));
    said->status = (int)status;
    said->retry_s = retry < 0 ? 0 : retry > RETRY_MAX_S ? RETRY_MAX_S : (int)retry;
    if (linked && !*said->hash) {
        take_hash(linked, said->hash);
        said->size = number(header(h, "X-Linked-Size"));
        return true;
    }
    if (status < STATUS_MOVED && !*said->hash) {
        if (tag)
            take_hash(tag, said->hash);
        if (said->size < 0)
            said->size = number(header(h, "Content-Length"));
    }
    return false;
}

/* ---- one hop ---- */

/* "bytes 100-199/200": where the bytes begin. */
static int64_t begin_of(const struct hub_http *h, long status)
{
    const char *range = header(h, "Content-Range");
    if (status != STATUS_PART)
        return 0;
    if (!range || strncmp(range, "bytes ", 6) != 0 || !isdigit((unsigned char)range[6]))
        return -1;
    return strtoll(range + 6, NULL, 10);
}

/* A page for people is passed over, since the headers say what is wrong; false: it has no end. */
static bool is_page(struct hub_http *h, size_t n)
{
    h->n_page += n;
    return h->n_page <= PAGE_BYTES_MAX;
}

static size_t on_body(char *at, size_t size, size_t n, void *ctx)
{
    struct hub_http *h = ctx;
    long status = 0;
    n *= size;
    h->curl->easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= STATUS_MOVED || !h->sink)
        return is_page(h, n) ? n : CURL_WRITEFUNC_ERROR;
    if (!h->has_begun) {
        int64_t from = begin_of(h, status);
        if (from < 0)
            return err_set(&h->why, ERR_IO, "the server sends a part and does not say which"),
                   CURL_WRITEFUNC_ERROR;
        if (h->sink->begin(h->sink->ctx, from, &h->why))
            return CURL_WRITEFUNC_ERROR;
        h->has_begun = true;
    }
    return h->sink->add(h->sink->ctx, at, n, &h->why) ? CURL_WRITEFUNC_ERROR : n;
}

static int on_tick(void *ctx, curl_off_t all, curl_off_t done, curl_off_t up, curl_off_t sent)
{
    const struct hub_http *h = ctx;
    (void)all, (void)done, (void)up, (void)sent;
    return atomic_load(h->stop);
}

/* Where scheme, host and port end. */
static size_t origin_len(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : strlen(url);
}

static bool is_of_hub(const struct hub_http *h, const char *url)
{
    size_t n = origin_len(h->place->endpoint);
    return origin_len(url) == n && !strncasecmp(url, h->place->endpoint, n);
}

static bool is_near(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    return !strncmp(host, "localhost", 9) || !strncmp(host, "127.", 4) ||
           !strncmp(host, "[::1]", 5);
}

static void add_token(struct hub_http *h, const char *url)
{
    struct buf bearer;
    if (!h->place->token || !is_of_hub(h, url))
        return;
    buf_init(&bearer, URL_BYTES_MAX);
    buf_printf(&bearer, "Bearer %s", h->place->token);
    h->headers = curl_lib_header(h->curl, h->headers, "Authorization", bearer.data);
    buf_release(&bearer);
}

static void set_up(struct hub_http *h, const char *url)
{
    const struct curl_lib *c = h->curl;
    char range[32];
    c->easy_reset(h->easy);
    c->slist_free_all(h->headers);
    h->headers = NULL;
    h->text[0] = 0;
    h->has_begun = false;
    h->n_page = 0;
    h->why = (struct err)ERR_INIT;
    c->easy_setopt(h->easy, CURLOPT_URL, url);
    c->easy_setopt(h->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    c->easy_setopt(h->easy, CURLOPT_FOLLOWLOCATION, 0L);
    c->easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->text);
    c->easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
    c->easy_setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
    c->easy_setopt(h->easy, CURLOPT_XFERINFOFUNCTION, on_tick);
    c->easy_setopt(h->easy, CURLOPT_XFERINFODATA, h);
    c->easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
    c->easy_setopt(h->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    c->easy_setopt(h->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->easy_setopt(h->easy, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    if (is_near(url))
        c->easy_setopt(h->easy, CURLOPT_PROXY, "");
    if (!h->sink)
        c->easy_setopt(h->easy, CURLOPT_NOBODY, 1L);
    if (h->from > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)h->from);
        c->easy_setopt(h->easy, CURLOPT_RANGE, range);
    }
    h->headers = curl_lib_header(h->curl, h->headers, "User-Agent", "tandem");
    h->headers = curl_lib_header(h->curl, h->headers, "Accept-Encoding",
                                 "identity"); /* hash and size are of the file itself */
    add_token(h, url);
    c->easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->headers);
}

/* ---- faults ---- */

static const char *host_of(const char *url, int *n)
{
    const char *host = strstr(url, "://") + 3;
    *n = (int)strcspn(host, "/?#");
    *n = *n < SAID_BYTES ? *n : SAID_BYTES;
    return host;
}

static int err_way(const struct hub_http *h, const char *url, CURLcode rc, struct err *e)
{
    int n;
    const char *host = host_of(url, &n), *why = *h->text ? h->text : h->curl->easy_strerror(rc);
    if (atomic_load(h->stop))
        return err_set(e, ERR_IO, "given up");
    if (rc == CURLE_COULDNT_RESOLVE_HOST)
        return err_set(e, ERR_IO, "%.*s: no machine of this name is known (is there a network?)", n,
                       host);
    return err_set(e, ERR_IO, "%.*s: %s", n, host, why);
}

static const char *advice(int status, bool has_token)
{
    if (status == 401)
        return has_token ? "; is it there, and may the token of HF_TOKEN see it?"
                         : "; it is not there, or not public: HF_TOKEN is set to a token that may "
                           "see it";
    if (status == 403)
        return "; its terms may have to be accepted on the hub's page of it, by the owner of HF_TOKEN";
    return "";
}

static int err_status(const struct hub_http *h, const char *url, struct hub_said *said,
                      struct err *e)
{
    const char *message = header(h, "X-Error-Message");
    int n, status = said->status;
    const char *host = host_of(url, &n);
    enum err_code code = status == 404 || status == 401                    ? ERR_NOT_FOUND
                         : status == 408 || status == 429 || status >= 500 ? ERR_BUSY
                                                                           : ERR_BAD_INPUT;
    err_set(e, code, "%.*s answers with status %d%s%.*s%s", n, host, status, message ? ": " : "",
            SAID_BYTES, message ? message : "", advice(status, h->place->token));
    for (char *s = e ? e->msg : NULL; s && *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            *s = ' ';
    return -1;
}

/* ---- a request ---- */

static int check_hop(const char *from, const char *to, struct err *e)
{
    if (!to || (strncmp(to, "http://", 7) != 0 && strncmp(to, "https://", 8) != 0))
        return err_set(e, ERR_UNSUPPORTED, "a redirect leads to nothing that http can fetch");
    if (!strncmp(from, "https://", 8) && strncmp(to, "https://", 8) != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "a redirect leads from https to http, where anybody may change "
                       "what comes");
    return strlen(to) < URL_BYTES_MAX
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "a redirect's address is too long");
}

/* One hop; 1: goes on at *url, which is changed. */
static int hop(struct hub_http *h, char **url, struct hub_said *said, struct err *e)
{
    long status = 0;
    char *resolved = NULL;
    set_up(h, *url);
    CURLcode rc = h->curl->easy_perform(h->easy);
    h->curl->easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    if (h->why.code != ERR_NONE)
        return *e = h->why, -1;
    bool is_linked = status ? take_said(h, said, status) : false;
    if (status >= STATUS_BAD)
        return err_status(h, *url, said, e);
    if (rc != CURLE_OK && h->n_page <= PAGE_BYTES_MAX)
        return err_way(h, *url, rc, e);
    if (status < STATUS_MOVED || (is_linked && !h->sink))
        return 0;
    h->curl->easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &resolved);
    /* libcurl makes an address whole only behind the body's end */
    const char *next = rc == CURLE_OK ? resolved : header(h, "Location");
    if (check_hop(*url, next, e))
        return -1;
    char *copy = xstrdup(next);
    free(*url);
    *url = copy;
    return 1;
}

int hub_http_get(struct hub_http *h, const char *path, int64_t from, const struct hub_sink *sink,
                 struct hub_said *said, struct err *e)
{
    struct hub_said unused;
    struct buf first;
    int rc = 1;
    said = said ? said : &unused;
    *said = (struct hub_said){.size = -1};
    h->sink = sink;
    h->from = from;
    buf_init(&first, URL_BYTES_MAX);
    buf_printf(&first, "%s%s", h->place->endpoint, path);
    if (buf_check(&first, "address", e))
        return buf_release(&first), -1;
    char *url = buf_take(&first);
    for (int i = 0; rc == 1 && i <= HOPS_MAX; i++)
        rc = hop(h, &url, said, e);
    free(url);
    return rc == 1 ? err_set(e, ERR_UNSUPPORTED, "more than %d redirects, one behind the other",
                             HOPS_MAX)
                   : rc;
}

bool hub_http_wait(const struct hub_http *h, int ms)
{
    for (; ms > 0 && !atomic_load(h->stop); ms -= STOP_MS)
        poll(NULL, 0, ms < STOP_MS ? ms : STOP_MS);
    return atomic_load(h->stop);
}

bool hub_http_again(struct hub_http *h, int *n_try, const struct hub_said *said,
                    const struct err *e)
{
    if ((e->code != ERR_BUSY && e->code != ERR_IO) || ++*n_try >= TRIES)
        return false;
    int ms = WAIT_MS << *n_try;
    return !hub_http_wait(h, said->retry_s * 1000 > ms ? said->retry_s * 1000 : ms);
}

static int text_begin(void *ctx, int64_t from, struct err *e)
{
    buf_clear(ctx);
    return from == 0 ? 0 : err_set(e, ERR_IO, "the server sends a part that nobody asked for");
}

static int text_add(void *ctx, const void *p, size_t n, struct err *e)
{
    struct buf *out = ctx;
    buf_add(out, p, n);
    return buf_check(out, "the answer", e);
}

int hub_http_text(struct hub_http *h, const char *path, struct buf *out, struct err *e)
{
    const struct hub_sink sink = {text_begin, text_add, out};
    struct hub_said said;
    int n_try = 0;
    while (hub_http_get(h, path, 0, &sink, &said, e))
        if (!hub_http_again(h, &n_try, &said, e))
            return -1;
    return 0;
}
