/* SPDX-License-Identifier: Apache-2.0
 *
 * NFC, NFD, NFKC, NFKD in linear time. The text is cut where nothing combines across: before a
 * character whose decomposition begins with a starter that is neither a mark nor a Hangul vowel
 * or trailing consonant. Each such cluster is decomposed by utf8proc's tables, its marks are put in
 * order by counting (utf8proc's own ordering is quadratic in a row of marks), and composed.
 *
 * All bytes that come out of a cluster stand for all bytes that went in.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "engine/base/mem.h"
#include "engine/token/normalize.h"
#include "engine/token/utf8.h"

enum { MAX_DECOMPOSED = 32 }; /* the longest of one character has 18 */

struct cluster {
    int32_t *c, *tmp; /* owned */
    size_t n, cap;
    unsigned flags;
};

static bool is_compat(enum normalize_kind kind)
{
    return kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD;
}

static bool is_composed(enum normalize_kind kind)
{
    return kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC;
}

static bool is_jamo_tail(int32_t c)
{
    return c >= 0x1160 && c <= 0x11ff;
}

static bool is_mark(const utf8proc_property_t *p)
{
    return p->category == UTF8PROC_CATEGORY_MN || p->category == UTF8PROC_CATEGORY_MC ||
           p->category == UTF8PROC_CATEGORY_ME;
}

static int ccc(int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

static int decompose(uint32_t c, unsigned flags, int32_t out[MAX_DECOMPOSED])
{
    int boundary = 0;
    int n = (int)utf8proc_decompose_char((int32_t)c, out, MAX_DECOMPOSED, (utf8proc_option_t)flags,
                                         &boundary);
    if (n > 0 && n <= MAX_DECOMPOSED)
        return n;
    out[0] = (int32_t)c;
    return 1;
}

/* Does the character whose decomposition this is begin a cluster? */
static bool begins_cluster(const int32_t *dec)
{
    const utf8proc_property_t *p = utf8proc_get_property(dec[0]);
    return p->combining_class == 0 && !is_mark(p) && !is_jamo_tail(dec[0]);
}

static int reserve(struct cluster *k, size_t n)
{
    if (n <= k->cap)
        return 0;
    size_t cap = 2 * n + 64;
    void *p = try_resize(k->c, cap * sizeof *k->c, "normalization", NULL);
    if (!p)
        return -1;
    k->c = p;
    p = try_resize(k->tmp, cap * sizeof *k->tmp, "normalization", NULL);
    if (!p)
        return -1;
    k->tmp = p;
    k->cap = cap;
    return 0;
}

/* Orders the marks [lo, hi) by their class, equals as they stand: a counting sort when many. */
static void order_marks(struct cluster *k, size_t lo, size_t hi)
{
    if (hi - lo <= 16) {
        for (size_t i = lo + 1; i < hi; i++)
            for (size_t j = i; j > lo && ccc(k->c[j - 1]) > ccc(k->c[j]); j--) {
                int32_t t = k->c[j];
                k->c[j] = k->c[j - 1];
                k->c[j - 1] = t;
            }
        return;
    }
    size_t at[257] = {0};
    for (size_t i = lo; i < hi; i++)
        at[ccc(k->c[i]) + 1]++;
    for (int i = 1; i < 257; i++)
        at[i] += at[i - 1];
    for (size_t i = lo; i < hi; i++)
        k->tmp[at[ccc(k->c[i])]++] = k->c[i];
    memcpy(k->c + lo, k->tmp, (hi - lo) * sizeof *k->c);
}

static void finish_cluster(struct cluster *k, bool compose)
{
    for (size_t i = 0; i < k->n;) {
        size_t lo = i;
        while (i < k->n && ccc(k->c[i]) != 0)
            i++;
        order_marks(k, lo, i);
        i += i == lo;
    }
    if (compose && k->n > 1)
        k->n = (size_t)utf8proc_normalize_utf32(
            k->c, (utf8proc_ssize_t)k->n, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
}

static void put_cluster(struct cluster *k, bool compose, struct piece_buf *out,
                        struct tok_span from)
{
    finish_cluster(k, compose);
    for (size_t i = 0; i < k->n; i++)
        piece_buf_put_char(out, (uint32_t)k->c[i], from);
    k->n = 0;
}

/* The end of the text that surely is in the form already and that nothing behind combines with:
 * ASCII for all forms, up to U+02FF for NFC. */
static uint32_t skip_plain(enum normalize_kind kind, const struct piece *p, uint32_t i)
{
    uint8_t limit = kind == NORMALIZE_NFC ? 0xcc : 0x80;
    uint32_t lo = i;
    while (i < p->len && p->p[i] < limit)
        i++;
    if (i == p->len || i == lo)
        return i;
    return (uint32_t)(utf8_back(p->p + i) - p->p); /* what follows may combine with the last */
}

static int add_char(struct cluster *k, const int32_t *dec, int n)
{
    if (reserve(k, k->n + (size_t)n))
        return -1;
    memcpy(k->c + k->n, dec, (size_t)n * sizeof *dec);
    k->n += (size_t)n;
    return 0;
}

bool normalize_form(enum normalize_kind kind, const struct piece *in, struct piece_buf *out)
{
    struct cluster k = {.flags = is_compat(kind) ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
                                                 : UTF8PROC_DECOMPOSE};
    uint32_t i = skip_plain(kind, in, 0), lo = i;
    if (i == in->len)
        return false;
    piece_buf_copy(out, in, 0, i);
    while (i < in->len) {
        int32_t dec[MAX_DECOMPOSED];
        uint32_t c;
        unsigned len = utf8_get(in->p + i, &c);
        int n = decompose(c, k.flags, dec);
        if (k.n && begins_cluster(dec)) {
            put_cluster(&k, is_composed(kind), out, piece_span(in, lo, i));
            lo = skip_plain(kind, in, i);
            piece_buf_copy(out, in, i, lo);
            if (lo > i) {
                i = lo;
                continue;
            }
        }
        if (add_char(&k, dec, n))
            out->failed = true;
        i += len;
    }
    put_cluster(&k, is_composed(kind), out, piece_span(in, lo, in->len));
    free(k.c);
    free(k.tmp);
    return true;
}
