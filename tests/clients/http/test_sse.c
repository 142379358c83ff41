/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of events, whole and cut at every byte.
 */
#include "clients/http/sse.h"

#include <string.h>

#include "tests/lib/test.h"

static int note(void *ctx, const char *data, size_t n, struct err *e)
{
    struct buf *b = ctx;
    (void)e;
    assert_int_equal(n, strlen(data));
    buf_printf(b, "<%s>", data);
    return 0;
}

static void check(const char *stream, const char *want)
{
    size_t n = strlen(stream);
    for (size_t step = 1; step <= n; step++) {
        struct err e = ERR_INIT;
        struct sse s;
        struct buf b;
        sse_init(&s);
        buf_init(&b, 1 << 20);
        buf_str(&b, "");
        for (size_t at = 0; at < n; at += step)
            assert_good(sse_feed(&s, stream + at, n - at < step ? n - at : step, note, &b, &e), &e);
        assert_string_equal(b.data, want);
        buf_release(&b);
        sse_release(&s);
    }
}

/* Catches: an event lost or told twice where a read ends, a line's end of another system, a space
 * that belongs to the data or one that does not. */
static void test_streams(void **state)
{
    (void)state;
    check("data: a\n\ndata: b\n\n", "<a><b>");
    check("data:a\r\n\r\ndata:  b\r\n\r\n", "<a>< b>");
    check("data: a\r\rdata: b\r\r", "<a><b>");
    check("data: a\ndata: b\ndata\n\n", "<a\nb\n>");
    check(": keep\n\nevent: x\nid: 7\ndata: [DONE]\n\n", "<[DONE]>");
    check("data:\n\n\n\ndatum: no\n\ndat\n\n", "<>");
    check("data: cut", "");
}

static int refuse(void *ctx, const char *data, size_t n, struct err *e)
{
    ++*(int *)ctx;
    (void)data;
    (void)n;
    return err_set(e, ERR_IO, "no more");
}

/* Catches: a reader that is told on after it said no. */
static void test_refusal(void **state)
{
    static const char stream[] = "data: a\n\ndata: b\n\n";
    struct err e = ERR_INIT;
    struct sse s;
    int n_told = 0;
    (void)state;
    sse_init(&s);
    assert_err(sse_feed(&s, stream, strlen(stream), refuse, &n_told, &e), &e, ERR_IO, "no more");
    assert_int_equal(n_told, 1);
    sse_release(&s);
}

/* Catches: a line without an end that is held without a ceiling. */
static void test_ceiling(void **state)
{
    static char piece[1 << 20];
    struct err e = ERR_INIT;
    struct sse s;
    int n_told = 0, rc = 0;
    (void)state;
    memset(piece, 'x', sizeof piece);
    sse_init(&s);
    for (int i = 0; i < 20 && !rc; i++)
        rc = sse_feed(&s, piece, sizeof piece, refuse, &n_told, &e);
    assert_err(rc, &e, ERR_TOO_LARGE, "a line of the stream");
    sse_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
