/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the cells that a slice of decoding rows is going to read, in the order in which it
 * reads them: per unit, per wave, K and then V. The sequence of a short text stands in runs of a
 * few kilobytes, which end before the hardware has seen that they are runs; who is asked for the
 * cells of the next unit while this one is computed waits for none of them.
 *
 * Long runs are better left to the hardware. What software asks for goes through the misses of one
 * second cache, 20 to 25 GB/s; the hardware, once it follows, is a third faster, and asking keeps
 * it from following. It takes a microsecond to, in which 32 KB could have been read.
 *
 * Units of more rows are passed over: prompts wait for arithmetic.
 */
#include "kernels/x86/attn.h"

enum {
    AHEAD_BYTES = 64 << 10,  /* of cells between asking and reading */
    FOLLOW_HEADS = 4,        /* more leave the hardware too little time between two reads */
    FOLLOW_KEYS = 1024,      /* of a row, from which on less is */
    FOLLOW_BYTES = 64 << 10, /* of a run, from which on nothing is asked for */
    CACHE_BYTES = 32 << 20
};

/* Whether the cells of a call, and of those of the other layers, are more than a last-level cache
 * holds. */
static bool call_is_large(const struct k_attn *a, size_t cell_bytes)
{
    const int64_t n_layer = a->cache.n_layer > 1 ? a->cache.n_layer : 1;
    const int64_t key_bytes = 2 * (int64_t)cell_bytes / K_CELL * a->cache.n_kv_head * n_layer;
    int64_t bytes = 0;
    for (int64_t s = 0; s < a->batch.n_seq; s++)
        bytes += a->batch.kv_len[s] * key_bytes;
    return bytes > CACHE_BYTES;
}

/* Runs in which n cells of a sequence are read: all K of a wave and then all V. */
static int64_t runs_of(const int32_t *cell, int64_t n)
{
    int64_t n_run = 0;
    for (int64_t i = 0; i < n; i++)
        n_run += i % (ATTN_WAVE * K_CHUNK_CELLS) == 0 || cell[i] != cell[i - 1] + 1;
    return n_run;
}

/* Whether the cells of a slice are runs, most of them, that the hardware follows by itself. */
static bool slice_is_runs(const struct attn_prefetch *w, const struct k_slice *s)
{
    const struct k_ragged *b = &w->it.a->batch;
    struct k_attn_iter it = w->it;
    struct k_attn_unit u;
    int64_t seq = -1, n_cell = 0, n_run = 0;
    for (int64_t i = s->lo; i < s->hi; i++) {
        attn_iter_next(&it, &u);
        if (u.seq == seq)
            continue;
        int64_t n = (b->kv_len[u.seq] + K_CELL - 1) / K_CELL;
        seq = u.seq;
        n_cell += n;
        n_run += runs_of(b->cell + seq * b->cell_stride, n);
    }
    return n_cell * (int64_t)w->cell_bytes >= n_run * FOLLOW_BYTES;
}

enum attn_ask attn_prefetch_how(const struct attn_prefetch *w, struct k_span seen)
{
    if (w->rests)
        return ATTN_ASK_NONE;
    return w->follows && seen.hi - seen.lo >= FOLLOW_KEYS ? ATTN_ASK_HALF : ATTN_ASK_ALL;
}

/* The cells of the wave that begins in the chunk that key_lo is in, from there on. */
static void wave_open(struct attn_prefetch *w, int64_t key_lo)
{
    int64_t end = key_lo / K_ATTN_CHUNK * K_ATTN_CHUNK + ATTN_WAVE * K_ATTN_CHUNK;
    w->wave = (struct k_span){key_lo / K_CELL * K_CELL, end < w->keys.hi ? end : w->keys.hi};
    w->key = w->wave.lo;
    w->is_v = false;
}

static void unit_open(struct attn_prefetch *w)
{
    struct k_span seen;
    attn_iter_next(&w->it, &w->u);
    seen = attn_seen(w->it.a, w->u.seq, w->u.row_lo);
    w->keys = attn_span_and((struct k_span){w->u.key_lo, w->u.key_hi}, seen);
    if (w->u.row_hi - w->u.row_lo != 1)
        w->keys = (struct k_span){0, 0};
    wave_open(w, w->keys.lo);
}

/* Goes to the next cell there is. False: there is none. */
static bool find_cell(struct attn_prefetch *w)
{
    while (w->key >= w->wave.hi) {
        if (!w->is_v && w->wave.lo < w->wave.hi) {
            w->is_v = true;
            w->key = w->wave.lo;
        } else if (w->wave.hi < w->keys.hi) {
            wave_open(w, w->wave.hi);
        } else if (w->n_unit > 0) {
            w->n_unit--;
            unit_open(w);
        } else {
            return false;
        }
    }
    return true;
}

/* NULL behind the last. */
static const char *next_cell(struct attn_prefetch *w)
{
    if (w->key >= w->wave.hi && !find_cell(w))
        return NULL;
    const struct k_attn *a = w->it.a;
    int64_t place = a->batch.cell[w->u.seq * a->batch.cell_stride + w->key / K_CELL];
    const char *base = w->is_v ? a->cache.v : a->cache.k;
    w->key += K_CELL;
    return base + (size_t)(w->u.head * a->cache.n_cell + place) * w->cell_bytes;
}

void attn_prefetch_init(struct attn_prefetch *w, const struct k_attn *a, enum k_attn_cut cut,
                        const struct k_slice *s)
{
    *w = (struct attn_prefetch){.n_unit = s->hi - s->lo,
                                .cell_bytes = k_kv_cell_bytes(a->cache.type, a->cache.d_head)};
    w->follows = a->n_head / a->cache.n_kv_head <= FOLLOW_HEADS && call_is_large(a, w->cell_bytes);
    attn_iter_init(&w->it, a, cut, s->lo);
    w->rests = w->follows && cut == K_CUT_ROWS && slice_is_runs(w, s);
    for (size_t n = 0; n < AHEAD_BYTES && !w->rests; n += w->cell_bytes) {
        const char *cell = next_cell(w);
        for (size_t i = 0; cell && i < w->cell_bytes; i += 64)
            __builtin_prefetch(cell + i, 0, 2);
    }
}

/* Behind the last cell there is nothing to ask for: a cell stands for itself. */
void attn_prefetch_next(struct attn_prefetch *w, int n, const void *const *cell, ptrdiff_t *away)
{
    for (int i = 0; i < n; i++) {
        const char *next = w->rests ? NULL : next_cell(w);
        away[i] = next ? (ptrdiff_t)((uintptr_t)next - (uintptr_t)cell[i]) : 0;
    }
}
