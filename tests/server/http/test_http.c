/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport over loopback sockets, with routes of its own and no engine: what is answered to
 * requests that are wrong as HTTP, waiting and waking, clients that go, are slow, or do not read.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

struct world {
    struct http *http;
    int port;
    _Atomic int n_open, n_opened; /* connections */
    _Atomic int n_gone, n_begun, n_done, n_step, n_ended;
};

static struct world world;

/* ---- routes ---------------------------------------------------------------------------------- */

static void say(struct call *c, const char *text)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_str(&b, text);
    call_reply(c, 200, "text/plain", &b);
}

static void on_plain(struct call *c)
{
    say(c, "plain");
}

static void on_echo(struct call *c)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", call_request(c)->n_body);
    say(c, text);
}

static void gone(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&world.n_gone, 1);
}

static void done(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&world.n_done, 1);
}

static void never(struct call *c, void *ctx)
{
    (void)c;
    (void)ctx;
}

static void on_wait(struct call *c)
{
    call_wait(c, &(struct call_later){.step = never, .gone = gone, .done = done});
}

/* Another thread wakes it without a pause; the step counts to N and ends. */
struct race {
    struct call *call;
    pthread_t thread;
    _Atomic int n_wake;
    int n_seen;
    bool streams;
};

enum { RACE_WAKES = 2000 };

static void *wake(void *arg)
{
    struct race *r = arg;
    for (int i = 0; i < RACE_WAKES; i++) {
        atomic_fetch_add(&r->n_wake, 1);
        call_wake(r->call);
        if (i % 64 == 0)
            sched_yield();
    }
    call_unref(r->call);
    return NULL;
}

/* The last wake must be seen: the step that follows it sees the whole count. */
static void race_step(struct call *c, void *ctx)
{
    struct race *r = ctx;
    int n = atomic_load(&r->n_wake);
    atomic_fetch_add(&world.n_step, 1);
    if (r->streams && r->n_seen == 0)
        call_stream(c, "text/event-stream");
    if (r->streams && n > r->n_seen)
        call_send(c, "x", 1);
    r->n_seen = n;
    if (n < RACE_WAKES)
        return;
    if (r->streams)
        call_end(c);
    else
        say(c, "raced");
}

static void race_done(void *ctx)
{
    struct race *r = ctx;
    pthread_detach(r->thread);
    done(NULL);
}

static void race(struct call *c, bool streams)
{
    struct race *r = arena_alloc(call_arena(c), sizeof *r);
    atomic_fetch_add(&world.n_begun, 1);
    r->streams = streams;
    r->call = call_ref(c);
    call_wait(c,
              &(struct call_later){.step = race_step, .gone = gone, .done = race_done, .ctx = r});
    assert_int_equal(pthread_create(&r->thread, NULL, wake, r), 0);
}

static void on_race(struct call *c)
{
    race(c, false);
}

static void on_stream_race(struct call *c)
{
    race(c, true);
}

/* As much as there is room for, for ever. */
static void flood_step(struct call *c, void *ctx)
{
    static const char block[4096];
    (void)ctx;
    call_stream(c, "application/octet-stream");
    while (!call_is_full(c))
        call_send(c, block, sizeof block);
}

static void on_flood(struct call *c)
{
    call_wait(c, &(struct call_later){.step = flood_step, .gone = gone, .done = done});
}

static const struct route table[] = {
    ROW("plain", "GET", "/plain", 0, 0, on_plain),
    ROW("echo", "POST", "/echo", 0, 1 << 20, on_echo),
    ROW("wait", "GET", "/wait", 0, 0, on_wait),
    ROW("race", "GET", "/race", 0, 0, on_race),
    ROW("stream", "GET", "/stream", 0, 0, on_stream_race),
    ROW("flood", "GET", "/flood", 0, 0, on_flood),
};

static void ended(void *ctx, const struct http_record *r)
{
    (void)ctx;
    (void)r;
    atomic_fetch_add(&world.n_ended, 1);
}

static void connection(void *ctx, int change)
{
    (void)ctx;
    atomic_fetch_add(&world.n_open, change);
    if (change > 0)
        atomic_fetch_add(&world.n_opened, 1);
}

/* ---- a client -------------------------------------------------------------------------------- */

static int status_of(const char *text)
{
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

static int ask(const char *request)
{
    int fd = caller_dial(world.port);
    caller_put(fd, request);
    char *text = caller_hear(fd);
    int status = status_of(text);
    free(text);
    return status;
}

/* So many calls are in work. */
static void until_busy(size_t want)
{
    int64_t end = clock_us() + 60 * 1000 * 1000;
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    while (http_busy(world.http) != want && clock_us() < end)
        nanosleep(&pause, NULL);
    assert_int_equal(http_busy(world.http), want);
}

static void until(_Atomic int *n, int want)
{
    int64_t end = clock_us() + 60 * 1000 * 1000;
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    while (atomic_load(n) < want && clock_us() < end)
        nanosleep(&pause, NULL);
    assert_int_equal(atomic_load(n), want);
}

/* Everything that was opened is closed on the server's side. */
static void until_closed(void)
{
    int64_t end = clock_us() + 60 * 1000 * 1000;
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    while (atomic_load(&world.n_open) && clock_us() < end)
        nanosleep(&pause, NULL);
    assert_int_equal(atomic_load(&world.n_open), 0);
}

enum { SHORT_US = 3 * 1000 * 1000, PATIENT_US = 600 * 1000 * 1000 /* no test waits for it */ };

/* What a test waits for is short, and that alone: the machine may stand still anywhere. */
static int start(int64_t headers_us, int64_t stall_us, int64_t request_us)
{
    struct err e = ERR_INIT;
    struct listen_at at;
    struct http_options o = {.route = table,
                             .n_route = sizeof table / sizeof *table,
                             .n_thread = 2,
                             .max_conn = 64,
                             .headers_us = headers_us,
                             .idle_us = headers_us,
                             .stall_us = stall_us,
                             .request_timeout_us = request_us,
                             .ended = ended,
                             .connection = connection};
    memset(&world, 0, sizeof world);
    world.http = http_new(&o, &e);
    assert_non_null(world.http);
    int fd = listen_tcp("127.0.0.1", 0, &at, &e);
    assert_true(fd >= 0);
    assert_good(http_listen(world.http, fd, &e), &e);
    world.port = at.port;
    return 0;
}

static int setup_head(void **state)
{
    (void)state;
    return start(SHORT_US, PATIENT_US, PATIENT_US);
}

static int setup_stall(void **state)
{
    (void)state;
    return start(PATIENT_US, SHORT_US, PATIENT_US);
}

static int setup_request(void **state)
{
    (void)state;
    return start(PATIENT_US, PATIENT_US, SHORT_US);
}

static int setup(void **state)
{
    (void)state;
    return start(PATIENT_US, PATIENT_US, PATIENT_US);
}

static int teardown(void **state)
{
    (void)state;
    http_free(world.http);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A wrong status, or an error without its body. */
static void test_answers(void **state)
{
    (void)state;
    assert_int_equal(ask(HEAD("GET /plain") CLOSE "\r\n"), 200);
    assert_int_equal(ask(HEAD("HEAD /plain") CLOSE "\r\n"), 200);
    assert_int_equal(ask(HEAD("GET /none") CLOSE "\r\n"), 404);
    assert_int_equal(ask(HEAD("PUT /plain") CLOSE "\r\n"), 405);
    assert_int_equal(ask(HEAD("POST /echo") CLOSE JSON "Content-Length: 2\r\n\r\n{}"), 200);
    assert_int_equal(ask(HEAD("POST /echo") CLOSE "Content-Length: 2\r\n\r\n{}"), 415);
    assert_int_equal(ask(HEAD("POST /echo") CLOSE JSON "Content-Length: 1048577\r\n\r\n"), 413);
    assert_int_equal(ask(HEAD("POST /echo") CLOSE JSON "Content-Length: 1048577\r\n"
                                                       "Expect: 100-continue\r\n\r\n"),
                     413);
    assert_int_equal(ask(HEAD("POST /echo") CLOSE JSON "Expect: 200-maybe\r\n\r\n"), 417);
    assert_int_equal(ask(HEAD("GET /%00") CLOSE "\r\n"), 400);
    assert_int_equal(ask(HEAD("GET /plain?a=%zz") CLOSE "\r\n"), 400);
    assert_int_equal(ask(HEAD("GET /plain?a=1&b%0a=1") CLOSE "\r\n"), 400);
    assert_int_equal(ask(HEAD("GET /plain?a=%C3%A9&b") CLOSE "\r\n"), 200);
    int fd = caller_dial(world.port);
    caller_put(fd, HEAD("GET /none") CLOSE "\r\n");
    char *text = caller_hear(fd);
    assert_non_null(strstr(text, "{\"error\":{\"message\":"));
    assert_non_null(strstr(text, "x-request-id: req-"));
    free(text);
}

/* A connection that an error closes although nothing was left unread. */
static void test_keep_alive(void **state)
{
    (void)state;
    int fd = caller_dial(world.port);
    caller_put(fd,
               HEAD("GET /none") "\r\n" HEAD("GET /plain") "\r\n" HEAD("GET /plain") CLOSE "\r\n");
    char *text = caller_hear(fd);
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 3);
    assert_int_equal(caller_count(text, " 200 OK"), 2);
    free(text);
}

/* Two parsers in a row that read one of these differently: each is at most one request, is refused,
 * and the request smuggled behind it is never answered. */
static void test_smuggling(void **state)
{
    static const char *const field[] = {
        "Content-Length: 2\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2, 2",
        "Content-Length: +2",
        "Content-Length: -2",
        "Content-Length: 0x2",
        "Content-Length: 2 3",
        "Content-Length: ",
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding:\x0b"
        "chunked",
        "Content-Length : 2",
        "Transfer-Encoding : chunked",
        "Content-Length: 99999999999999999999999999",
        "Content-Length: 18446744073709551616",
        "Content-Length: 18446744073709551618",
        "Content-Length: 2\r\nHost: evil.com",
        "Content-Length: 2\r\nAuthorization: a\r\nAuthorization: b",
        "Content-Length: 2\r\nContent-Type: text/plain",
        "X: a\r\n b\r\nContent-Length: 2, 2",
        " Content-Length: 2",
        "Content-Length\r\n: 2",
        "Content-Length: 2\rX: y",
        "Foo",
        ": empty",
        "Bad Name: x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        char request[512];
        snprintf(request, sizeof request,
                 HEAD("POST /echo") JSON "%s\r\n\r\n{}" HEAD("GET /plain") CLOSE "\r\n", field[i]);
        int fd = caller_dial(world.port);
        caller_put(fd, request);
        char *text = caller_hear(fd);
        if (status_of(text) < 400 || strstr(text, " 200 OK"))
            fail_msg("%s: %s", field[i], text);
        free(text);
    }
}

/* What stands before the path is no method: it is no request, so nothing behind it is one. */
static void test_no_method(void **state)
{
    static const char *const line[] = {"(GET /plain",  "\xef\xbb\xbfGET /plain",
                                       "\tGET /plain", "G\xc3\xa9T /plain",
                                       "GET: /plain",  "\x18PUT /plain"};
    (void)state;
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        char request[512];
        snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: t\r\n\r\n%s", line[i],
                 HEAD("GET /plain") CLOSE "\r\n");
        int fd = caller_dial(world.port);
        caller_put(fd, request);
        char *text = caller_hear(fd);
        if (status_of(text) != 400 || caller_count(text, "HTTP/1.1 ") != 1)
            fail_msg("%s: %s", line[i], text);
        free(text);
    }
    assert_int_equal(ask(HEAD("M-!#$%&'*+-.^_`|~9 /plain") CLOSE "\r\n"), 405);
}

/* A chunk that is not what it says it is. */
static void test_chunks(void **state)
{
    static const struct {
        const char *body;
        int status; /* 0: any but 200 */
    } c[] = {
        {"2\r\n{}\r\n0\r\n\r\n", 200},
        {"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 200},
        {"2;ext=1\r\n{}\r\n0\r\n\r\n", 200},
        {"02\r\n{}\r\n0\r\nTrailer: x\r\n\r\n", 200},
        {"ffffffffffffffff\r\n{}\r\n0\r\n\r\n", 0},
        {"10000000000000000\r\n{}\r\n0\r\n\r\n", 0},
        {"-2\r\n{}\r\n0\r\n\r\n", 0},
        {"0x2\r\n{}\r\n0\r\n\r\n", 0},
        {"2\r\n{}0\r\n\r\n", 0},
        {" 2\r\n{}\r\n0\r\n\r\n", 0},
        {"\r\n{}\r\n0\r\n\r\n", 0},
        {"g\r\n{}\r\n0\r\n\r\n", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char request[512];
        snprintf(request, sizeof request,
                 HEAD("POST /echo") JSON CLOSE "Transfer-Encoding: chunked\r\n\r\n%s", c[i].body);
        int fd = caller_dial(world.port);
        caller_put(fd, request);
        shutdown(fd, SHUT_WR);
        char *text = caller_hear(fd);
        if (c[i].status ? status_of(text) != c[i].status : status_of(text) == 200)
            fail_msg("%s: %s", c[i].body, text);
        free(text);
    }
}

/* A body of unknown length that goes past the ceiling. */
static void test_too_long(void **state)
{
    char block[4096 + 16];
    (void)state;
    int fd = caller_dial(world.port);
    caller_put(fd, HEAD("POST /echo") JSON "Transfer-Encoding: chunked\r\n\r\n");
    int n = snprintf(block, sizeof block, "1000\r\n%04096d\r\n", 1);
    for (int i = 0; i < 300; i++)
        (void)!send(fd, block, (size_t)n, MSG_NOSIGNAL);
    caller_put(fd, "0\r\n\r\n");
    char *text = caller_hear(fd);
    assert_int_equal(status_of(text), 413);
    free(text);
}

/* Heads that never fit. */
static void test_huge_head(void **state)
{
    size_t n = 1 << 20;
    char *request = malloc(n + 64);
    (void)state;
    memset(request, 'a', n + 63);
    memcpy(request, "GET /", 5);
    request[n] = 0;
    int fd = caller_dial(world.port);
    caller_put(fd, request);
    char *text = caller_hear(fd);
    assert_int_not_equal(status_of(text), 200);
    free(text);
    free(request);
}

/* A wake between the step and the suspension that is lost: the request would hang. */
static void test_race(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(HEAD("GET /race") CLOSE "\r\n"), 200);
        assert_int_equal(ask(HEAD("GET /stream") CLOSE "\r\n"), 200);
    }
    until(&world.n_done, 10);
    assert_int_equal(atomic_load(&world.n_gone), 0);
}

/* A client that goes while its request waits, and is never missed. */
static void test_gone(void **state)
{
    enum { N = 20 };
    int fd[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        fd[i] = caller_dial(world.port);
        caller_put(fd[i], HEAD("GET /wait") "\r\n");
    }
    until_busy(N);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    until(&world.n_done, N);
    assert_int_equal(atomic_load(&world.n_gone), N);
    until_busy(0);
}

/* A client that ends its side within a request, and is held until the deadline: the end came with
 * the last bytes, or after the server had read them; the client closes, or waits for an answer. */
static void test_end_within(void **state)
{
    static const char *const part[] = {"",
                                       "GET /pl",
                                       HEAD("GET /plain"),
                                       HEAD("POST /echo") JSON "Content-Length: 9\r\n\r\n",
                                       HEAD("POST /echo") JSON "Content-Length: 9\r\n\r\n{}",
                                       HEAD("POST /echo") JSON
                                       "Transfer-Encoding: chunked\r\n\r\n9\r\n{}"};
    enum { N = sizeof part / sizeof *part };
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    (void)state;
    for (int way = 0; way < 4; way++) {
        int fd[N];
        int before = atomic_load(&world.n_opened);
        for (int i = 0; i < N; i++) {
            fd[i] = caller_dial(world.port);
            caller_put(fd[i], part[i]);
            if (way & 1)
                nanosleep(&pause, NULL);
            shutdown(fd[i], SHUT_WR);
            if (way & 2)
                close(fd[i]);
        }
        until(&world.n_opened, before + N);
        until_closed();
        for (int i = 0; i < N && !(way & 2); i++)
            close(fd[i]);
    }
}

/* A whole request and the end of the client's side together: the answer is not lost. */
static void test_end_behind(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        int fd = caller_dial(world.port);
        caller_put(fd,
                   HEAD("POST /echo") JSON "Content-Length: 2\r\n\r\n{}" HEAD("GET /plain") "\r\n");
        shutdown(fd, SHUT_WR);
        char *text = caller_hear(fd);
        assert_int_equal(caller_count(text, " 200 OK"), 2);
        free(text);
    }
    until_closed();
}

/* A client that goes in the middle of racing wakes. */
static void test_gone_in_race(void **state)
{
    enum { N = 40 };
    (void)state;
    for (int i = 0; i < N; i++) {
        int fd = caller_dial(world.port);
        caller_put(fd, i % 2 ? HEAD("GET /race") "\r\n" : HEAD("GET /stream") "\r\n");
        close(fd);
    }
    until(&world.n_opened, N); /* the last of them may not have been accepted yet */
    until_closed();
    until(&world.n_done, atomic_load(&world.n_begun));
}

/* A handler that never answers holds its client for ever. */
static void test_late(void **state)
{
    (void)state;
    assert_int_equal(ask(HEAD("GET /wait") CLOSE "\r\n"), 504);
    until(&world.n_done, 1);
    assert_int_equal(atomic_load(&world.n_gone), 1);
}

/* Headers that come byte by byte, and a connection on which nothing comes at all. */
static void test_slow_head(void **state)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
    (void)state;
    int slow = caller_dial(world.port), idle = caller_dial(world.port);
    caller_put(slow, "GET /plain HTTP/1.1\r\n");
    for (int i = 0; i < 40; i++) {
        caller_put(slow, "X");
        nanosleep(&pause, NULL);
    }
    char *text = caller_hear(slow), *other = caller_hear(idle);
    assert_true(status_of(text) == 408 || !*text);
    assert_true(status_of(other) == 408 || !*other);
    free(text);
    free(other);
}

/* A reader that stops reading keeps its handler's memory for ever. */
static void test_slow_reader(void **state)
{
    (void)state;
    int fd = caller_dial(world.port);
    caller_put(fd, HEAD("GET /flood") "\r\n");
    until(&world.n_done, 1);
    close(fd);
}

/* Stopping while calls wait: an abort of the library, or a hang. */
static void test_stop(void **state)
{
    int fd[20];
    (void)state;
    for (int i = 0; i < 20; i++) {
        fd[i] = caller_dial(world.port);
        caller_put(fd[i], i % 2 ? HEAD("GET /wait") "\r\n" : HEAD("GET /flood") "\r\n");
    }
    until_busy(20);
    http_free(world.http);
    world.http = NULL;
    assert_int_equal(atomic_load(&world.n_done), 20);
    for (int i = 0; i < 20; i++)
        close(fd[i]);
}

#define CASE(f)     cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITH(f, up) cmocka_unit_test_setup_teardown(f, up, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_answers),
        CASE(test_keep_alive),
        CASE(test_smuggling),
        CASE(test_no_method),
        CASE(test_chunks),
        CASE(test_too_long),
        CASE(test_huge_head),
        CASE(test_race),
        CASE(test_gone),
        CASE(test_gone_in_race),
        WITH(test_late, setup_request),
        WITH(test_slow_head, setup_head),
        WITH(test_slow_reader, setup_stall),
        CASE(test_stop),
        CASE(test_end_within),
        CASE(test_end_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
