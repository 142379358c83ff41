/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the cells that a slice of decoding rows is going to read, in the order in which it
 * reads them: per unit, per wave of chunks, K and then V. The sequence of a short text stands in
 * runs of a few kilobytes, which end before the hardware has seen that they are runs; who is asked
 * for the cells of the next unit while this one is computed waits for none of them.
 *
 * Units of more rows are passed over: prompts wait for arithmetic.
 */
#include "kernels/x86/attn.h"

static struct k_span unit_keys(const struct attn_ahead *w)
{
    struct k_span keys = {w->u.key_lo, w->u.key_hi};
    if (w->u.row_hi - w->u.row_lo != 1)
        return (struct k_span){0, 0};
    return attn_span_and(keys, attn_seen(w->it.a, w->u.seq, w->u.row_lo));
}

/* The cells of the wave that begins in the chunk of key_lo. */
static void wave_open(struct attn_ahead *w, int64_t key_lo)
{
    int64_t end = key_lo / K_ATTN_CHUNK * K_ATTN_CHUNK + ATTN_WAVE * K_ATTN_CHUNK;
    w->wave = (struct k_span){key_lo / K_CELL * K_CELL, end < w->keys.hi ? end : w->keys.hi};
    w->key = w->wave.lo;
    w->is_v = false;
}

/* The next cell there is; NULL behind the last. */
static const char *next_cell(struct attn_ahead *w)
{
    while (w->key >= w->wave.hi) {
        if (!w->is_v && w->wave.lo < w->wave.hi) {
            w->is_v = true;
            w->key = w->wave.lo;
        } else if (w->wave.hi < w->keys.hi) {
            wave_open(w, w->wave.hi);
        } else if (w->n_unit > 0) {
            w->n_unit--;
            attn_iter_next(&w->it, &w->u);
            w->keys = unit_keys(w);
            wave_open(w, w->keys.lo);
        } else {
            return NULL;
        }
    }
    const struct k_kv_cache *c = &w->it.a->cache;
    const char *base = w->is_v ? c->v : c->k;
    const char *cell = base + attn_cell_at(&w->it.a->batch, c, w->u.seq, w->u.head, w->key);
    w->key += K_CELL;
    return cell;
}

void attn_ahead_init(struct attn_ahead *w, const struct k_attn *a, enum k_attn_cut cut,
                     const struct k_slice *s, int64_t bytes)
{
    int64_t cell_bytes = (int64_t)k_kv_cell_bytes(a->cache.type, a->cache.d_head);
    *w = (struct attn_ahead){.n_unit = s->hi - s->lo};
    attn_iter_init(&w->it, a, cut, s->lo);
    for (int64_t n = 0; n < bytes; n += cell_bytes) {
        const char *cell = next_cell(w);
        for (int64_t i = 0; cell && i < cell_bytes; i += 64)
            __builtin_prefetch(cell + i, 0, 2);
    }
}

struct attn_extra attn_ahead_extra(struct attn_ahead *w, int64_t bytes)
{
    if (w->extra.bytes == 0) {
        const struct k_kv_cache *c = &w->it.a->cache;
        w->extra.at = next_cell(w);
        w->extra.bytes = w->extra.at ? (int64_t)k_kv_cell_bytes(c->type, c->d_head) : 0;
        w->owed += w->extra.at != NULL;
    }
    struct attn_extra e = w->extra;
    e.bytes = e.bytes < bytes ? e.bytes : bytes;
    w->extra.at += e.bytes;
    w->extra.bytes -= e.bytes;
    return e;
}

void attn_ahead_rest(struct attn_ahead *w)
{
    struct attn_extra e = {0};
    if (w->extra.bytes > 0)
        e = attn_ahead_extra(w, w->extra.bytes);
    for (int64_t i = 0; i < e.bytes; i += 64)
        __builtin_prefetch(e.at + i, 0, 2);
}

/* Behind the last cell there is nothing to ask for: a cell stands for itself. */
void attn_ahead_next(struct attn_ahead *w, int n, const void *const *cell, ptrdiff_t *away)
{
    for (int i = 0; i < n; i++) {
        const char *next = w->owed > 0 ? NULL : next_cell(w);
        w->owed -= w->owed > 0;
        away[i] = next ? (ptrdiff_t)((uintptr_t)next - (uintptr_t)cell[i]) : 0;
    }
}
