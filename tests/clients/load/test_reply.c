/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers cut at every byte: what is understood must not depend on how they came.
 */
#include "clients/load/reply.h"

#include <string.h>

#include "clients/load/answer.h"
#include "tests/lib/test.h"

struct seen {
    enum load_reply_got got;
    char body[256];
    size_t n_body, n_left;
};

/* Feeds [0, cut) and then the rest. */
static struct seen feed(struct load_reply *r, const char *text, size_t n, size_t cut)
{
    struct seen s = {.got = LOAD_REPLY_WANTS};
    const char *at = text, *body;
    size_t n_body;
    for (int half = 0; half < 2; half++) {
        const char *end = half ? text + n : text + cut;
        while ((s.got = load_reply_next(r, &at, end, &body, &n_body)) == LOAD_REPLY_BODY) {
            assert_true(s.n_body + n_body < sizeof s.body);
            memcpy(s.body + s.n_body, body, n_body);
            s.n_body += n_body;
        }
        if (s.got != LOAD_REPLY_WANTS)
            break;
    }
    s.n_left = (size_t)(text + n - at);
    return s;
}

static void check(const char *text, enum load_reply_got want, int status, const char *body)
{
    size_t n = strlen(text);
    for (size_t cut = 0; cut <= n; cut++) {
        struct load_reply r;
        load_reply_init(&r);
        struct seen s = feed(&r, text, n, cut);
        assert_int_equal(s.got, want);
        if (want != LOAD_REPLY_BAD) {
            assert_int_equal(r.status, status);
            assert_int_equal(s.n_body, strlen(body));
            assert_memory_equal(s.body, body, s.n_body);
        }
        load_reply_release(&r);
    }
}

/* Catches: a body cut short or run over, in each of the three framings. */
static void test_framings(void **state)
{
    (void)state;
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", LOAD_REPLY_DONE, 200, "hello");
    check("HTTP/1.1 200 OK\r\ncontent-LENGTH:0\r\n\r\n", LOAD_REPLY_DONE, 200, "");
    check("HTTP/1.1 204 No Content\r\n\r\n", LOAD_REPLY_DONE, 204, "");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n",
          LOAD_REPLY_DONE, 200, "abc0123456789");
    check("HTTP/1.1 200 OK\r\n\r\nuntil the end", LOAD_REPLY_WANTS, 200, "until the end");
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}",
          LOAD_REPLY_DONE, 503, "{}");
    check("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", LOAD_REPLY_DONE, 200, "x");
}

/* Catches: a framing that cannot be read and is guessed. */
static void test_bad(void **state)
{
    (void)state;
    check("HTTP/2 200 OK\r\n\r\n", LOAD_REPLY_BAD, 0, "");
    check("SSH-2.0-OpenSSH\r\n\r\n", LOAD_REPLY_BAD, 0, "");
    check("HTTP/1.1 2x0 OK\r\n\r\n", LOAD_REPLY_BAD, 0, "");
    check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", LOAD_REPLY_BAD, 0, "");
    check("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", LOAD_REPLY_BAD, 0, "");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", LOAD_REPLY_BAD, 0, "");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", LOAD_REPLY_BAD, 0,
          "");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
          LOAD_REPLY_BAD, 0, "");
}

/* Catches: headers that grow without end. */
static void test_endless_head(void **state)
{
    (void)state;
    struct load_reply r;
    load_reply_init(&r);
    enum load_reply_got got = LOAD_REPLY_WANTS;
    const char *body, line[] = "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    size_t n, sent = 0;
    while (got == LOAD_REPLY_WANTS && sent < 2 * LOAD_REPLY_HEADERS_BYTES_MAX) {
        const char *at = line;
        got = load_reply_next(&r, &at, line + sizeof line - 1, &body, &n);
        sent += sizeof line - 1;
    }
    assert_int_equal(got, LOAD_REPLY_BAD);
    load_reply_release(&r);
}

/* Catches: headers that decide what becomes of the connection and of the body. */
static void test_headers(void **state)
{
    (void)state;
    const char *text = "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Type:  text/event-stream; "
                       "charset=utf-8\r\nContent-Length: 0\r\n\r\n";
    struct load_reply r;
    load_reply_init(&r);
    assert_int_equal(feed(&r, text, strlen(text), 0).got, LOAD_REPLY_DONE);
    assert_true(r.closes && r.is_event_stream);
    load_reply_clear(&r);
    text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore";
    assert_int_equal(feed(&r, text, strlen(text), 0).n_left, 4);
    assert_true(!r.closes && !r.is_event_stream);
    load_reply_release(&r);
}

/* Catches: an event that is lost or counted twice where the bytes are cut. */
static void test_events(void **state)
{
    (void)state;
    const char *text = ": ping\n\nevent: x\ndata: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n"
                       "data:{\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}\n\n"
                       "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n"
                       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                       "\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    size_t n = strlen(text);
    struct load_answer a;
    load_answer_init(&a);
    for (size_t cut = 0; cut <= n; cut++) {
        load_answer_clear(&a, true);
        int n_event = load_answer_feed(&a, text, cut);
        n_event += load_answer_feed(&a, text + cut, n - cut);
        load_answer_done(&a);
        assert_int_equal(n_event, 2);
        assert_true(a.is_over && a.is_finished && !a.is_bad && !a.has_error);
        assert_int_equal(a.tok_in, 3);
        assert_int_equal(a.tok_out, 2);
    }
    load_answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framings),     cmocka_unit_test(test_bad),
        cmocka_unit_test(test_endless_head), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
