/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers double. The ceiling is where 32 bits end; a normalizer that makes a text of one GiB
 * longer than that is refused like any other want of memory.
 */
#include "engine/token/piece.h"

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/utf8.h"

static const size_t max_bytes = UINT32_MAX - 64;

void piece_buf_init(struct piece_buf *b, bool with_spans)
{
    *b = (struct piece_buf){.with_spans = with_spans};
}

void piece_buf_release(struct piece_buf *b)
{
    free(b->p);
    free(b->from);
    piece_buf_init(b, b->with_spans);
}

static int grow(struct piece_buf *b, size_t want)
{
    size_t cap = b->cap < 256 ? 256 : (size_t)b->cap * 2;
    cap = cap < want ? want : cap;
    cap = cap < max_bytes ? cap : max_bytes;
    if (want > cap)
        return -1;
    void *p = try_resize(b->p, cap, "text", NULL);
    if (!p)
        return -1;
    b->p = p;
    if (b->with_spans) {
        p = try_resize(b->from, cap * sizeof *b->from, "spans of a text", NULL);
        if (!p)
            return -1;
        b->from = p;
    }
    b->cap = (uint32_t)cap;
    return 0;
}

int piece_buf_reserve(struct piece_buf *b, size_t more)
{
    if (!b->failed && b->cap - b->len < more && grow(b, b->len + more))
        b->failed = true;
    return b->failed ? -1 : 0;
}

int piece_buf_check(const struct piece_buf *b, struct err *e)
{
    if (b->failed)
        return err_set(e, ERR_NO_MEMORY, "no memory for the normalized text");
    return 0;
}

struct piece piece_buf_view(const struct piece_buf *b, enum piece_place place)
{
    return (struct piece){
        .p = b->p ? b->p : (const uint8_t *)"",
        .from = b->with_spans ? b->from : NULL,
        .len = b->len,
        .place = place,
    };
}

void piece_buf_put_char(struct piece_buf *b, uint32_t c, struct tok_span from)
{
    uint8_t out[4];
    piece_buf_put(b, out, utf8_put(out, c), from);
}

void piece_buf_copy(struct piece_buf *b, const struct piece *p, uint32_t lo, uint32_t hi)
{
    if (lo == hi || piece_buf_reserve(b, hi - lo))
        return;
    memcpy(b->p + b->len, p->p + lo, hi - lo);
    if (b->with_spans) {
        if (p->from)
            memcpy(b->from + b->len, p->from + lo, (hi - lo) * sizeof *b->from);
        else
            for (uint32_t i = lo; i < hi; i++)
                b->from[b->len + i - lo] = (struct tok_span){p->base + i, p->base + i + 1};
    }
    b->len += hi - lo;
}
