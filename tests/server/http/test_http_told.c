/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that are answered before they have sent their whole body: what they still send is read
 * for some seconds, so that they see the answer, but it is no work any more.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "server/http/call_own.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

enum { SECOND_US = 1000 * 1000, STAY_US = 5 * SECOND_US /* who was told is waited for */ };
enum { BODY_BYTES = 1 << 20, BLOCK_BYTES = 4096, TOO_MANY = BODY_BYTES / BLOCK_BYTES + 1 };

static struct http *http;
static struct limit limit;
static int port;
static _Atomic int n_open, n_ended, n_taken;

static void on_any(struct call *c)
{
    struct buf b;
    buf_init(&b, 64);
    buf_str(&b, "any");
    call_reply(c, 200, "text/plain", &b);
}

static void *intake_begin(struct call *c, int64_t length, struct api_error *e)
{
    (void)c;
    (void)length;
    (void)e;
    atomic_fetch_add(&n_taken, 1);
    return &n_taken;
}

static int intake_push(void *ctx, const char *p, size_t n, struct api_error *e)
{
    (void)ctx;
    (void)p;
    (void)n;
    (void)e;
    return 0;
}

static void intake_free(void *ctx)
{
    (void)ctx;
    atomic_fetch_sub(&n_taken, 1);
}

static const struct intake into = {"application/json", intake_begin, intake_push, intake_free};

static const struct route table[] = {
    ROW("plain", "GET", "/plain", 0, 0, on_any),
    ROW("echo", "POST", "/echo", 0, BODY_BYTES, on_any),
    ROW("into", "POST", "/into", 0, BODY_BYTES, on_any, .intake = &into),
};

static int admit(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e)
{
    struct limit_view view;
    int64_t retry_us;
    (void)ctx;
    (void)headers;
    (void)match;
    (void)e;
    limit_take(&limit, clock_us(), &c->grant, &view, &retry_us);
    return 0;
}

static void ended(void *ctx, const struct http_record *r)
{
    (void)ctx;
    (void)r;
    atomic_fetch_add(&n_ended, 1);
}

static void connection(void *ctx, int change)
{
    (void)ctx;
    atomic_fetch_add(&n_open, change);
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    struct listen_at at;
    struct http_options o = {.route = table,
                             .n_route = sizeof table / sizeof *table,
                             .n_thread = 2,
                             .max_conn = 64,
                             .admit = admit,
                             .ended = ended,
                             .connection = connection};
    (void)state;
    n_open = n_ended = n_taken = 0;
    limit_init(&limit, (struct limit_rule){0}, clock_us());
    http = http_new(&o, &e);
    assert_non_null(http);
    int fd = listen_tcp("127.0.0.1", 0, &at, &e);
    assert_true(fd >= 0);
    assert_good(http_listen(http, fd, &e), &e);
    port = at.port;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_free(http);
    limit_release(&limit);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

#define ENDLESS(path) HEAD("POST " path) JSON "Transfer-Encoding: chunked\r\n\r\n"

/* So many blocks of a body that has no end. */
static void put_endless(int fd, const char *headers, int n_block)
{
    char block[BLOCK_BYTES + 16];
    caller_put(fd, headers);
    int n = snprintf(block, sizeof block, "1000\r\n%04096d\r\n", 1);
    for (int i = 0; i < n_block; i++)
        if (send(fd, block, (size_t)n, MSG_NOSIGNAL) != n)
            break;
}

static int dial_endless(int n_block)
{
    int fd = caller_dial(port);
    put_endless(fd, ENDLESS("/echo"), n_block);
    return fd;
}

static void see_told(int fd)
{
    char line[12];
    assert_int_equal(recv(fd, line, sizeof line, MSG_PEEK | MSG_WAITALL), sizeof line);
    assert_memory_equal(line + 9, "413", 3);
}

/* One that has seen that it was told, and stays. */
static int dial_told(void)
{
    int fd = dial_endless(TOO_MANY);
    see_told(fd);
    return fd;
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000 * 1000}, NULL);
}

static void until_closed(void)
{
    int64_t end = clock_us() + 60 * SECOND_US;
    while (atomic_load(&n_open) && clock_us() < end)
        pause_ms(1);
    assert_int_equal(atomic_load(&n_open), 0);
}

static void until_idle(void)
{
    int64_t end = clock_us() + 60 * SECOND_US;
    while (http_busy(http) && clock_us() < end)
        pause_ms(1);
    assert_int_equal(http_busy(http), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A body whose end never comes: the 413 must not wait for it. */
static void test_at_once(void **state)
{
    (void)state;
    int fd = dial_endless(TOO_MANY);
    int64_t begin = clock_us();
    char *text = caller_hear(fd);
    assert_memory_equal(text, "HTTP/1.1 413 ", 13);
    assert_non_null(strstr(text, "{\"error\":"));
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 1);
    assert_true(clock_us() - begin < 60 * SECOND_US);
    free(text);
    until_idle();
}

/* A client that does not stop sending after its 413, or sends far too much before it reads: the
 * answer is lost by a reset, or the server reads for ever. */
static void test_far_too_long(void **state)
{
    char block[BLOCK_BYTES + 16];
    (void)state;
    char *text = caller_hear(dial_endless(4 * TOO_MANY));
    assert_memory_equal(text, "HTTP/1.1 413 ", 13);
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 1);
    free(text);
    int fd = dial_endless(0), i = 0;
    int n = snprintf(block, sizeof block, "1000\r\n%04096d\r\n", 1);
    while (i < 1 << 14 && send(fd, block, (size_t)n, MSG_NOSIGNAL) == n)
        i++;
    assert_true(i < 1 << 14);
    close(fd);
    until_idle();
}

enum { BEFORE = 200, SLOW_MS = 3000, TRIES = 20 };

/* Reads only SLOW_MS after it was told, and sends meanwhile. What it had asked before fills all
 * that it takes in unread. Its 413 may reach it all the same; so that the server still reads what
 * it sends is seen by the connection, which a server that has read enough closes. */
static bool is_told_late(void)
{
    bool is_heard;
    int fd = caller_dial_narrow(port);
    for (int i = 0; i < BEFORE; i++)
        caller_put(fd, HEAD("GET /plain") "\r\n");
    put_endless(fd, ENDLESS("/echo"), TOO_MANY);
    for (int ms = 0; ms < SLOW_MS; ms += 100) {
        pause_ms(100);
        caller_put(fd, "1\r\nx\r\n");
    }
    is_heard = atomic_load(&n_open) == 1;
    char *text = caller_hear(fd);
    bool is = caller_count(text, "HTTP/1.1 413 ") == 1;
    free(text);
    return is && is_heard;
}

/* A client that was told 413 and is slow to see it: what it still sends resets the connection, and
 * takes the answer with it. */
static void test_slow_to_be_told(void **state)
{
    int64_t took_us = STAY_US;
    bool is = false;
    (void)state;
    for (int i = 0; i < TRIES && !is && took_us >= STAY_US; i++) {
        int64_t begin = clock_us();
        is = is_told_late();
        took_us = clock_us() - begin; /* a machine that is slower yet proves nothing */
    }
    assert_true(is);
}

/* A client that was told 413 and stays is not waited for without end, nor for less than it has. */
static void test_told_and_stays(void **state)
{
    int64_t begin = clock_us();
    (void)state;
    int fd = dial_told();
    until_closed();
    assert_true(clock_us() - begin >= STAY_US);
    close(fd);
}

/* Who was told and stays counts as work, so that a server that ends waits for it; or holds its
 * key's place, in which it would ask again; or is told of twice. */
static void test_is_no_work(void **state)
{
    int64_t took_us = STAY_US;
    (void)state;
    for (int i = 1; i <= TRIES && took_us >= STAY_US; i++) {
        int64_t begin = clock_us();
        int fd = dial_told();
        until_idle();
        took_us = clock_us() - begin;
        assert_int_equal(limit.level->n_now, 0);
        assert_int_equal(atomic_load(&n_ended), i);
        close(fd);
        until_closed();
        assert_int_equal(atomic_load(&n_ended), i);
        assert_int_equal(limit.level->n_now, 0);
        assert_int_equal(http_busy(http), 0);
    }
    assert_true(took_us < STAY_US);
}

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
int mallctl(const char *name, void *old, size_t *n_old, void *new, size_t n_new)
    __attribute__((weak));

/* As the allocator counts that is linked; the C library's own knows nothing of another's. */
static size_t heap_bytes(void)
{
    uint64_t epoch = 1;
    size_t bytes = 0, n = sizeof bytes;
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    if (mallctl && !mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) &&
        !mallctl("stats.allocated", &bytes, &n, NULL, 0))
        return bytes;
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Bodies that are kept although they were refused, for as long as their clients stay: who sends too
 * much takes the memory of others. */
static void test_gives_back(void **state)
{
    enum { N = 16 };
    int fd[N];
    (void)state;
    close(dial_told());
    until_closed();
    size_t before = heap_bytes();
    char *volatile seen = malloc(BODY_BYTES);
    memset(seen, 1, BODY_BYTES);
    assert_true(heap_bytes() >= before + BODY_BYTES); /* the count is this program's */
    free(seen);
    for (int i = 0; i < N; i++)
        fd[i] = dial_told();
    until_idle();
    assert_true(heap_bytes() < before + N * BODY_BYTES / 4);
    for (int i = 0; i < N; i++)
        close(fd[i]);
}

/* An upload whose file, and part of its key's quota, are in the way of the next one that is sent as
 * soon as the first is known to be refused. */
static void test_gives_up_what_it_took_in(void **state)
{
    (void)state;
    int fd = caller_dial(port);
    put_endless(fd, ENDLESS("/into"), TOO_MANY);
    see_told(fd);
    assert_int_equal(atomic_load(&n_taken), 0);
    close(fd);
    until_closed();
    assert_int_equal(atomic_load(&n_taken), 0);
}

/* A stop that waits for who was told, or leaves it open. */
static void test_stop(void **state)
{
    int fd[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        fd[i] = dial_told();
    http_free(http);
    http = NULL;
    assert_int_equal(atomic_load(&n_open), 0);
    assert_int_equal(atomic_load(&n_ended), 4);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_at_once),
        CASE(test_far_too_long),
        CASE(test_slow_to_be_told),
        CASE(test_told_and_stays),
        CASE(test_is_no_work),
        CASE(test_gives_back),
        CASE(test_gives_up_what_it_took_in),
        CASE(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
