/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of a model on a terminal: cleaned, nothing is left that a terminal obeys; styled, the
 * pieces that it comes in change nothing, and without colours it stays as it is.
 */
#include <string.h>

#include "clients/remote/markdown.h"
#include "clients/remote/term.h"
#include "engine/token/utf8.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_BYTES = 1 << 22, LONGEST = 4096 };

static void styled(const struct term *t, const char *p, size_t n, size_t step, struct buf *out)
{
    struct markdown m;
    buf_init(out, OUT_BYTES);
    markdown_init(&m, t);
    for (size_t i = 0; i < n; i += step)
        markdown_put(&m, out, p + i, n - i < step ? n - i : step);
    markdown_end(&m, out);
}

static bool is_same(const struct buf *b, const char *p, size_t n)
{
    return b->len == n && (!n || !memcmp(b->data, p, n));
}

static void try_clean(const char *text, size_t n, bool keeps_lines)
{
    struct buf b;
    buf_init(&b, OUT_BYTES);
    term_clean(&b, text, n, keeps_lines);
    ASSERT(!b.failed && utf8_valid((const uint8_t *)b.data, b.len) == b.len);
    for (size_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.data[i];
        ASSERT((c >= 0x20 && c != 0x7f) || (keeps_lines && (c == '\n' || c == '\t')));
        ASSERT(c != 0xc2 || (unsigned char)b.data[i + 1] >= 0xa0); /* C1 */
    }
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct term plain = {.out = NULL}, colored = {.is_tty = true, .has_color = true};
    const char *text = (const char *)data;
    struct buf whole, cut;
    if (size > LONGEST)
        return 0;
    styled(&plain, text, size, 3, &whole);
    ASSERT(is_same(&whole, text, size));
    buf_release(&whole);
    styled(&colored, text, size, size + 1, &whole);
    styled(&colored, text, size, 1, &cut);
    ASSERT(is_same(&whole, cut.data, cut.len));
    buf_release(&whole);
    buf_release(&cut);
    try_clean(text, size, false);
    try_clean(text, size, true);
    return 0;
}
