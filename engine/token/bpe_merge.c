/* SPDX-License-Identifier: Apache-2.0
 *
 * One table and three loops: a scan for words, a tree of minima for long words, windows for what no
 * word is.
 * See bpe_merge.h for why the windows are exact. The arrays of the scratch grow to the largest
 * window and are kept for the next piece.
 */
#include "engine/token/bpe_merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

enum {
    SMALL = 40,     /* up to here a scan is faster than a tree */
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
    t->bit = try_alloc(t->n_slot * 2 / 64, sizeof *t->bit, "table of merges", e);
    t->made = try_alloc(n_merge, sizeof *t->made, "table of merges", e);
    return t->slot && t->bit && t->made ? 0 : -1;
}

void bpe_table_release(struct bpe_table *t)
{
    mem_free(t->slot);
    mem_free(t->bit);
    mem_free(t->made);
    *t = (struct bpe_table){0};
}

void bpe_table_add(struct bpe_table *t, int32_t left, int32_t right, int32_t made)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 21 | (uint32_t)right, h = pair * t->key;
    uint64_t half = h >> (t->shift - 1);
    uint32_t i = (uint32_t)(h >> t->shift);
    while (t->slot[i] && (t->slot[i] - 1) >> BPE_RANK_BITS != pair)
        i = (i + 1) & (t->n_slot - 1);
    t->slot[i] = (pair << BPE_RANK_BITS | t->n_merge) + 1;
    t->bit[half / 64] |= (uint64_t)1 << half % 64;
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

/* ---- many symbols: level[0] is the rank of each symbol with the one behind it, each further
 * level the minima of 16 of the level below, up to one group of 16 ---- */

static int32_t min_of(const int32_t *group)
{
    int32_t least = BPE_NO_RANK; /* from 0 on, so that it becomes four vector minima */
    for (size_t i = 0; i < BPE_FAN; i++)
        least = group[i] < least ? group[i] : least;
    return least;
}

static int resize(void **p, size_t n, size_t size, struct err *e)
{
    void *q = try_resize(*p, n * size, "merging of a long text", e);
    if (!q)
        return -1;
    *p = q;
    return 0;
}

static size_t round_up(size_t n)
{
    return (n + BPE_FAN - 1) / BPE_FAN * BPE_FAN;
}

static int reserve_list(struct bpe_scratch *s, size_t n, struct err *e)
{
    if (n <= s->cap_list)
        return 0;
    s->cap_list = 0;
    if (resize((void **)&s->prev, n, sizeof *s->prev, e) ||
        resize((void **)&s->next, n, sizeof *s->next, e) ||
        resize((void **)&s->tree, n + n / 8 + BPE_LEVELS * BPE_FAN, sizeof *s->tree, e))
        return -1;
    s->cap_list = n;
    return 0;
}

static void build_tree(const struct bpe_table *t, struct bpe_scratch *s, const struct bpe_sym *sym,
                       size_t n)
{
    int32_t *at = s->tree;
    s->n_level = 0;
    for (size_t width = n;; width = round_up(width) / BPE_FAN) {
        int32_t *below = s->n_level ? s->level[s->n_level - 1] : NULL;
        for (size_t i = 0; i < round_up(width); i++) {
            if (below)
                at[i] = i < width ? min_of(below + i * BPE_FAN) : BPE_NO_RANK;
            else
                at[i] = i + 1 < n ? (int32_t)bpe_rank(t, sym[i].id, sym[i + 1].id) : BPE_NO_RANK;
        }
        s->level[s->n_level++] = at;
        if (width <= BPE_FAN)
            break;
        at += round_up(width);
    }
}

/* The leftmost symbol with the least rank; false when no pair has one. */
static bool find_least(const struct bpe_scratch *s, uint32_t *place)
{
    size_t i = 0;
    int32_t least = min_of(s->level[s->n_level - 1]);
    if (least == BPE_NO_RANK)
        return false;
    for (size_t k = s->n_level; k-- > 0;) {
        i *= BPE_FAN;
        while (s->level[k][i] != least)
            i++;
    }
    *place = (uint32_t)i;
    return true;
}

/* Carries a change of the ranks around place up to where it no longer matters. */
static void mend_tree(struct bpe_scratch *s, size_t place)
{
    for (size_t k = 1; k < s->n_level; k++) {
        size_t group = place / BPE_FAN;
        int32_t least = min_of(s->level[k - 1] + group * BPE_FAN);
        if (s->level[k][group] == least)
            return;
        s->level[k][group] = least;
        place = group;
    }
}

static void rank_pair(const struct bpe_table *t, struct bpe_scratch *s, const struct bpe_sym *sym,
                      uint32_t i)
{
    uint32_t j = s->next[i];
    s->level[0][i] = j == NONE ? BPE_NO_RANK : (int32_t)bpe_rank(t, sym[i].id, sym[j].id);
}

static void merge_pair(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym,
                       uint32_t i)
{
    uint32_t j = s->next[i], before = s->prev[i];
    sym[i] = (struct bpe_sym){t->made[s->level[0][i]], sym[j].hi};
    s->level[0][j] = BPE_NO_RANK;
    s->next[i] = s->next[j];
    if (s->next[i] != NONE)
        s->prev[s->next[i]] = i;
    rank_pair(t, s, sym, i);
    if (before != NONE) {
        rank_pair(t, s, sym, before);
        if (before / BPE_FAN != i / BPE_FAN)
            mend_tree(s, before);
    }
    if (j / BPE_FAN != i / BPE_FAN)
        mend_tree(s, j);
    mend_tree(s, i);
}

static int merge_tree(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym,
                      size_t *n, struct err *e)
{
    uint32_t place;
    size_t left = 0;
    if (reserve_list(s, *n, e))
        return -1;
    for (uint32_t i = 0; i < *n; i++) {
        s->prev[i] = i ? i - 1 : NONE;
        s->next[i] = i + 1 < *n ? i + 1 : NONE;
    }
    build_tree(t, s, sym, *n);
    while (find_least(s, &place))
        merge_pair(t, s, sym, place);
    for (uint32_t i = 0; i != NONE; i = s->next[i])
        sym[left++] = sym[i];
    *n = left;
    return 0;
}

static int merge_at_once(const struct bpe_table *t, struct bpe_scratch *s, struct bpe_sym *sym,
                         size_t *n, struct err *e)
{
    if (*n > SMALL)
        return merge_tree(t, s, sym, n, e);
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
    free(s->tree);
    *s = (struct bpe_scratch){0};
}
