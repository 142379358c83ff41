/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport over its other ways in and its limits: Unix sockets, connections made elsewhere,
 * connections per address, bodies that stop coming, streams that are silent, preflights.
 *
 * Deadlines are short here, and a test waits for what they bring, however late it comes.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "server/http/call_own.h"
#include "server/http/conn.h"
#include "server/http/front.h"
#include "server/http/http_own.h"
#include "server/http/listen.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

static void on_plain(struct call *c)
{
    struct buf b;
    buf_init(&b, 64);
    buf_str(&b, "plain");
    call_reply(c, 200, "text/plain", &b);
}

/* A first event, and then nothing. */
static void silent_step(struct call *c, void *ctx)
{
    (void)ctx;
    if (c->answer != CALL_NONE)
        return;
    call_stream(c, "text/event-stream");
    call_send(c, "data: 1\n\n", 9);
}

static void on_silent(struct call *c)
{
    call_wait(c, &(struct call_later){.step = silent_step});
}

static const struct route table[] = {
    ROW("plain", "GET", "/plain", SCOPE_OPEN, 0, on_plain),
    ROW("silent", "GET", "/silent", SCOPE_OPEN, 0, on_silent),
    ROW("echo", "POST", "/echo", SCOPE_INFERENCE, 1 << 20, on_plain),
};

static struct http *http;
static struct front front;

static int admit(void *ctx, struct call *c, const struct http_headers *headers,
                 const struct route_match *match, struct api_error *e)
{
    (void)ctx;
    return front_admit(&front, FRONT_GOOD, http_busy(http), c, headers, match, e);
}

/* ---- a client -------------------------------------------------------------------------------- */

static int link_to(int fd, const struct sockaddr *at, size_t n)
{
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, at, (socklen_t)n), 0);
    return fd;
}

/* Until the words came, or the server closed. */
static void take(int fd, const char *words, char *text, size_t cap)
{
    size_t n = 0;
    ssize_t got;
    text[0] = 0;
    while (n + 1 < cap && !(words && strstr(text, words)) &&
           (got = recv(fd, text + n, cap - n - 1, 0)) > 0) {
        n += (size_t)got;
        text[n] = 0;
    }
}

static void assert_plain(int fd)
{
    char text[2048];
    caller_put(fd, HEAD("GET /plain") CLOSE "\r\n");
    take(fd, NULL, text, sizeof text);
    assert_non_null(strstr(text, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(text, "\r\n\r\nplain"));
    close(fd);
}

enum { SHORT_US = 50 * 1000, BODY_US = 2 * 1000 * 1000 };

static struct http *make(unsigned max_conn_ip, int64_t body_us)
{
    struct err e = ERR_INIT;
    struct http_options o = {.route = table,
                             .n_route = sizeof table / sizeof *table,
                             .n_thread = 1, /* with more, each has a share of max_conn_ip */
                             .max_conn = 16,
                             .max_conn_ip = max_conn_ip,
                             .body_us = body_us,
                             .ping_us = 50 * 1000,
                             .admit = admit};
    struct http *h = http_new(&o, &e);
    assert_non_null(h);
    return h;
}

static int listen_here(void)
{
    struct err e = ERR_INIT;
    struct listen_at at;
    int fd = listen_tcp("127.0.0.1", 0, &at, &e);
    assert_true(fd >= 0);
    assert_good(http_listen(http, fd, &e), &e);
    return at.port;
}

static void start(int64_t body_us)
{
    static const char *origins[] = {"http://page.example"};
    front = (struct front){
        .auth = auth_new((struct limit_rule){0}), .host = "", .cors_origin = {origins, 1}};
    http = make(0, body_us);
}

static int setup(void **state)
{
    (void)state;
    start(SHORT_US);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_free(http);
    auth_unref(front.auth);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A way in that answers nobody; a living socket that is taken away, a dead one that stops a start.
 */
static void test_unix(void **state)
{
    struct err e = ERR_INIT;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char *dir = test_dir_new(), far[256];
    (void)state;
    snprintf(un.sun_path, sizeof un.sun_path, "%s/socket", dir);
    int dead = listen_unix(un.sun_path, &e);
    assert_true(dead >= 0);
    assert_true(listen_unix(un.sun_path, &e) < 0);
    close(dead);
    int fd = listen_unix(un.sun_path, &e);
    assert_true(fd >= 0);
    assert_good(http_listen(http, fd, &e), &e);
    assert_plain(link_to(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&un, sizeof un));
    int named = link_to(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&un, sizeof un);
    caller_put(named, "GET /plain HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n");
    char *text = caller_hear(named);
    assert_memory_equal(text, "HTTP/1.1 200 ", 13); /* no page can ask here */
    free(text);
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = 0;
    assert_err(listen_unix(far, &e) < 0, &e, ERR_BAD_INPUT, "at most");
    test_dir_free(dir);
}

/* A connection without an address. */
static void test_adopt(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i < 3; i++) {
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
        assert_good(http_adopt(http, fd[1], &e), &e);
        assert_plain(fd[0]);
    }
}

/* One address that takes all connections; one that is shut out for good. */
static void test_per_address(void **state)
{
    int fd[2];
    char text[2048];
    (void)state;
    http_free(http);
    http = make(2, SHORT_US);
    int port = listen_here();
    for (int i = 0; i < 2; i++) {
        fd[i] = caller_dial(port);
        caller_put(fd[i], HEAD("GET /plain") "\r\n");
        take(fd[i], "plain", text, sizeof text);
        assert_non_null(strstr(text, "200 OK"));
    }
    int third = caller_dial(port);
    caller_put(third, HEAD("GET /plain") CLOSE "\r\n");
    take(third, NULL, text, sizeof text);
    assert_string_equal(text, "");
    close(third);
    close(fd[0]);
    int64_t end = clock_us() + 60 * 1000 * 1000;
    while (watch_count(http->watch) > 1 && clock_us() < end)
        usleep(1000);
    for (text[0] = 0; !strstr(text, "200 OK") && clock_us() < end;) {
        int again = caller_dial(port);
        caller_put(again, HEAD("GET /plain") CLOSE "\r\n");
        take(again, NULL, text, sizeof text);
        close(again);
    }
    assert_non_null(strstr(text, "200 OK"));
    close(fd[1]);
}

/* A body that stops coming holds its connection and memory for ever. */
static void test_slow_body(void **state)
{
    char text[2048];
    (void)state;
    int fd = caller_dial(listen_here());
    caller_put(fd,
               HEAD("POST /echo") "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
    take(fd, NULL, text, sizeof text);
    assert_int_equal(strncmp(text, "HTTP/1.1 408 ", 13), 0);
    assert_non_null(strstr(text, "\"code\":\"request_timeout\""));
    close(fd);
}

/* A silent stream that a proxy would cut; one that is broken where an event stands. */
static void test_ping(void **state)
{
    char text[2048];
    (void)state;
    int fd = caller_dial(listen_here());
    caller_put(fd, HEAD("GET /silent") "\r\n");
    take(fd, ": ping\n\n\r\n8\r\n: ping\n\n", text, sizeof text);
    const char *event = strstr(text, "data: 1\n\n"), *ping = strstr(text, ": ping\n\n");
    assert_non_null(event);
    assert_non_null(ping);
    assert_true(event < ping);
    assert_non_null(strstr(ping + 1, ": ping\n\n"));
    close(fd);
}

/* A browser that may not ask what it was told it may; a preflight that ends the connection. */
static void test_preflight(void **state)
{
    char text[4096];
    (void)state;
    int fd = caller_dial(listen_here());
    caller_put(
        fd, HEAD("OPTIONS /echo") "Origin: http://page.example\r\n"
                                  "Access-Control-Request-Method: POST\r\n\r\n" HEAD("GET /plain")
                                      CLOSE "Origin: http://page.example\r\n\r\n");
    take(fd, NULL, text, sizeof text);
    assert_int_equal(strncmp(text, "HTTP/1.1 204 ", 13), 0);
    assert_non_null(strstr(text, "Access-Control-Allow-Methods: POST"));
    assert_non_null(strstr(text, "Access-Control-Allow-Origin: http://page.example"));
    assert_non_null(strstr(text, "HTTP/1.1 200 "));
    close(fd);
}

/* A process of its own that serves until it is killed, at the latest with this one. */
static pid_t start_apart(int *port)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        start(BODY_US);
        int at = listen_here();
        if (write(out[1], &at, sizeof at) != sizeof at)
            _exit(1);
        for (;;)
            pause();
    }
    close(out[1]);
    assert_int_equal(read(out[0], port, sizeof *port), sizeof *port);
    close(out[0]);
    return child;
}

/* The server stands still from the middle of N bodies, whose rest comes meanwhile, to behind their
 * deadline: how many are answered. *took_us: what the clients took of their time, at the most. */
static int answered_after_a_stop(int n, int64_t *took_us)
{
    int port, fd[16], n_good = 0;
    char text[2048];
    pid_t server = start_apart(&port);
    int64_t begin = clock_us();
    for (int i = 0; i < n; i++) {
        fd[i] = caller_dial(port);
        caller_put(fd[i], HEAD("POST /echo") CLOSE JSON "Content-Length: 2\r\n\r\n{");
    }
    usleep(200 * 1000); /* until the headers were read: their deadline is a longer one */
    kill(server, SIGSTOP);
    for (int i = 0; i < n; i++)
        caller_put(fd[i], "}");
    *took_us = clock_us() - begin;
    usleep(BODY_US + BODY_US / 2);
    kill(server, SIGCONT);
    for (int i = 0; i < n; i++) {
        take(fd[i], NULL, text, sizeof text);
        n_good += strncmp(text, "HTTP/1.1 200 ", 13) == 0;
        close(fd[i]);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return n_good;
}

/* Clients that are told that they were too slow by a server that was itself. */
static void test_standing_still(void **state)
{
    enum { N = 16 };
    int64_t took_us = BODY_US;
    int n = 0;
    (void)state;
    for (int i = 0; i < 20 && n < N && took_us >= BODY_US; i++)
        n = answered_after_a_stop(N, &took_us);
    assert_int_equal(n, N);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_unix),
        CASE(test_adopt),
        CASE(test_per_address),
        CASE(test_slow_body),
        CASE(test_ping),
        CASE(test_preflight),
        cmocka_unit_test(test_standing_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
