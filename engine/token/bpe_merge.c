/* SPDX-License-Identifier: Apache-2.0
 *
 * One table and three loops: a scan for words, a heap for long words, windows for what no word is.
 * See bpe_merge.h for why the windows are exact. The arrays of the scratch grow to the largest
 * window and are kept for the next piece.
 */
#include "engine/token/bpe_merge.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

enum {
    SMALL = 40,     /* up to here a scan is faster than a heap */
    FIRST_TAIL = 8, /* tokens of the prefix that a window takes back at first */
    NONE = UINT32_MAX
};

/* ---- table ---- */

int bpe_table_init(struct bpe_table *t, size_t n_merge, struct err *e)
{
    *t = (struct bpe_table){.n_slot = 64, .shift = 58, .key = map_hash("merge", 5) | 1};
    if (n_merge > BPE_MAX_MERGES)
        return err_set(e, ERR_TOO_LARGE, "%zu merges; at most %d", n_merge, BPE_MAX_MERGES);
    for (; t->n_slot < 2 * n_merge; t->n_slot *= 2)
        t->shift--;
    t->slot = try_alloc(t->n_slot, sizeof *t->slot, "table of merges", e);
    t->made = t->slot ? try_alloc(n_merge, sizeof *t->made, "table of merges", e) : NULL;
    return t->made ? 0 : -1;
}

void bpe_table_release(struct bpe_table *t)
{
    mem_free(t->slot);
    mem_free(t->made);
    *t = (struct bpe_table){0};
}

void bpe_table_add(struct bpe_table *t, int32_t left, int32_t right, int32_t made)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 21 | (uint32_t)right;
    uint32_t i = (uint32_t)(pair * t->key >> t->shift);
    while (t->slot[i] && (t->slot[i] - 1) >> BPE_RANK_BITS != pair)
        i = (i + 1) & (t->n_slot - 1);
    t->slot[i] = (pair << BPE_RANK_BITS | t->n_merge) + 1;
    t->made[t->n_merge++] = made;
}

/* ---- few symbols ---- */

static size_t merge_small(const struct bpe_table *t, struct bpe_sym *sym, size_t n)
{
    uint32_t rank[SMALL];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = bpe_rank(t, sym[i].id, sym[i + 1].id);
    while (n > 1) {
        size_t at = 0;
        for (size_t i = 1; i + 1 < n; i++)
            at = rank[i] < rank[at] ? i : at;
        if (rank[at] == BPE_NO_RANK)
            break;
        sym[at] = (struct bpe_sym){t->made[rank[at]], sym[at + 1].hi};
        n--;
        for (size_t i = at + 1; i < n; i++) {
            sym[i] = sym[i + 1];
            rank[i - 1] = rank[i];
        }
        if (at > 0)
            rank[at - 1] = bpe_rank(t, sym[at - 1].id, sym[at].id);
        if (at + 1 < n)
            rank[at] = bpe_rank(t, sym[at].id, sym[at + 1].id);
    }
    return n;
}

/* ---- many symbols: a heap of pairs; an entry whose pair is gone is skipped ---- */

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];
    for (;;) {
        size_t kid = 2 * i + 1;
        if (kid >= n)
            break;
        kid += kid + 1 < n && heap[kid + 1] < heap[kid];
        if (heap[kid] >= x)
            break;
        heap[i] = heap[kid];
        i = kid;
    }
    heap[i] = x;
}

static void heap_push(struct bpe_scratch *s, uint32_t rank, uint32_t place)
{
    uint64_t x = (uint64_t)rank << 32 | place;
    size_t i = s->n_heap++;
    while (i > 0 && s->heap[(i - 1) / 2] > x) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = x;
}

static uint64_t heap_pop(struct bpe_scratch *s)
{
    uint64_t top = s->heap[0];
    s->heap[0] = s->heap[--s->n_heap];
    if (s->n_heap)
        sift_down(s->heap, s->n_heap, 0);
    return top;
}

static int resize(void **p, size_t n, size_t size, struct err *e)
{
    void *q = try_resize(*p, n * size, "merging of a long text", e);
    if (!q)
        return -1;
    *p = q;
    return 0;
}

/* Each merge removes one pair and makes at most two, so n + 2n entries are enough. */
static int reserve_list(struct bpe_scratch *s, size_t n, struct err *e)
{
    if (n <= s->cap_list)
        return 0;
    s->cap_list = 0;
    if (resize((void **)&s->prev, n, sizeof *s->prev, e) ||
        resize((void **)&s->next, n, sizeof *s->next, e) ||
        resize((void **)&s->rank, n, sizeof *s->rank, e) ||
        resize((void **)&s->heap, 3 * n, sizeof *s->heap, e))
        return -1;
    s->cap_list = n;
    return 0;
}

static void link_symbols(const struct bpe_table *t, struct bpe_scratch *s,
                         const struct bpe_sym *sym, size_t n)
{
    s->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->prev[i] = i ? i - 1 : NONE;
        s->next[i] = i + 1 < n ? i + 1 : NONE;
        s->rank[i] = i + 1 < n ? bpe_rank(t, sym[i].id, sym[i + 1].id) : BPE_NO_RANK;
        if (s->rank[i] != BPE_NO_RANK)
            s->heap[s->n_heap++] = (uint64_t)s->rank[i] << 32 | i;
    }
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sift_down(s->heap, s->n_heap, i);
}

static void new_pair(const struct bpe_table *t, struct bpe_scratch *s, const struct bpe_sym *sym,
                     uint32_t i)
{
    uint32_t j = s->next[i];
    s->rank[i] = j == NONE ? BPE_NO_RANK : bpe_rank(t, sym[i].id, sym[j].id);
    if (s->rank[i] != BPE_NO_RANK)
        heap_push(s, s->rank[i], i);
}

static int merge_heap(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym,
                      size_t *n, struct err *e)
{
    size_t left = 0;
    if (reserve_list(s, *n, e))
        return -1;
    link_symbols(t, s, sym, *n);
    while (s->n_heap) {
        uint64_t top = heap_pop(s);
        uint32_t i = (uint32_t)top, j;
        if (s->rank[i] != top >> 32)
            continue;
        j = s->next[i];
        sym[i] = (struct bpe_sym){t->made[s->rank[i]], sym[j].hi};
        s->rank[j] = BPE_NO_RANK;
        s->next[i] = s->next[j];
        if (s->next[i] != NONE)
            s->prev[s->next[i]] = i;
        new_pair(t, s, sym, i);
        if (s->prev[i] != NONE)
            new_pair(t, s, sym, s->prev[i]);
    }
    for (uint32_t i = 0; i != NONE; i = s->next[i])
        sym[left++] = sym[i];
    *n = left;
    return 0;
}

static int merge_at_once(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym,
                         size_t *n, struct err *e)
{
    if (*n > SMALL)
        return merge_heap(t, s, sym, n, e);
    *n = merge_small(t, sym, *n);
    return 0;
}

/* ---- very many symbols: window by window ---- */

static int reserve_window(struct bpe_scratch *s, size_t n, struct err *e)
{
    if (n <= s->cap_win)
        return 0;
    s->cap_win = 0;
    if (resize((void **)&s->win, n, sizeof *s->win, e))
        return -1;
    s->cap_win = n;
    return 0;
}

static int reserve_tokens(struct bpe_scratch *s, size_t n, struct err *e)
{
    if (n <= s->cap_tok)
        return 0;
    size_t cap = n + n / 2;
    if (resize((void **)&s->tok, cap, sizeof *s->tok, e))
        return -1;
    s->cap_tok = cap;
    return 0;
}

/* Merges the symbols [lo, hi) into s->win, whose hi then counts symbols from the beginning. */
static int merge_window(const struct bpe_table *t, struct bpe_scratch *s, const struct bpe_sym *sym,
                        size_t lo, size_t hi, size_t *n, struct err *e)
{
    if (reserve_window(s, hi - lo, e))
        return -1;
    for (size_t i = lo; i < hi; i++)
        s->win[i - lo] = (struct bpe_sym){sym[i].id, (uint32_t)i + 1};
    *n = hi - lo;
    return merge_at_once(t, s, s->win, n, e);
}

/* Encodes the symbols up to hi, given s->tok[0, *n_tok) for those up to the last one's end. Ends
 * with the number of tokens that it had to take back in *tail. */
static int extend(const struct bpe_table *t, struct bpe_scratch *s, const struct bpe_sym *sym,
                  size_t hi, size_t *n_tok, size_t *tail, struct err *e)
{
    for (;; *tail *= 2) {
        size_t keep = *n_tok > *tail ? *n_tok - *tail : 0, n;
        size_t lo = keep ? s->tok[keep - 1].hi : 0;
        if (merge_window(t, s, sym, lo, hi, &n, e))
            return -1;
        if (keep && (s->win[0].id != s->tok[keep].id || s->win[0].hi != s->tok[keep].hi))
            continue;
        if (reserve_tokens(s, keep + n, e))
            return -1;
        memcpy(s->tok + keep, s->win, n * sizeof *s->win);
        *n_tok = keep + n;
        return 0;
    }
}

int bpe_merge(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym, size_t *n,
              struct err *e)
{
    size_t n_tok = 0, tail = FIRST_TAIL, hi = 0;
    if (*n <= BPE_WINDOW)
        return merge_at_once(t, s, sym, n, e);
    while (hi < *n) { /* a window as long as what is taken back keeps the whole linear */
        size_t lo = n_tok > tail ? s->tok[n_tok - tail].hi : 0;
        size_t step = hi - lo > BPE_WINDOW ? hi - lo : BPE_WINDOW;
        hi = *n - hi > step ? hi + step : *n;
        if (extend(t, s, sym, hi, &n_tok, &tail, e))
            return -1;
    }
    for (size_t i = 0; i < n_tok; i++)
        sym[i] = (struct bpe_sym){s->tok[i].id, sym[s->tok[i].hi - 1].hi};
    *n = n_tok;
    return 0;
}

void bpe_scratch_release(struct bpe_scratch *s)
{
    free(s->win);
    free(s->tok);
    free(s->prev);
    free(s->next);
    free(s->rank);
    free(s->heap);
    *s = (struct bpe_scratch){0};
}
