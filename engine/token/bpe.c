/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece is cut into words where that changes nothing, and each word is looked up whole, then in
 * the cache of the call, and merged when both fail. See bpe.h for why the shortcuts are exact.
 */
#include "engine/token/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/tok_list.h"
#include "engine/token/utf8.h"

enum { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

enum {
    MAX_WHOLE_BYTES = 64, /* longer words are merged without looking */
    MEMO_KEY_BYTES = 23,
    MEMO_IDS = 6,
    MEMO_MIN_TEXT = 2 << 10, /* shorter texts repeat too little */
    MEMO_MAX_SLOTS = 4096,
};

struct memo { /* one cache line: a word and its tokens */
    uint64_t hash;
    uint8_t len, n_id;
    uint8_t key[MEMO_KEY_BYTES];
    uint8_t hi[MEMO_IDS];
    int32_t id[MEMO_IDS];
};

struct bpe_run {
    struct bpe_scratch scratch;
    struct bpe_sym *sym; /* owned */
    struct memo *memo;   /* owned, or NULL */
    size_t cap_sym, memo_mask;
};

/* ---- making one ---- */

void bpe_init(struct bpe *b)
{
    *b = (struct bpe){.unk = -1};
    vocab_init(&b->vocab);
}

void bpe_release(struct bpe *b)
{
    vocab_release(&b->vocab);
    bpe_table_release(&b->table);
    mem_free(b->whole);
    free(b->prefix);
    free(b->suffix);
    *b = (struct bpe){0};
}

static bool is_mark(const struct bpe *b, const uint8_t *p, size_t n)
{
    return n >= b->cut_len && !memcmp(p, b->cut, b->cut_len);
}

/* Does the token hold the mark behind something that is not the mark? */
static bool holds_cut(const struct bpe *b, const uint8_t *p, size_t n)
{
    bool after_other = false;
    for (size_t i = 0; i < n;) {
        bool mark = is_mark(b, p + i, n - i);
        if (mark && after_other)
            return true;
        after_other = !mark;
        i += mark ? b->cut_len : utf8_len(p[i]);
    }
    return false;
}

static void find_cut(struct bpe *b)
{
    static const char *const mark[] = {"\xe2\x96\x81", " "};
    for (size_t i = 0; i < 2 && !b->cut_len; i++) {
        if (vocab_find(&b->vocab, mark[i], strlen(mark[i])) >= 0) {
            b->cut_len = (uint8_t)strlen(mark[i]);
            memcpy(b->cut, mark[i], b->cut_len);
        }
    }
    for (uint32_t i = 0; i < b->table.n_merge && b->cut_len; i++) {
        uint32_t len = 0;
        const uint8_t *p = vocab_text(&b->vocab, (uint32_t)b->table.made[i], &len);
        if (holds_cut(b, p, len))
            b->cut_len = 0;
    }
}

int bpe_finish(struct bpe *b, struct err *e)
{
    b->whole = try_alloc(b->vocab.n_id, 1, "vocabulary", e);
    if (!b->whole)
        return -1;
    for (int i = 0; i < 256; i++) {
        char name[8];
        uint8_t byte = (uint8_t)i;
        b->symbol[i] = i < 128 || b->byte_mode ? vocab_find(&b->vocab, &byte, 1) : -1;
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->fallback[i] = b->byte_fallback ? vocab_find(&b->vocab, name, 6) : -1;
    }
    if (!b->byte_mode && !b->prefix && !b->suffix)
        find_cut(b);
    if (b->ignore_merges && !b->cut_len)
        memset(b->whole, WHOLE_YES, b->vocab.n_id);
    return 0;
}

struct bpe_run *bpe_run_new(const struct bpe *b, size_t text_len, struct err *e)
{
    struct bpe_run *r = xcalloc(1, sizeof *r);
    size_t slots = 64;
    if (text_len < MEMO_MIN_TEXT || b->prefix || b->suffix)
        return r;
    while (slots < MEMO_MAX_SLOTS && slots * 64 < text_len)
        slots *= 2;
    r->memo = try_alloc(slots, sizeof *r->memo, "cache of words", e);
    r->memo_mask = slots - 1;
    if (r->memo)
        return r;
    bpe_run_free(r);
    return NULL;
}

void bpe_run_free(struct bpe_run *r)
{
    if (!r)
        return;
    bpe_scratch_release(&r->scratch);
    mem_free(r->memo);
    free(r->sym);
    free(r);
}

/* ---- symbols ---- */

struct symbols {
    const struct bpe *b;
    struct bpe_sym *sym;
    size_t n;
    bool is_unk; /* the last symbol is the unknown token, and may grow */
};

static void add_unknown(struct symbols *s, const uint8_t *c, unsigned len, uint32_t hi)
{
    const struct bpe *b = s->b;
    bool has_all = true;
    for (unsigned i = 0; i < len; i++)
        has_all = has_all && b->fallback[c[i]] >= 0;
    if (has_all) {
        for (unsigned i = 0; i < len; i++)
            s->sym[s->n++] = (struct bpe_sym){b->fallback[c[i]], hi - len + i + 1};
        s->is_unk = false;
    } else if (b->unk >= 0) {
        if (!s->is_unk || !b->fuse_unk)
            s->n++;
        s->sym[s->n - 1] = (struct bpe_sym){b->unk, hi};
        s->is_unk = true;
    }
}

/* The token of a character that may carry the affixes of its place in the word. */
static int32_t find_affixed(const struct bpe *b, const uint8_t *c, unsigned len, bool first,
                            bool last)
{
    char key[128];
    int n = snprintf(key, sizeof key, "%s%.*s%s", first || !b->prefix ? "" : b->prefix, (int)len,
                     (const char *)c, last && b->suffix ? b->suffix : "");
    return n < (int)sizeof key ? vocab_find(&b->vocab, key, (size_t)n) : -1;
}

static size_t put_symbols(const struct bpe *b, struct bpe_sym *sym, const struct piece *p,
                          uint32_t lo, uint32_t hi)
{
    struct symbols s = {.b = b, .sym = sym};
    bool goes_on = lo == 0 && p->place == PIECE_AFTER; /* the word began before the text */
    for (uint32_t i = lo; i < hi;) {
        const uint8_t *c = p->p + i;
        unsigned len = b->byte_mode ? 1 : utf8_len(*c);
        int32_t id;
        if (b->prefix || b->suffix)
            id = find_affixed(b, c, len, i == lo && !goes_on, i + len == hi);
        else
            id = len == 1 ? b->symbol[*c] : vocab_find(&b->vocab, c, len);
        i += len;
        if (id < 0) {
            add_unknown(&s, c, len, i);
        } else {
            s.sym[s.n++] = (struct bpe_sym){id, i};
            s.is_unk = false;
        }
    }
    return s.n;
}

/* ---- words ---- */

static int reserve_symbols(struct bpe_run *r, size_t n, struct err *e)
{
    if (n <= r->cap_sym)
        return 0;
    size_t cap = n < 1024 ? 1024 : n;
    void *p = try_resize(r->sym, cap * sizeof *r->sym, "symbols of a text", e);
    if (!p)
        return -1;
    r->sym = p;
    r->cap_sym = cap;
    return 0;
}

static int push_symbols(const struct bpe_sym *sym, size_t n, const struct piece *p, uint32_t lo,
                        struct tok_list *out, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (tok_list_push(out, sym[i].id, piece_span(p, lo, sym[i].hi), e))
            return -1;
        lo = sym[i].hi;
    }
    return 0;
}

static int push_memo(const struct memo *m, const struct piece *p, uint32_t lo, struct tok_list *out,
                     struct err *e)
{
    uint32_t at = lo;
    for (unsigned i = 0; i < m->n_id; i++) {
        if (tok_list_push(out, m->id[i], piece_span(p, at, lo + m->hi[i]), e))
            return -1;
        at = lo + m->hi[i];
    }
    return 0;
}

static void fill_memo(struct memo *m, uint64_t hash, const uint8_t *word, uint32_t len,
                      const struct bpe_sym *sym, size_t n, uint32_t lo)
{
    if (len > MEMO_KEY_BYTES || n > MEMO_IDS)
        return;
    m->hash = hash;
    m->len = (uint8_t)len;
    m->n_id = (uint8_t)n;
    memcpy(m->key, word, len);
    for (size_t i = 0; i < n; i++) {
        m->id[i] = sym[i].id;
        m->hi[i] = (uint8_t)(sym[i].hi - lo);
    }
}

static int merge_word(const struct bpe *b, struct bpe_run *r, const struct piece *p, uint32_t lo,
                      uint32_t hi, size_t *n, struct err *e)
{
    if (reserve_symbols(r, hi - lo, e))
        return -1;
    *n = put_symbols(b, r->sym, p, lo, hi);
    return bpe_merge(&b->table, &r->scratch, r->sym, n, e);
}

static int encode_word(const struct bpe *b, struct bpe_run *r, const struct piece *p, uint32_t lo,
                       uint32_t hi, struct tok_list *out, struct err *e)
{
    const uint8_t *word = p->p + lo;
    uint32_t len = hi - lo;
    size_t n;
    if (len > MAX_WHOLE_BYTES || b->prefix || b->suffix) {
        if (merge_word(b, r, p, lo, hi, &n, e))
            return -1;
        return push_symbols(r->sym, n, p, lo, out, e);
    }
    uint64_t h = vocab_hash(&b->vocab, word, len);
    int32_t id = vocab_find_hash(&b->vocab, h, word, len);
    uint8_t whole = id < 0 ? WHOLE_NO : __atomic_load_n(&b->whole[id], __ATOMIC_RELAXED);
    if (whole == WHOLE_YES)
        return tok_list_push(out, id, piece_span(p, lo, hi), e);
    struct memo *m = r->memo ? &r->memo[h & r->memo_mask] : NULL;
    if (m && m->hash == h && m->len == len && m->n_id && !memcmp(m->key, word, len))
        return push_memo(m, p, lo, out, e);
    if (merge_word(b, r, p, lo, hi, &n, e))
        return -1;
    if (whole == WHOLE_UNKNOWN)
        __atomic_store_n(&b->whole[id], n == 1 && r->sym[0].id == id ? WHOLE_YES : WHOLE_NO,
                         __ATOMIC_RELAXED);
    if (m)
        fill_memo(m, h, word, len, r->sym, n, lo);
    return push_symbols(r->sym, n, p, lo, out, e);
}

/* Where the word ends that begins at lo: before the next mark that follows something else. */
static uint32_t word_end(const struct bpe *b, const struct piece *p, uint32_t lo)
{
    uint32_t i = lo;
    while (is_mark(b, p->p + i, p->len - i))
        i += b->cut_len;
    while (i < p->len) {
        const uint8_t *at = memchr(p->p + i, b->cut[0], p->len - i);
        if (!at)
            break;
        i = (uint32_t)(at - p->p);
        if (is_mark(b, at, p->len - i))
            return i;
        i++;
    }
    return p->len;
}

int bpe_encode(const struct bpe *b, struct bpe_run *r, const struct piece *p, struct tok_list *out,
               struct err *e)
{
    if (b->ignore_merges && (b->cut_len || p->len > MAX_WHOLE_BYTES || b->prefix || b->suffix)) {
        int32_t id = vocab_find(&b->vocab, p->p, p->len);
        if (id >= 0)
            return tok_list_push(out, id, piece_span(p, 0, p->len), e);
    }
    if (!b->cut_len)
        return encode_word(b, r, p, 0, p->len, out, e);
    for (uint32_t lo = 0; lo < p->len;) {
        uint32_t hi = word_end(b, p, lo);
        if (encode_word(b, r, p, lo, hi, out, e))
            return -1;
        lo = hi;
    }
    return 0;
}
