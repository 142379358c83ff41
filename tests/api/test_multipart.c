/* SPDX-License-Identifier: Apache-2.0
 *
 * Multipart bodies: the same parts however the bytes are cut; data that looks like a boundary;
 * everything malformed refused. Faults: a byte lost or doubled where a boundary almost stands, a
 * header that grows without end, a body that ends early and counts as whole.
 */
#include "api/multipart.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "tests/lib/test.h"

static const char type[] = "multipart/form-data; boundary=xyz";

static int on_begin(void *ctx, const char *name, const char *file, struct api_error *e)
{
    (void)e;
    return buf_printf(ctx, "[%s|%s|", name, file ? file : "-");
}

static int on_data(void *ctx, const char *p, size_t n, struct api_error *e)
{
    (void)e;
    return buf_add(ctx, p, n);
}

static int on_end(void *ctx, struct api_error *e)
{
    (void)e;
    return buf_str(ctx, "]");
}

/* 0 and the parts in out, or -1. step: bytes at a time. */
static int read_body(const char *body, size_t n, size_t step, struct buf *out)
{
    struct multipart m;
    struct api_error e = {0};
    const struct multipart_sink sink = {on_begin, on_data, on_end, out};
    buf_clear(out);
    if (multipart_init(&m, type, &sink, &e))
        return -1;
    for (size_t at = 0; at < n; at += step)
        if (multipart_push(&m, body + at, n - at < step ? n - at : step, &e))
            return -1;
    return multipart_finish(&m, &e);
}

#define PART(name) "--xyz\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void any_cut(void **state)
{
    static const char body[] = "preamble\r\n" PART(
        "purpose") "fine-tune\r\n"
                   "--xyz\r\ncontent-type: text/plain\r\n"
                   "CONTENT-DISPOSITION: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\n\r\n"
                   "\r\n--xy\r\r\n--x\r\n-\n\r\n--xyZ\r\n--xyz\r\n" PART(
                       "empty") "\r\n--xyz--\r\nafter";
    static const char want[] = "[purpose|-|fine-tune][file|a \"b\".jsonl|\r\n--xy\r\r\n--x\r\n-\n"
                               "\r\n--xyZ][empty|-|]";
    struct buf out;
    (void)state;
    buf_init(&out, 1 << 16);
    for (size_t step = 1; step < sizeof body; step++) {
        assert_int_equal(read_body(body, sizeof body - 1, step, &out), 0);
        assert_string_equal(out.data, want);
    }
    for (size_t n = 0; n < sizeof body - 1 - strlen("\r\nafter"); n++)
        if (read_body(body, n, n + 1, &out) == 0)
            fail_msg("cut at %zu, and taken as whole", n);
    buf_release(&out);
}

/* Browsers write a quote and the ends of lines so, and leave every other '%' alone. */
static void percent(void **state)
{
    static const struct {
        const char *written, *read;
    } name[] = {{"a %22b%22.jsonl", "a \"b\".jsonl"},
                {"%0D%0a", "\r\n"},
                {"100%", "100%"},
                {"%2", "%2"},
                {"%41%25", "%41%25"},
                {"%%22", "%\""},
                {"\\\"%22\\\\", "\"\"\\"}};
    struct buf out;
    char body[256], want[256];
    (void)state;
    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        int n = snprintf(body, sizeof body,
                         "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\""
                         "\r\n\r\nx\r\n--xyz--",
                         name[i].written);
        snprintf(want, sizeof want, "[file|%s|x]", name[i].read);
        assert_int_equal(read_body(body, (size_t)n, 5, &out), 0);
        assert_string_equal(out.data, want);
    }
    buf_release(&out);
}

static void malformed(void **state)
{
    static const char *const bodies[] = {
        "",
        "--xyz",
        "--xyzz\r\n",
        "--xyz\n\n",
        "--xyz\r\n\r\n--xyz--",
        "--xyz\r\nContent-Disposition: form-data\r\n\r\n\r\n--xyz--",
        "--xyz\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n\r\n--xyz--",
        "--xyz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n\r\n--xyz--",
        PART("a") "x\r\n--xyz",
        PART("a") "x\r\n--xyz-x",
    };
    static const char *const types[] = {"",
                                        "application/json",
                                        "multipart/form-data",
                                        "multipart/form-data; boundary=",
                                        "multipart/form-data; boundary=a\"b",
                                        "multipart/mixed; boundary=xyz"};
    struct buf out;
    struct multipart m;
    struct api_error e = {0};
    const struct multipart_sink sink = {on_begin, on_data, on_end, &out};
    (void)state;
    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (read_body(bodies[i], strlen(bodies[i]), 3, &out) == 0)
            fail_msg("taken: %s", bodies[i]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (multipart_init(&m, types[i], &sink, &e) == 0)
            fail_msg("taken: %s", types[i]);
    assert_int_equal(
        multipart_init(&m, "Multipart/Form-Data; charset=x; Boundary=\"a b\"", &sink, &e), 0);
    buf_release(&out);
}

static void bounds(void **state)
{
    struct buf body, out;
    (void)state;
    buf_init(&body, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_str(&body, "--xyz\r\n");
    for (int i = 0; i < MULTIPART_HEADER_MAX; i++)
        buf_char(&body, 'h');
    assert_int_equal(read_body(body.data, body.len, 100, &out), -1);
    buf_clear(&body);
    for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
        buf_str(&body, PART("a") "\r\n");
    buf_str(&body, "--xyz--");
    assert_int_equal(read_body(body.data, body.len, 100, &out), -1);
    buf_release(&body);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut),
        cmocka_unit_test(percent),
        cmocka_unit_test(malformed),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
