/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a connection whose request is refused by its headers: clients keep a pool of
 * them, and one that is closed at each refusal costs a handshake when the server is busiest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/http.h"
#include "server/http/listen.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

enum { DROPPED = 64 << 10 };

static void on_echo(struct call *c)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_printf(&b, "took %zu", call_request(c)->n_body);
    call_reply(c, 200, "text/plain", &b);
}

static const struct route table[] = {
    ROW("plain", "GET", "/plain", 0, 0, on_echo),
    ROW("echo", "POST", "/echo", 0, 1 << 20, on_echo),
};

static struct http *http;
static int port;

static int setup(void **state)
{
    struct err e = ERR_INIT;
    struct listen_at at;
    struct http_options o = {
        .route = table, .n_route = sizeof table / sizeof *table, .n_thread = 2, .max_conn = 16};
    (void)state;
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
    return 0;
}

/* All that is answered to `request` and so many bytes of `x`, until the server closes. */
static char *ask(const char *request, size_t n_more, const char *last)
{
    int fd = caller_dial(port);
    char *more = malloc(n_more + 1);
    memset(more, 'x', n_more);
    caller_put(fd, request);
    (void)!send(fd, more, n_more, MSG_NOSIGNAL);
    caller_put(fd, last);
    free(more);
    return caller_hear(fd);
}

#define NEXT HEAD("GET /plain") "Connection: close\r\n\r\n"

/* A connection that is closed although its refused body is short; a body that is taken for the next
 * request, or reaches a handler. */
static void test_short_bodies_are_dropped(void **state)
{
    static const struct {
        const char *headers, *body;
        const char *status;
    } c[] = {
        {HEAD("POST /none") JSON "Content-Length: 2\r\n\r\n", "{}", "HTTP/1.1 404 "},
        {HEAD("PUT /echo") JSON "Content-Length: 5\r\n\r\n", "GET /", "HTTP/1.1 405 "},
        {HEAD("POST /echo") "Content-Length: 2\r\n\r\n", "{}", "HTTP/1.1 415 "},
        {HEAD("POST /%00") JSON "Content-Length: 2\r\n\r\n", "{}", "HTTP/1.1 400 "},
        {HEAD("POST /none") JSON "Transfer-Encoding: chunked\r\n\r\n",
         "3\r\nGET\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 404 "},
        {HEAD("GET /plain") JSON "Content-Length: 2\r\n\r\n", "{}", "HTTP/1.1 413 "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char request[512];
        snprintf(request, sizeof request, "%s%s", c[i].headers, c[i].body);
        char *text = ask(request, 0, NEXT);
        if (strncmp(text, c[i].status, strlen(c[i].status)) != 0 ||
            caller_count(text, "HTTP/1.1 ") != 2 || !strstr(text, "took 0") ||
            !strstr(text, "{\"error\":{"))
            fail_msg("%s: %s", request, text);
        free(text);
    }
    char headers[256];
    snprintf(headers, sizeof headers, HEAD("POST /none") JSON "Content-Length: %d\r\n\r\n",
             DROPPED);
    char *text = ask(headers, DROPPED, NEXT);
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 2);
    assert_non_null(strstr(text, "took 0"));
    free(text);
}

/* A refusal that reads a long body before it speaks; one that goes on behind what it did not read.
 */
static void test_long_bodies_are_not_read(void **state)
{
    char headers[256];
    (void)state;
    snprintf(headers, sizeof headers, HEAD("POST /none") JSON "Content-Length: %d\r\n\r\n",
             DROPPED + 1);
    char *text = ask(headers, 0, ""); /* nothing of it was sent, and the answer is there */
    assert_int_equal(strncmp(text, "HTTP/1.1 404 ", 13), 0);
    assert_non_null(strstr(text, "Connection: close"));
    free(text);
    snprintf(headers, sizeof headers,
             HEAD("POST /none") JSON "Transfer-Encoding: chunked\r\n\r\n%x\r\n", DROPPED + 1);
    text = ask(headers, DROPPED + 1, "\r\n0\r\n\r\n" NEXT);
    assert_int_equal(strncmp(text, "HTTP/1.1 404 ", 13), 0);
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 1);
    free(text);
}

/* A client that asks before it sends is told to go on, only to be refused then. */
static void test_who_asks_first_is_told_at_once(void **state)
{
    (void)state;
    char *text =
        ask(HEAD("POST /none") JSON "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", 0, "");
    assert_int_equal(strncmp(text, "HTTP/1.1 404 ", 13), 0);
    assert_int_equal(caller_count(text, "HTTP/1.1 "), 1);
    free(text);
}

static bool is_linked_statically(void)
{
    char line[4096];
    bool is_shared = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        is_shared |= strstr(line, "libmicrohttpd.so") != NULL;
    if (f)
        fclose(f);
    return !is_shared;
}

/* An answer that the library makes by itself, and that no client of this API can read: a page of
 * HTML. */
static void test_what_is_no_request_has_an_error_object(void **state)
{
    static const struct {
        const char *request;
        size_t n_more;
        const char *last, *status, *code;
    } c[] = {
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nBroken\r\n\r\n", 0, "", "HTTP/1.1 400 ",
         "bad_request"},
        {"GET /plain HTTP/9.9\r\nHost: localhost\r\n\r\n", 0, "", "HTTP/1.1 505 ", "bad_request"},
        {"GET /plain\tHTTP/1.1 x\r\nHost: localhost\r\n\r\n", 0, "", "HTTP/1.1 400 ",
         "bad_request"},
        {"GET /plain HTTP/1.1\r\nHost: localhost\r\nX: ", 40000, "\r\n\r\n", "HTTP/1.1 431 ",
         "request_too_large"},
        {"GET /", 40000, " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 414 ",
         "request_too_large"},
        {"GET /plain HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 0, "", "HTTP/1.1 400 ",
         "bad_request"},
        {"GET /plain HTTP/1.1\r\n\r\n", 0, "", "HTTP/1.1 400 ", "bad_request"},
        {HEAD("POST /echo") JSON "Transfer-Encoding: chunked\r\n\r\nno size\r\n", 0, "",
         "HTTP/1.1 400 ", "bad_request"},
    };
    (void)state;
    if (!is_linked_statically()) {
        print_message("a shared libmicrohttpd answers such requests by itself: skipped\n");
        skip();
    }
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char code[64], *text = ask(c[i].request, c[i].n_more, c[i].last);
        snprintf(code, sizeof code, "\"param\":null,\"code\":\"%s\"}}", c[i].code);
        if (strncmp(text, c[i].status, strlen(c[i].status)) != 0 ||
            !strstr(text, "Connection: close") || !strstr(text, "Content-Type: application/json") ||
            !strstr(text, "{\"error\":{\"message\":\"") || !strstr(text, "\"type\":\"invalid") ||
            !strstr(text, code) || strchr(text, '<'))
            fail_msg("%.60s: %s", c[i].request, text);
        free(text);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_short_bodies_are_dropped),
        CASE(test_long_bodies_are_not_read),
        CASE(test_who_asks_first_is_told_at_once),
        CASE(test_what_is_no_request_has_an_error_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
