/* SPDX-License-Identifier: Apache-2.0
 *
 * A unit of the double array: bits 0 to 7 the byte that leads to it, bit 8 whether an entry ends
 * there, from bit 10 on (bit 9: in steps of 256) where its children begin, as the exclusive or of
 * positions. A unit with bit 31 is a value: where a replacement begins.
 *
 * The array is padded with empty units to a multiple of 256, so that a byte never leads out of it
 * from a place within.
 */
#include "engine/token/charsmap.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "engine/base/mem.h"
#include "engine/token/utf8.h"

enum {
    CLUSTER_BYTES = 6, /* as many, and a cluster is looked up by its characters */
    UNIT_LEAF = 1 << 8,
    UNIT_BLOCK = 256,
};

struct charsmap {
    uint32_t *unit; /* owned */
    char *put;      /* owned: the replacements, terminated */
    size_t n_unit, put_len;
    bool stays[0x80]; /* an ASCII character that is a cluster of its own, and not replaced */
};

static uint32_t label_of(uint32_t unit)
{
    return unit & 0x800000ffu;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

static uint32_t value_of(uint32_t unit)
{
    return unit & 0x7fffffffu;
}

/* ---- loading ---- */

static int digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The bytes of a base64 text, into `out` with room for them; -1 when it is none. */
static int decode(const char *text, size_t len, uint8_t *out, size_t *n_out)
{
    uint32_t bits = 0;
    size_t n = 0, n_pad = 0;
    if (len % 4)
        return -1;
    while (n_pad < 2 && len && text[len - 1] == '=')
        len--, n_pad++;
    for (size_t i = 0; i < len; i++) {
        int d = digit_of((uint8_t)text[i]);
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4)
            out[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *n_out = n;
    return 0;
}

static uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The parts of the blob: the array's size in bytes, the array, the replacements. */
static int take_parts(struct charsmap *m, const uint8_t *blob, size_t len, struct err *e)
{
    size_t trie_bytes = len < 4 ? 0 : le32(blob);
    if (trie_bytes < 4 || trie_bytes % 4 || trie_bytes > len - 4)
        return err_set(e, ERR_BAD_INPUT,
                       "the charsmap of %zu bytes says that its trie takes %zu of them", len,
                       trie_bytes);
    size_t n = trie_bytes / 4;
    m->n_unit = (n + UNIT_BLOCK - 1) / UNIT_BLOCK * UNIT_BLOCK;
    m->put_len = len - 4 - trie_bytes;
    m->unit = try_alloc(m->n_unit, sizeof *m->unit, "trie of a charsmap", e);
    m->put = try_alloc(m->put_len + 1, 1, "replacements of a charsmap", e);
    if (!m->unit || !m->put)
        return -1;
    for (size_t i = 0; i < n; i++)
        m->unit[i] = le32(blob + 4 + 4 * i);
    memcpy(m->put, blob + 4 + trie_bytes, m->put_len);
    if (utf8_valid((const uint8_t *)m->put, m->put_len) != m->put_len)
        return err_set(e, ERR_BAD_INPUT, "the replacements of the charsmap are not UTF-8");
    return 0;
}

static int check_value(const struct charsmap *m, size_t at, struct err *e)
{
    uint32_t value = value_of(m->unit[at]);
    if (value > m->put_len || ((uint8_t)m->put[value] & 0xc0) == 0x80)
        return err_set(e, ERR_BAD_INPUT,
                       "unit %zu of the charsmap's trie leads to byte %u of %zu bytes of "
                       "replacements",
                       at, value, m->put_len);
    if (strnlen(m->put + value, CHARSMAP_MAX_PUT + 1) > CHARSMAP_MAX_PUT)
        return err_set(e, ERR_TOO_LARGE, "a replacement of the charsmap has more than %d bytes",
                       CHARSMAP_MAX_PUT);
    return 0;
}

/* Each unit that a byte may lead to: its children begin, and its value stands, in the array. */
static int check_units(const struct charsmap *m, struct err *e)
{
    for (size_t i = 0; i < m->n_unit; i++) {
        uint32_t unit = m->unit[i], label = label_of(unit);
        size_t below = i ^ offset_of(unit);
        if (i && (label == 0 || label > 0xff))
            continue;
        if (below >= m->n_unit)
            return err_set(e, ERR_BAD_INPUT,
                           "unit %zu of the charsmap's trie leads to unit %zu of %zu", i, below,
                           m->n_unit);
        if (i && (unit & UNIT_LEAF) && check_value(m, below, e))
            return -1;
    }
    return 0;
}

/* What the shortest beginning of these bytes leads to, or NULL. */
static const char *find(const struct charsmap *m, const uint8_t *p, uint32_t n)
{
    size_t at = offset_of(m->unit[0]);
    for (uint32_t i = 0; i < n && p[i]; i++) {
        at ^= p[i];
        uint32_t unit = m->unit[at];
        if (label_of(unit) != p[i])
            return NULL;
        at ^= offset_of(unit);
        if (unit & UNIT_LEAF)
            return m->put + value_of(m->unit[at]);
    }
    return NULL;
}

static int fill(struct charsmap *m, const char *base64, size_t len, struct err *e)
{
    if (len / 4 * 3 > CHARSMAP_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "the charsmap has more than %d bytes", CHARSMAP_MAX_BYTES);
    size_t n = 0;
    uint8_t *blob = try_alloc(len / 4 * 3 + 3, 1, "charsmap", e);
    if (!blob)
        return -1;
    int rc = decode(base64, len, blob, &n) ? err_set(e, ERR_BAD_INPUT, "the charsmap is no base64")
             : take_parts(m, blob, n, e)   ? -1
                                           : check_units(m, e);
    mem_free(blob);
    for (unsigned c = 0; !rc && c < sizeof m->stays; c++)
        m->stays[c] = c != '\r' && !find(m, &(uint8_t){(uint8_t)c}, 1);
    return rc;
}

struct charsmap *charsmap_new(const char *base64, size_t len, struct err *e)
{
    struct charsmap *m = xcalloc(1, sizeof *m);
    if (fill(m, base64, len, e) == 0)
        return m;
    charsmap_free(m);
    return NULL;
}

void charsmap_free(struct charsmap *m)
{
    if (!m)
        return;
    mem_free(m->unit);
    mem_free(m->put);
    free(m);
}

/* ---- a text ---- */

/* Where the grapheme cluster ends that begins at lo. */
static uint32_t cluster_end(const struct piece *in, uint32_t lo)
{
    uint32_t last, next;
    utf8proc_int32_t state = 0;
    uint32_t hi = lo + utf8_get(in->p + lo, &last);
    while (hi < in->len) {
        unsigned n = utf8_get(in->p + hi, &next);
        if (utf8proc_grapheme_break_stateful((int32_t)last, (int32_t)next, &state))
            break;
        hi += n;
        last = next;
    }
    return hi;
}

struct writer {
    const struct charsmap *m;
    const struct piece *in;
    struct piece_buf *out;
    uint32_t done; /* written so far, of `in` */
};

/* Replaces [lo, hi), if there is something to replace it by. */
static bool replace(struct writer *w, uint32_t lo, uint32_t hi)
{
    const char *put = find(w->m, w->in->p + lo, hi - lo);
    if (!put)
        return false;
    piece_buf_copy(w->out, w->in, w->done, lo);
    piece_buf_put(w->out, put, (uint32_t)strlen(put), piece_span(w->in, lo, hi));
    w->done = hi;
    return true;
}

static void replace_chars(struct writer *w, uint32_t lo, uint32_t hi)
{
    while (lo < hi) {
        uint32_t next = lo + utf8_len(w->in->p[lo]);
        replace(w, lo, next);
        lo = next;
    }
}

bool charsmap_apply(const struct charsmap *m, const struct piece *in, struct piece_buf *out)
{
    struct writer w = {m, in, out, 0};
    const uint8_t *p = in->p;
    bool changed = false;
    for (uint32_t lo = 0, hi; lo < in->len; lo = hi) {
        hi = lo + 1;
        if (p[lo] < 0x80 && m->stays[p[lo]] && (hi == in->len || p[hi] < 0x80))
            continue;
        hi = cluster_end(in, lo);
        if (hi - lo >= CLUSTER_BYTES || !replace(&w, lo, hi))
            replace_chars(&w, lo, hi);
        changed |= w.done > lo;
    }
    if (changed)
        piece_buf_copy(out, in, w.done, in->len);
    return changed;
}
