/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a client may send over a connection. The first byte says in what pieces it is
 * sent, the second how the client leaves: it shuts its side down once the server is quiet, or at
 * once, or closes without reading. The front has a key, names and a page of another origin; the
 * routes answer at once, later, and by a stream.
 *
 * The answer is read as a strict client reads it: whole responses one behind the other, none that
 * no request asked for; only the last may be cut off. Once the client is gone, the server is as it
 * was before: no call, no connection, no byte of a body is left.
 *
 * One transport serves all inputs, one connection after the other. A client's end that comes
 * together with the last of an unfinished request may go unseen by the library until the server's
 * own deadline; so deadlines are short (SHORT_US), and WAIT_US says that even they failed.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "server/http/front.h"
#include "server/http/http_own.h"
#include "tests/lib/caller.h"

enum {
    WAIT_US = 60 * 1000 * 1000,
    SHORT_US = 200 * 1000,
    QUIET_TRIES = 100,
    MAX_CONN = 8,
    MAX_QUEUE = 64
};

/* ---- a server -------------------------------------------------------------------------------- */

static struct {
    struct http *http;
    struct front front;
    _Atomic int n_ended;
    pthread_t waker;
    pthread_mutex_t lock; /* of the queue */
    pthread_cond_t more;
    struct later *queue[MAX_QUEUE];
    int n_queue;
    bool stops;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* A call that is woken once from another thread. */
struct later {
    struct call *call; /* a reference, while it stands in the queue */
    _Atomic bool is_woken;
    bool streams;
};

static void *wake(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&world.lock);
    while (!world.stops) {
        if (world.n_queue == 0) {
            pthread_cond_wait(&world.more, &world.lock);
            continue;
        }
        struct later *l = world.queue[--world.n_queue];
        struct call *c = l->call;
        pthread_mutex_unlock(&world.lock);
        atomic_store(&l->is_woken, true);
        call_wake(c);
        call_unref(c);
        pthread_mutex_lock(&world.lock);
    }
    pthread_mutex_unlock(&world.lock);
    return NULL;
}

/* Behind a sign, since what looks like headers is taken for one where an answer's body begins. */
static void say(struct call *c, const char *p, size_t n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_add(&b, ">", 1);
    buf_add(&b, p, n);
    call_reply(c, 200, "text/plain", &b);
}

static void later_step(struct call *c, void *ctx)
{
    struct later *l = ctx;
    bool is_woken = atomic_load(&l->is_woken);
    if (l->streams) {
        call_stream(c, "text/event-stream");
        call_send(c, "data: x\n\n", 9);
    }
    if (!is_woken)
        return;
    if (l->streams)
        call_end(c);
    else
        say(c, "later", 5);
}

static void later(struct call *c, bool streams)
{
    struct later *l = arena_alloc(call_arena(c), sizeof *l);
    l->streams = streams;
    atomic_init(&l->is_woken, false);
    l->call = call_ref(c);
    call_wait(c, &(struct call_later){.step = later_step, .ctx = l});
    pthread_mutex_lock(&world.lock);
    ASSERT(world.n_queue < MAX_QUEUE);
    world.queue[world.n_queue++] = l;
    pthread_cond_signal(&world.more);
    pthread_mutex_unlock(&world.lock);
}

static void on_later(struct call *c)
{
    later(c, false);
}

static void on_stream(struct call *c)
{
    later(c, true);
}

static void on_plain(struct call *c)
{
    const struct call_request *r = call_request(c);
    const char *q = call_query(c, "q"), *what = r->param ? r->param : q ? q : "plain";
    say(c, what, strlen(what));
}

static void on_echo(struct call *c)
{
    const struct call_request *r = call_request(c);
    ASSERT(r->n_body <= 4096 && r->body[r->n_body] == 0);
    say(c, r->body, r->n_body);
}

static const struct route table[] = {
    ROW("plain", "GET", "/plain", SCOPE_OPEN, 0, on_plain),
    ROW("of", "GET", "/of/{name}", SCOPE_OPEN, 0, on_plain),
    ROW("later", "GET", "/later", SCOPE_OPEN, 0, on_later),
    ROW("stream", "GET", "/stream", SCOPE_OPEN, 0, on_stream),
    ROW("echo", "POST", "/echo", SCOPE_OPEN, 4096, on_echo),
    ROW("keyed", "POST", "/keyed", SCOPE_INFERENCE, 4096, on_echo),
    ROW("admin", "GET", "/admin", SCOPE_ADMIN, 0, on_plain),
};

/* Who reads the answer must know that it is to HEAD: it has a length and no body. */
static int admit(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e)
{
    (void)ctx;
    if (strcmp(headers->method, "HEAD") == 0)
        call_set_header(c, "x-head", "1");
    return front_admit(&world.front, FRONT_GOOD, http_busy(world.http), c, headers, match, e);
}

static void ended(void *ctx, const struct http_record *r)
{
    (void)ctx;
    ASSERT(r->request->method && r->request->id && r->request->peer);
    atomic_fetch_add(&world.n_ended, 1);
}

static void stop(void)
{
    pthread_mutex_lock(&world.lock);
    world.stops = true;
    pthread_cond_signal(&world.more);
    pthread_mutex_unlock(&world.lock);
    pthread_join(world.waker, NULL);
    http_free(world.http);
    auth_unref(world.front.auth);
}

static void start(void)
{
    static const char *names[] = {"name.example"}, *origins[] = {"http://page.example"};
    struct err e = ERR_INIT;
    struct http_options o = {.route = table,
                             .n_route = sizeof table / sizeof *table,
                             .max_conn = MAX_CONN,
                             .headers_us = SHORT_US,
                             .idle_us = SHORT_US,
                             .body_us = SHORT_US,
                             .stall_us = SHORT_US,
                             .body_bytes = 1 << 20,
                             .admit = admit,
                             .ended = ended};
    world.front = (struct front){.auth = auth_new((struct limit_rule){.at_once = 2}),
                                 .host = "",
                                 .allowed_host = {names, 1},
                                 .cors_origin = {origins, 1}};
    ASSERT(auth_add(world.front.auth, "one", SCOPE_INFERENCE, "key-one-1", NULL, &e) == 0);
    world.http = http_new(&o, &e);
    ASSERT(world.http);
    ASSERT(pthread_create(&world.waker, NULL, wake, NULL) == 0);
    atexit(stop);
}

/* ---- a client -------------------------------------------------------------------------------- */

/* The server has read all that was sent and has no call, as far as can be seen from here. */
static void let_quiet(int fd)
{
    int unread = 1;
    for (int i = 0; i < QUIET_TRIES && (unread || http_busy(world.http)); i++) {
        sched_yield();
        if (ioctl(fd, SIOCOUTQ, &unread))
            return;
    }
}

/* The next piece goes out; -1: the server takes no more. */
static int send_piece(int fd, const uint8_t *p, size_t n, size_t *at, size_t step)
{
    size_t left = n - *at;
    ssize_t rc = send(fd, p + *at, left < step ? left : step, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (rc < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    *at += (size_t)rc;
    if (step < n)
        let_quiet(fd);
    return 0;
}

/* Sends it all and takes what comes, until the server closes. */
static void talk(int fd, const uint8_t *p, size_t n, size_t step, bool at_once, struct buf *answer)
{
    char block[4096];
    size_t at = 0;
    bool sends = true;
    for (;;) {
        if (sends && at == n) {
            if (!at_once)
                let_quiet(fd);
            shutdown(fd, SHUT_WR);
            sends = false;
        }
        struct pollfd f = {.fd = fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
        int ready = poll(&f, 1, WAIT_US / 1000);
        ASSERT(ready != 0);
        if (sends && (f.revents & POLLOUT) && send_piece(fd, p, n, &at, step))
            sends = false;
        if (!(f.revents & ~POLLOUT))
            continue;
        ssize_t got = recv(fd, block, sizeof block, MSG_DONTWAIT);
        if (got > 0)
            ASSERT(!buf_add(answer, block, (size_t)got));
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return;
    }
}

/* ---- its answer ------------------------------------------------------------------------------ */

struct response {
    int status;
    int64_t length; /* of the body; -1: not said */
    bool is_chunked, is_head, has_id;
};

static bool has_prefix(const char *p, const char *end, const char *what, const char **rest)
{
    size_t n = strlen(what);
    if ((size_t)(end - p) < n || strncasecmp(p, what, n) != 0)
        return false;
    *rest = p + n;
    return true;
}

/* The end of the line at p, behind its CR LF; NULL: it is cut off. */
static const char *line_end(const char *p, const char *end)
{
    const char *lf = memchr(p, '\n', (size_t)(end - p));
    if (!lf)
        return NULL;
    ASSERT(lf > p && lf[-1] == '\r');
    for (const char *s = p; s < lf - 1; s++)
        ASSERT((unsigned char)*s >= 0x20 || *s == '\t');
    return lf + 1;
}

/* From the status line to the empty one; NULL: cut off. */
static const char *read_headers(const char *p, const char *end, struct response *r)
{
    const char *next = line_end(p, end), *value;
    *r = (struct response){.length = -1};
    if (!next)
        return NULL;
    ASSERT(has_prefix(p, end, "HTTP/1.1 ", &value) || has_prefix(p, end, "HTTP/1.0 ", &value));
    r->status = (int)strtol(value, NULL, 10);
    ASSERT(r->status >= 100 && r->status < 600 && value[3] == ' ');
    for (p = next; (next = line_end(p, end)); p = next) {
        if (next - p == 2)
            return next;
        ASSERT(*p != ' ' && *p != '\t' && memchr(p, ':', (size_t)(next - p)));
        if (has_prefix(p, next, "Content-Length: ", &value)) {
            ASSERT(r->length < 0);
            r->length = strtoll(value, NULL, 10);
        } else if (has_prefix(p, next, "Transfer-Encoding: chunked", &value)) {
            r->is_chunked = true;
        } else if (has_prefix(p, next, "x-head: ", &value)) {
            r->is_head = true;
        } else if (has_prefix(p, next, "x-request-id: ", &value)) {
            ASSERT(!r->has_id);
            r->has_id = true;
        }
    }
    return NULL;
}

static const char *skip_chunks(const char *p, const char *end)
{
    for (;;) {
        const char *data = line_end(p, end);
        if (!data)
            return NULL;
        uint64_t n = strtoull(p, NULL, 16);
        if (n > (uint64_t)(end - data) || (uint64_t)(end - data) - n < 2)
            return NULL;
        ASSERT(memcmp(data + n, "\r\n", 2) == 0);
        p = data + n + 2;
        if (n == 0)
            return p;
    }
}

/* Behind the response at p; NULL: it is the last, whole or not. */
static const char *read_response(const char *p, const char *end, struct response *r)
{
    p = read_headers(p, end, r);
    if (!p || r->is_head || r->status < 200 || r->status == 204)
        return p;
    ASSERT(!(r->is_chunked && r->length >= 0));
    const char *next;
    if (has_prefix(p, end, "HTTP/1.",
                   &next)) /* to a HEAD that was refused before any hook saw it */
        return p;
    if (r->is_chunked)
        return skip_chunks(p, end);
    return r->length >= 0 && r->length <= end - p ? p + r->length : NULL;
}

/* How often it stands there. */
static int count(const uint8_t *p, size_t n, const char *what)
{
    int k = 0;
    size_t len = strlen(what);
    for (const uint8_t *at; (at = memmem(p, n, what, len)); k++) {
        n -= (size_t)(at - p) + len;
        p = at + len;
    }
    return k;
}

static void check_answer(const struct buf *answer, int n_ended)
{
    const char *p = answer->data, *end = p ? p + answer->len : NULL;
    int n_final = 0, n_other = 0;
    struct response r;
    while (p && p < end) {
        p = read_response(p, end, &r);
        if (r.status < 200)
            continue;
        if (r.has_id)
            n_final++;
        else if (p) /* of the library, to what it could not read: it closes */
            n_other++;
        ASSERT(!n_other || !p || p == end);
    }
    ASSERT(n_final <= n_ended && n_other <= 1);
}

/* Nothing of the client is left in the server. */
static void until_gone(void)
{
    int64_t end = clock_us() + WAIT_US;
    while (http_busy(world.http) || watch_count(world.http->watch)) {
        ASSERT(clock_us() < end);
        sched_yield();
    }
    ASSERT(atomic_load(&world.http->body_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd[2];
    struct err e = ERR_INIT;
    struct buf answer;
    if (size < 2)
        return 0;
    if (!world.http)
        start();
    const uint8_t *p = data + 2;
    size_t n = size - 2, step = data[0] % 64 ? data[0] % 64u : n + 1;
    bool leaves = data[1] & 2, at_once = data[1] & 1;
    buf_init(&answer, 64 << 20);
    atomic_store(&world.n_ended, 0);
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
    ASSERT(http_adopt(world.http, fd[1], &e) == 0);
    if (leaves)
        for (size_t at = 0; at < n && !send_piece(fd[0], p, n, &at, step);)
            sched_yield();
    else
        talk(fd[0], p, n, step, at_once, &answer);
    close(fd[0]);
    until_gone();
    ASSERT(atomic_load(&world.n_ended) <= count(p, n, "HTTP/1."));
    check_answer(&answer, atomic_load(&world.n_ended));
    buf_release(&answer);
    return 0;
}
