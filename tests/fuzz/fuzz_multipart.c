/* SPDX-License-Identifier: Apache-2.0
 *
 * Multipart bodies: the first byte says into what pieces the rest is cut. However it is cut, the
 * parts are the same, and as many end as begin.
 */
#include "api/multipart.h"

#include <string.h>

#include "engine/base/buf.h"
#include "tests/fuzz/fuzz.h"

struct seen {
    struct buf text;
    int n_begin, n_end;
};

static int on_begin(void *ctx, const char *name, const char *file, struct api_error *e)
{
    struct seen *s = ctx;
    (void)e;
    s->n_begin++;
    return buf_printf(&s->text, "[%s|%s|", name, file ? file : "");
}

static int on_data(void *ctx, const char *p, size_t n, struct api_error *e)
{
    struct seen *s = ctx;
    (void)e;
    return buf_add(&s->text, p, n);
}

static int on_end(void *ctx, struct api_error *e)
{
    struct seen *s = ctx;
    (void)e;
    s->n_end++;
    return 0;
}

static int read_body(const char *p, size_t n, size_t step, struct seen *s)
{
    struct multipart m;
    struct api_error e = {0};
    const struct multipart_sink sink = {on_begin, on_data, on_end, s};
    *s = (struct seen){.n_begin = 0};
    buf_init(&s->text, 1 << 20);
    if (multipart_init(&m, "multipart/form-data; boundary=xyz", &sink, &e))
        return -1;
    for (size_t at = 0; at < n; at += step)
        if (multipart_push(&m, p + at, n - at < step ? n - at : step, &e))
            return -1;
    return multipart_finish(&m, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, cut;
    if (size < 2)
        return 0;
    const char *p = (const char *)data + 1;
    int a = read_body(p, size - 1, size, &whole);
    int b = read_body(p, size - 1, 1u + data[0] % 32, &cut);
    ASSERT(a == b && whole.n_begin == cut.n_begin && whole.n_end <= whole.n_begin);
    ASSERT(a || whole.n_begin == whole.n_end);
    ASSERT(a || (whole.text.len == cut.text.len &&
                 (!whole.text.len || memcmp(whole.text.data, cut.text.data, cut.text.len) == 0)));
    buf_release(&whole.text);
    buf_release(&cut.text);
    return 0;
}
