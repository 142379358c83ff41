/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs are found a word of 64 cells at a time.
 */
#include "engine/kv/holes.h"

#include <stddef.h>

#include "engine/base/mem.h"

enum { WORD = 64 };

int kv_holes_init(struct kv_holes *h, int64_t n_cell, struct err *e)
{
    int64_t n_word = (n_cell + WORD - 1) / WORD;
    *h = (struct kv_holes){.n_cell = n_cell, .n_free = n_cell};
    h->free = try_alloc((size_t)n_word, 2 * sizeof *h->free, "the map of K/V cells", e);
    if (!h->free)
        return -1;
    h->claimed = h->free + n_word;
    for (int64_t c = 0; c < n_cell; c++)
        h->free[c / WORD] |= UINT64_C(1) << c % WORD;
    return 0;
}

void kv_holes_release(struct kv_holes *h)
{
    mem_free(h->free);
    *h = (struct kv_holes){0};
}

bool kv_holes_has(const struct kv_holes *h, int64_t cell)
{
    return cell >= 0 && cell < h->n_cell && h->free[cell / WORD] >> cell % WORD & 1;
}

void kv_holes_take(struct kv_holes *h, int64_t cell)
{
    ASSERT(kv_holes_has(h, cell));
    h->free[cell / WORD] &= ~(UINT64_C(1) << cell % WORD);
    h->n_free--;
}

void kv_holes_give(struct kv_holes *h, int64_t cell)
{
    ASSERT(!kv_holes_has(h, cell));
    h->free[cell / WORD] |= UINT64_C(1) << cell % WORD;
    h->n_free++;
}

void kv_holes_claim(struct kv_holes *h, struct kv_run r, bool is_claimed)
{
    for (int64_t c = r.at; c < r.at + r.n; c++) {
        uint64_t bit = UINT64_C(1) << c % WORD;
        h->claimed[c / WORD] =
            is_claimed ? h->claimed[c / WORD] | bit : h->claimed[c / WORD] & ~bit;
    }
}

/* The cells of a word that may be found. */
static uint64_t word_at(const struct kv_holes *h, int64_t w, bool with_claimed)
{
    return h->free[w] & (with_claimed ? UINT64_MAX : ~h->claimed[w]);
}

/* The first cell from `from` on that may (may not) be found; n_cell: none. */
static int64_t next(const struct kv_holes *h, int64_t from, bool with_claimed, bool may)
{
    for (int64_t w = from / WORD; w * WORD < h->n_cell; w++) {
        uint64_t x = word_at(h, w, with_claimed);
        x = may ? x : ~x;
        if (w == from / WORD)
            x &= UINT64_MAX << from % WORD;
        if (x) {
            int64_t c = w * WORD + __builtin_ctzll(x);
            return c < h->n_cell ? c : h->n_cell;
        }
    }
    return h->n_cell;
}

/* The first run of n, cut to n, or else the longest; of length 0 where there is none. */
static struct kv_run search(const struct kv_holes *h, int64_t n, bool with_claimed)
{
    struct kv_run best = {0};
    for (int64_t at = next(h, 0, with_claimed, true); at < h->n_cell;) {
        int64_t end = next(h, at, with_claimed, false);
        if (end - at >= n)
            return (struct kv_run){at, n};
        if (end - at > best.n)
            best = (struct kv_run){at, end - at};
        at = next(h, end, with_claimed, true);
    }
    return best;
}

struct kv_run kv_holes_find(const struct kv_holes *h, int64_t n)
{
    struct kv_run r = search(h, n, false);
    if (r.n)
        return r;
    r = search(h, h->n_cell, true);
    int64_t far = r.n - r.n / 2;
    return (struct kv_run){r.at + r.n / 2, far < n ? far : n};
}
