/* SPDX-License-Identifier: Apache-2.0
 *
 * Text on its way through the tokenizer. A `struct piece` is a view of some bytes that know from
 * which bytes of the caller's text they came: by a plain offset as long as nothing was rewritten,
 * by a table of spans after that. A `struct piece_buf` is where a stage that rewrites text (a
 * normalizer, Metaspace) builds its result.
 *
 * Spans cost eight bytes per byte, so the tables exist only when the caller asked for spans.
 * Offsets are 32 bits wide: a text is at most TOKENIZER_MAX_TEXT bytes, and the ceiling of a
 * buffer keeps rewritten text below 4 GiB.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOKEN_PIECE_H
#define ENGINE_TOKEN_PIECE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/token/tokenizer.h"

/* Where a piece begins. */
enum piece_place {
    PIECE_WITHIN, /* behind something of the caller's text */
    PIECE_START,  /* with the caller's text, which is the beginning */
    PIECE_AFTER   /* with the caller's text, which goes on from another: nothing is put in front */
};

struct piece {
    const uint8_t *p;            /* borrowed; valid UTF-8 */
    const struct tok_span *from; /* borrowed, one per byte; NULL: byte i is byte base+i */
    uint32_t len, base;
    enum piece_place place;
};

struct piece_buf {
    uint8_t *p;            /* owned */
    struct tok_span *from; /* owned; used when with_spans */
    uint32_t len, cap;
    bool with_spans, failed;
};

void piece_buf_init(struct piece_buf *b, bool with_spans);
void piece_buf_release(struct piece_buf *b);
int piece_buf_reserve(struct piece_buf *b, size_t more); /* -1: marks the buffer as failed */
int piece_buf_check(const struct piece_buf *b, struct err *e);
struct piece piece_buf_view(const struct piece_buf *b, enum piece_place place);

/* n bytes that all stand for the bytes `from` of the text. After a failure it does nothing. */
static inline void piece_buf_put(struct piece_buf *b, const void *p, uint32_t n,
                                 struct tok_span from)
{
    if (n == 0 || ((b->failed || b->cap - b->len < n) && piece_buf_reserve(b, n)))
        return;
    memcpy(b->p + b->len, p, n);
    if (b->with_spans)
        for (uint32_t i = 0; i < n; i++)
            b->from[b->len + i] = from;
    b->len += n;
}

void piece_buf_put_char(struct piece_buf *b, uint32_t c, struct tok_span from);

/* Bytes [lo, hi) of a piece as they are. */
void piece_buf_copy(struct piece_buf *b, const struct piece *p, uint32_t lo, uint32_t hi);

static inline struct piece piece_sub(const struct piece *p, uint32_t lo, uint32_t hi)
{
    return (struct piece){
        .p = p->p + lo,
        .from = p->from ? p->from + lo : NULL,
        .len = hi - lo,
        .base = p->base + lo,
        .place = lo == 0 ? p->place : PIECE_WITHIN,
    };
}

/* Where `what` (n > 0 bytes) first stands in text, or NULL. memmem without its preparation: what
 * is looked for is short and found often. */
static inline const uint8_t *piece_find(const uint8_t *text, size_t len, const void *what, size_t n)
{
    const uint8_t *end = text + len, *first = what;
    while ((size_t)(end - text) >= n) {
        text = memchr(text, *first, (size_t)(end - text) - n + 1);
        if (!text || !memcmp(text, what, n))
            return text;
        text++;
    }
    return NULL;
}

/* The bytes of the caller's text that [lo, hi) stands for. */
static inline struct tok_span piece_span(const struct piece *p, uint32_t lo, uint32_t hi)
{
    if (!p->from)
        return (struct tok_span){p->base + lo, p->base + hi};
    if (lo == hi)
        return (struct tok_span){lo < p->len ? p->from[lo].lo : p->from[lo - 1].hi,
                                 lo < p->len ? p->from[lo].lo : p->from[lo - 1].hi};
    return (struct tok_span){p->from[lo].lo, p->from[hi - 1].hi};
}

#endif
