/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of long bodies, on a server with one HTTP thread. Faults they can catch: a handler that
 * holds the thread that others wait for; a call that two threads have at once, when its client goes
 * or its time is over while the handler runs; a wake that is lost between the two; an end that
 * leaves a call unanswered.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "server/http/call_own.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

enum { BODY_BYTES = 1 << 20, GIVEN_UP_US = 60 * 1000 * 1000, TIMEOUT_US = 50 * 1000 };

static struct http *http;
static struct background *work;
static int port;
static _Atomic int n_inside, n_done, n_gone, n_ended;
static _Atomic bool holds, waits_more;

static void on_plain(struct call *c)
{
    struct buf b;
    buf_init(&b, 64);
    buf_str(&b, "plain");
    call_reply(c, 200, "text/plain", &b);
}

static void step(struct call *c, void *ctx)
{
    (void)ctx;
    on_plain(c);
}

static void gone(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_gone, 1);
}

static void done(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_done, 1);
}

static void on_long(struct call *c)
{
    int64_t end = clock_us() + GIVEN_UP_US;
    atomic_fetch_add(&n_inside, 1);
    while (atomic_load(&holds) && clock_us() < end) {
        call_wake(c); /* as an engine does that has news before the handler is through */
        usleep(1000);
    }
    if (atomic_load(&waits_more))
        call_wait(c, &(struct call_later){.step = step, .gone = gone, .done = done});
    else
        on_plain(c);
    atomic_fetch_sub(&n_inside, 1);
}

static const struct route table[] = {
    ROW("plain", "GET", "/plain", 0, 0, on_plain),
    ROW("long", "POST", "/long", 0, BODY_BYTES, on_long),
    ROW("late", "GET", "/late", 0, 0, on_long, .in_background = true),
};

static void ended(void *ctx, const struct http_record *r)
{
    (void)ctx;
    (void)r;
    atomic_fetch_add(&n_ended, 1);
}

static void open_http(int64_t timeout_us)
{
    struct err e = ERR_INIT;
    struct listen_at at;
    struct http_options o = {.route = table,
                             .n_route = sizeof table / sizeof *table,
                             .n_thread = 1,
                             .max_conn = 64,
                             .request_timeout_us = timeout_us,
                             .work = work,
                             .ended = ended};
    http = http_new(&o, &e);
    assert_non_null(http);
    int fd = listen_tcp("127.0.0.1", 0, &at, &e);
    assert_true(fd >= 0);
    assert_good(http_listen(http, fd, &e), &e);
    port = at.port;
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    const struct background_lane lane = {"handlers", 1, 0, 0};
    (void)state;
    n_inside = n_done = n_gone = n_ended = 0;
    holds = true;
    waits_more = false;
    work = background_new(&lane, 1, &e);
    assert_non_null(work);
    open_http(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&holds, false);
    background_stop(work);
    http_free(http);
    background_free(work);
    return 0;
}

static void until(_Atomic int *what, int n)
{
    int64_t end = clock_us() + GIVEN_UP_US;
    while (atomic_load(what) != n && clock_us() < end)
        usleep(1000);
    assert_int_equal(atomic_load(what), n);
}

static int ask_long(void)
{
    enum { BYTES = 100 << 10 };
    char headers[256], *body = malloc(BYTES);
    int fd = caller_dial(port);
    memset(body, 'x', BYTES - 1);
    body[BYTES - 1] = 0;
    snprintf(headers, sizeof headers, HEAD("POST /long") JSON CLOSE "Content-Length: %d\r\n\r\n",
             BYTES - 1);
    caller_put(fd, headers);
    caller_put(fd, body);
    free(body);
    return fd;
}

static void hear(int fd, const char *status)
{
    char *text = caller_hear(fd);
    assert_memory_equal(text, status, strlen(status));
    free(text);
}

static void see_plain(void)
{
    int fd = caller_dial(port);
    caller_put(fd, HEAD("GET /plain") CLOSE "\r\n");
    hear(fd, "HTTP/1.1 200 ");
}

static void test_others_are_served(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        atomic_store(&holds, true);
        atomic_store(&waits_more, more);
        int fd = ask_long();
        until(&n_inside, 1);
        see_plain();
        assert_int_equal(atomic_load(&n_inside), 1);
        atomic_store(&holds, false);
        hear(fd, "HTTP/1.1 200 ");
    }
    until(&n_done, 1);
    assert_int_equal(atomic_load(&n_gone), 0);
}

/* Fault: a row that may wait for a disk, and holds up others while it does. */
static void test_late_rows(void **state)
{
    (void)state;
    int fd = caller_dial(port);
    caller_put(fd, HEAD("GET /late") CLOSE "\r\n");
    until(&n_inside, 1);
    see_plain();
    atomic_store(&holds, false);
    hear(fd, "HTTP/1.1 200 ");
}

static void test_client_goes(void **state)
{
    (void)state;
    atomic_store(&waits_more, true);
    int fd = ask_long();
    until(&n_inside, 1);
    close(fd);
    see_plain();
    until(&n_ended, 1);
    atomic_store(&holds, false);
    until(&n_done, 1);
    until(&n_ended, 2);
}

static void test_time_is_over(void **state)
{
    (void)state;
    http_free(http);
    open_http(TIMEOUT_US);
    atomic_store(&waits_more, true);
    int fd = ask_long();
    until(&n_inside, 1);
    usleep(10 * TIMEOUT_US);
    assert_int_equal(atomic_load(&n_ended), 0);
    atomic_store(&holds, false);
    hear(fd, "HTTP/1.1 504 ");
    until(&n_done, 1);
}

/* Who waits for a turn that does not come is told; so is who comes later. */
static void test_end(void **state)
{
    (void)state;
    atomic_store(&holds, false);
    hear(ask_long(), "HTTP/1.1 200 ");
    background_stop(work);
    hear(ask_long(), "HTTP/1.1 503 ");
    see_plain();
    assert_int_equal(atomic_load(&n_inside), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_others_are_served), CASE(test_late_rows),
                                       CASE(test_client_goes), CASE(test_time_is_over),
                                       CASE(test_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
