/* SPDX-License-Identifier: Apache-2.0
 *
 * One easy handle, reset for each request, in one multi handle, which keeps the connection and can
 * be waited for in slices. An answer's bytes go where the request wants them when its status is
 * good, and otherwise into `fault`, from which peer_fault.c makes the words.
 */
#include "clients/http/peer.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/http/peer_own.h"
#include "engine/base/mem.h"

enum {
    TICK_MS = 250,
    CONNECT_S = 15,
    ANSWER_S = 300, /* of what is not a stream */
    ALIVE_S = 30,
    URL_BYTES_MAX = 64 << 10,
    ANSWER_BYTES_MAX = 256 << 20,
    FAULT_BYTES_MAX = 1 << 20,
    GOOD_END = 300
};

/* ---- where --------------------------------------------------------------------------------- */

static const char *behind(const char *text, const char *start)
{
    size_t n = strlen(start);
    return strncmp(text, start, n) == 0 ? text + n : NULL;
}

static bool is_loopback(const char *host)
{
    return behind(host, "localhost") || behind(host, "127.") || behind(host, "[::1]");
}

static int check_text(const char *what, const char *text, struct err *e)
{
    for (const char *s = text; *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 127)
            return err_set(e, ERR_BAD_INPUT, "the %s has a space or a control character in it",
                           what);
    return 0;
}

/* Without slashes and /v1 at its end. */
static char *trimmed(const char *scheme, const char *rest)
{
    struct buf b;
    buf_init(&b, URL_BYTES_MAX);
    size_t n = strlen(rest);
    while (n > 0 && rest[n - 1] == '/')
        n--;
    if (n >= 3 && memcmp(rest + n - 3, "/v1", 3) == 0)
        n -= 3;
    while (n > 0 && rest[n - 1] == '/')
        n--;
    buf_str(&b, scheme);
    buf_add(&b, rest, n);
    return buf_take(&b);
}

static int set_url(struct peer *p, const char *url, struct err *e)
{
    const char *path = behind(url, "unix:"), *rest;
    if (path && !*path)
        return err_set(e, ERR_BAD_INPUT, "--url %s: no path behind unix:", url);
    if (path) {
        p->socket = xstrdup(path);
        p->base = xstrdup("http://localhost");
        return 0;
    }
    const char *scheme = "http://";
    if ((rest = behind(url, "https://")) != NULL)
        scheme = "https://";
    else if ((rest = behind(url, "http://")) == NULL)
        rest = url;
    if (strstr(rest, "://"))
        return err_set(e, ERR_BAD_INPUT,
                       "--url %.80s: it begins with http://, https:// or unix:", url);
    if (!*rest || *rest == '/' || *rest == ':')
        return err_set(e, ERR_BAD_INPUT, "--url %.80s: no host in it; write http://HOST:PORT", url);
    p->base = trimmed(scheme, rest);
    p->is_near = is_loopback(rest);
    return p->base ? 0 : err_set(e, ERR_TOO_LARGE, "--url: longer than %d bytes", URL_BYTES_MAX);
}

const char *peer_url(const struct peer *p)
{
    return p->shown;
}

char *peer_escape(const char *name)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = xmalloc(3 * strlen(name) + 1), *at = out;
    for (const char *s = name; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (isalnum(c) || strchr("-._~:", c)) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    *at = 0;
    return out;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void add_header(struct peer *p, const char *name, const char *value)
{
    struct buf line;
    buf_init(&line, URL_BYTES_MAX);
    buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *more = line.failed ? NULL : p->curl->slist_append(p->headers, line.data);
    if (more)
        p->headers = more;
    buf_release(&line);
}

struct peer *peer_new(const char *url, const char *api_key, struct err *e)
{
    struct peer *p = xcalloc(1, sizeof *p);
    buf_init(&p->body, ANSWER_BYTES_MAX);
    buf_init(&p->fault, FAULT_BYTES_MAX);
    sse_init(&p->sse);
    p->shown = xstrdup(url);
    if (check_text("address", url, e) || set_url(p, url, e) ||
        (api_key && check_text("key", api_key, e)))
        goto fail;
    p->key = api_key && *api_key ? xstrdup(api_key) : NULL;
    const struct curl_lib *curl = curl_lib_get(e);
    if (!curl)
        goto fail;
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != 0) {
        err_set(e, ERR_IO, "libcurl could not be made ready");
        goto fail;
    }
    p->curl = curl;
    p->multi = p->curl->multi_init();
    p->easy = p->curl->easy_init();
    if (p->multi && p->easy)
        return p;
    err_set(e, ERR_NO_MEMORY, "no memory for a connection");
fail:
    peer_free(p);
    return NULL;
}

void peer_free(struct peer *p)
{
    if (!p)
        return;
    if (p->curl) {
        p->curl->slist_free_all(p->headers);
        p->curl->easy_cleanup(p->easy);
        p->curl->multi_cleanup(p->multi);
        p->curl->global_cleanup();
    }
    buf_release(&p->body);
    buf_release(&p->fault);
    sse_release(&p->sse);
    free(p->base);
    free(p->socket);
    free(p->key);
    free(p->shown);
    free(p);
}

void peer_set_tick(struct peer *p, peer_tick_fn *tick, void *ctx)
{
    p->tick = tick;
    p->tick_ctx = ctx;
}

int peer_status(const struct peer *p)
{
    return p->status;
}

const char *peer_header(const struct peer *p, const char *name)
{
    struct curl_header *h;
    return p->curl->easy_header(p->easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value
                                                                                     : NULL;
}

bool peer_gave_up(const struct peer *p)
{
    return p->gave_up;
}

/* ---- one request --------------------------------------------------------------------------- */

static size_t on_body(char *at, size_t size, size_t n, void *ctx)
{
    struct peer *p = ctx;
    long status = 0;
    n *= size;
    p->curl->easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= GOOD_END) {
        buf_add(&p->fault, at, n); /* what is beyond its ceiling is not told */
        return n;
    }
    if (p->sink == PEER_EVENTS)
        return sse_feed(&p->sse, at, n, p->event, p->event_ctx, &p->why) ? CURL_WRITEFUNC_ERROR : n;
    if (p->sink == PEER_FILE) {
        if (fwrite(at, 1, n, p->file) == n)
            return n;
        err_sys(&p->why, "writing what came");
        return CURL_WRITEFUNC_ERROR;
    }
    buf_add(&p->body, at, n);
    return buf_check(&p->body, "the answer", &p->why) ? CURL_WRITEFUNC_ERROR : n;
}

static void begin(struct peer *p, const char *method, const char *path, enum peer_sink sink)
{
    struct buf url;
    CURL *c = p->easy;
    buf_init(&url, URL_BYTES_MAX);
    buf_printf(&url, "%s%s", p->base, path);
    buf_clear(&p->body);
    buf_clear(&p->fault);
    sse_clear(&p->sse);
    p->why = (struct err)ERR_INIT;
    p->status = 0;
    p->gave_up = false;
    p->sink = sink;
    p->text[0] = 0;
    p->curl->easy_reset(c);
    p->curl->slist_free_all(p->headers);
    p->headers = NULL;
    p->curl->easy_setopt(c, CURLOPT_URL, url.failed ? "" : url.data);
    p->curl->easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    p->curl->easy_setopt(c, CURLOPT_ERRORBUFFER, p->text);
    p->curl->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    p->curl->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    p->curl->easy_setopt(c, CURLOPT_WRITEDATA, p);
    p->curl->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    p->curl->easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    p->curl->easy_setopt(c, CURLOPT_TCP_KEEPIDLE, (long)ALIVE_S);
    p->curl->easy_setopt(c, CURLOPT_TCP_KEEPINTVL, (long)ALIVE_S);
    if (sink == PEER_BODY)
        p->curl->easy_setopt(c, CURLOPT_TIMEOUT, (long)ANSWER_S);
    if (p->socket)
        p->curl->easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, p->socket);
    if (p->socket || p->is_near)
        p->curl->easy_setopt(c, CURLOPT_PROXY, "");
    buf_release(&url);
    add_header(p, "User-Agent", "tandem");
    add_header(p, "Accept", sink == PEER_EVENTS ? "text/event-stream" : "application/json, */*");
    if (p->key) {
        struct buf bearer;
        buf_init(&bearer, URL_BYTES_MAX);
        buf_printf(&bearer, "Bearer %s", p->key);
        add_header(p, "Authorization", bearer.data);
        buf_release(&bearer);
    }
}

static bool is_given_up(struct peer *p)
{
    if (p->upload && p->upload->progress) {
        curl_off_t sent = 0;
        p->curl->easy_getinfo(p->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
        p->upload->progress(p->upload->ctx, sent < p->upload_bytes ? sent : p->upload_bytes,
                            p->upload_bytes);
    }
    return p->tick && p->tick(p->tick_ctx);
}

/* Until the transfer ends or is given up. */
static CURLcode transfer(struct peer *p)
{
    CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
    int n_running = 0, n_left;
    CURLMcode m = p->curl->multi_add_handle(p->multi, p->easy);
    while (m == CURLM_OK) {
        m = p->curl->multi_perform(p->multi, &n_running);
        if (m != CURLM_OK || n_running == 0)
            break;
        p->gave_up = is_given_up(p);
        if (p->gave_up)
            break;
        m = p->curl->multi_poll(p->multi, NULL, 0, TICK_MS, NULL);
    }
    if (m != CURLM_OK)
        rc = CURLE_FAILED_INIT;
    for (CURLMsg *msg; !p->gave_up && (msg = p->curl->multi_info_read(p->multi, &n_left)) != NULL;)
        if (msg->msg == CURLMSG_DONE)
            rc = msg->data.result;
    p->curl->multi_remove_handle(p->multi, p->easy);
    return rc;
}

static int run(struct peer *p, struct err *e)
{
    long status = 0, os_errno = 0;
    p->curl->easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
    CURLcode rc = transfer(p);
    p->curl->easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    p->curl->easy_getinfo(p->easy, CURLINFO_OS_ERRNO, &os_errno);
    p->status = (int)status;
    if (p->gave_up)
        return err_set(e, ERR_IO, "given up");
    if (p->why.code != ERR_NONE)
        return peer_broken(p, e);
    /* an upload may be refused before it was taken: the refusal is what counts */
    if (status >= GOOD_END)
        return peer_refused(p, e);
    return rc == CURLE_OK ? 0 : peer_unreached(p, (int)rc, (int)os_errno, e);
}

static int set_body(struct peer *p, const json_t *body, char **text, struct err *e)
{
    *text = NULL;
    if (!body)
        return 0;
    *text = json_dumps(body, JSON_COMPACT);
    if (!*text)
        return err_set(e, ERR_BAD_INPUT, "what is to be sent is not text in UTF-8");
    add_header(p, "Content-Type", "application/json");
    p->curl->easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(*text));
    p->curl->easy_setopt(p->easy, CURLOPT_POSTFIELDS, *text);
    return 0;
}

/* Without a body a POST says that it has none. */
static void set_empty(struct peer *p, const char *method, const json_t *body)
{
    if (body || strcmp(method, "POST") != 0)
        return;
    p->curl->easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE, 0L);
    p->curl->easy_setopt(p->easy, CURLOPT_POSTFIELDS, "");
    add_header(p, "Content-Type", "application/json");
}

static int take_json(struct peer *p, json_t **answer, struct err *e)
{
    json_error_t why;
    if (!answer)
        return 0;
    *answer = json_loadb(p->body.data ? p->body.data : "", p->body.len, JSON_ALLOW_NUL, &why);
    if (*answer && json_is_object(*answer))
        return 0;
    json_decref(*answer);
    *answer = NULL;
    return err_set(e, ERR_IO, "%s answers, but not as this API does: is it another program?",
                   p->shown);
}

int peer_ask(struct peer *p, const char *method, const char *path, const json_t *body,
             json_t **answer, struct err *e)
{
    char *text;
    if (answer)
        *answer = NULL;
    begin(p, method, path, PEER_BODY);
    set_empty(p, method, body);
    int rc = set_body(p, body, &text, e) || run(p, e) ? -1 : take_json(p, answer, e);
    free(text);
    return rc;
}

int peer_text(struct peer *p, const char *path, struct buf *out, struct err *e)
{
    begin(p, "GET", path, PEER_BODY);
    if (run(p, e))
        return -1;
    buf_add(out, p->body.data ? p->body.data : "", p->body.len);
    return buf_check(out, "the answer", e);
}

int peer_download(struct peer *p, const char *path, FILE *out, struct err *e)
{
    begin(p, "GET", path, PEER_FILE);
    p->file = out;
    return run(p, e);
}

int peer_stream(struct peer *p, const char *path, const json_t *body, sse_fn *fn, void *ctx,
                struct err *e)
{
    char *text;
    begin(p, body ? "POST" : "GET", path, PEER_EVENTS);
    p->event = fn;
    p->event_ctx = ctx;
    int rc = set_body(p, body, &text, e) || run(p, e) ? -1 : 0;
    free(text);
    return rc;
}

/* ---- a file -------------------------------------------------------------------------------- */

static size_t on_read(char *at, size_t size, size_t n, void *ctx)
{
    struct peer *p = ctx;
    size_t got = fread(at, size, n, p->file);
    if (got == 0 && ferror(p->file)) {
        err_sys(&p->why, "%s", p->upload->path);
        return CURL_READFUNC_ABORT;
    }
    return got;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct peer *p = ctx;
    return fseeko(p->file, offset, origin) == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

static int open_file(struct peer *p, const struct peer_file *f, struct err *e)
{
    struct stat s;
    p->file = fopen(f->path, "re");
    if (!p->file || fstat(fileno(p->file), &s) != 0)
        return err_sys(e, "%s", f->path);
    if (S_ISDIR(s.st_mode))
        return err_set(e, ERR_BAD_INPUT, "%s is a directory", f->path);
    if (!S_ISREG(s.st_mode))
        return err_set(e, ERR_BAD_INPUT,
                       "%s is a pipe or a device: only a file's length is known before it is sent",
                       f->path);
    if (s.st_size == 0)
        return err_set(e, ERR_BAD_INPUT, "%s: the file is empty", f->path);
    p->upload_bytes = s.st_size;
    return 0;
}

static curl_mime *form_of(struct peer *p, const struct peer_file *f)
{
    const char *slash = strrchr(f->path, '/');
    curl_mime *form = p->curl->mime_init(p->easy);
    curl_mimepart *purpose = p->curl->mime_addpart(form), *file = p->curl->mime_addpart(form);
    if (p->curl->mime_name(purpose, "purpose") == CURLE_OK &&
        p->curl->mime_data(purpose, f->purpose, CURL_ZERO_TERMINATED) == CURLE_OK &&
        p->curl->mime_name(file, "file") == CURLE_OK &&
        p->curl->mime_filename(file, slash ? slash + 1 : f->path) == CURLE_OK &&
        p->curl->mime_type(file, "application/octet-stream") == CURLE_OK &&
        p->curl->mime_data_cb(file, p->upload_bytes, on_read, on_seek, NULL, p) == CURLE_OK &&
        p->curl->easy_setopt(p->easy, CURLOPT_MIMEPOST, form) == CURLE_OK)
        return form;
    p->curl->mime_free(form);
    return NULL;
}

int peer_upload(struct peer *p, const struct peer_file *f, json_t **answer, struct err *e)
{
    curl_mime *form = NULL;
    int rc = -1;
    *answer = NULL;
    p->file = NULL;
    if (open_file(p, f, e))
        goto done;
    begin(p, "POST", "/v1/files", PEER_BODY);
    p->curl->easy_setopt(p->easy, CURLOPT_TIMEOUT, 0L);
    p->upload = f;
    form = form_of(p, f);
    rc = !form       ? err_set(e, ERR_NO_MEMORY, "no memory for the upload")
         : run(p, e) ? -1
                     : take_json(p, answer, e);
done:
    p->curl->mime_free(form);
    if (p->file)
        fclose(p->file);
    p->file = NULL;
    p->upload = NULL;
    return rc;
}
