/* SPDX-License-Identifier: Apache-2.0
 *
 * An int8 panel for several blocks of rows. The first one looks the codes up, which hides behind
 * its products, and stores the bf16 that they mean; the others read that. A block is taken in
 * halves of six rows at most, so that the totals of a half stay in registers beside its sums: those
 * of twelve rows would pass through memory at the end of each group, which costs more than reading
 * the panel twice.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_avx512.h"

enum { HALF_MAX = LINEAR_MR / 2 };

/* What a half does besides its products: the first of a block asks for the memory that is wanted
 * next, that of the first block also opens the panel. */
enum act { ACT_NONE, ACT_ASK, ACT_OPEN };

/* Some rows over a group of inputs. */
struct group {
    const char *rows, *panel;
    char *opened;
    int64_t stride, steps; /* bytes from a step's rows to the next */
    struct tile_ahead ahead;
};

TILE_INLINE void group_sums(int h, enum act act, __m512 *sum, const struct group *g)
{
    struct tile_int8_table table = {0};
    if (act == ACT_OPEN)
        table = tile_int8_table();
    tile_zero(h * 2, sum);
    for (int64_t i = 0; i < g->steps; i++) {
        __m512i w[2];
        if (act != ACT_NONE)
            tile_prefetch(&g->ahead, i);
        if (act == ACT_OPEN) {
            char *to = g->opened + i * TILE_STEP_BYTES;
            tile_int8_step(&table, _mm512_load_si512(g->panel + i * TILE_INT8_STEP_BYTES), w);
            _mm512_store_si512((void *)to, w[0]);
            _mm512_store_si512((void *)(to + 64), w[1]);
        } else {
            w[0] = _mm512_load_si512(g->panel + i * TILE_STEP_BYTES);
            w[1] = _mm512_load_si512(g->panel + i * TILE_STEP_BYTES + 64);
        }
        tile_step_bf16(h, sum, g->rows + i * g->stride, w[0], w[1]);
    }
}

TILE_INLINE struct group group_at(enum act act, const struct block_open *o, int64_t row, int64_t at)
{
    const struct block *b = &o->b;
    int64_t step_bytes = act == ACT_OPEN ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    return (struct group){.rows = b->rows + (at * b->h + row) * 4,
                          .panel = b->panel + at * step_bytes,
                          .opened = o->opened ? o->opened + at * TILE_STEP_BYTES : NULL,
                          .stride = b->h * 4,
                          .steps = linear_min(b->steps - at, TILE_GROUP_STEPS),
                          .ahead = tile_ahead_behind(&b->ahead, at)};
}

/* Rows [row, row + h) of a block. */
TILE_INLINE void half(int h, enum act act, int64_t row, const struct block_open *o)
{
    const struct block *b = &o->b;
    __m512 sum[HALF_MAX * 2], total[HALF_MAX * 2];
    if (b->from)
        tile_load(h * 2, total, b->from + row * K_NR);
    else
        tile_zero(h * 2, total);
    const float *scale = o->scale;
    for (int64_t at = 0; at < b->steps; at += TILE_GROUP_STEPS, scale += K_NR) {
        struct group g = group_at(act, o, row, at);
        group_sums(h, act, sum, &g);
        __m512 s0 = _mm512_load_ps(scale), s1 = _mm512_load_ps(scale + 16);
#pragma GCC unroll 6
        for (int r = 0; r < h; r++) {
            total[r * 2] = _mm512_fmadd_ps(s0, sum[r * 2], total[r * 2]);
            total[r * 2 + 1] = _mm512_fmadd_ps(s1, sum[r * 2 + 1], total[r * 2 + 1]);
        }
    }
    if (b->to) {
        tile_store(h * 2, total, b->to + row * K_NR);
    } else {
        struct tile_out out = b->out;
        out.y += row * out.ld_y;
        tile_out(h, total, &out);
    }
}

TILE_INLINE void some_rows(int64_t h, enum act act, int64_t row, const struct block_open *o)
{
    switch (h) {
    case 1:
        return half(1, act, row, o);
    case 2:
        return half(2, act, row, o);
    case 3:
        return half(3, act, row, o);
    case 4:
        return half(4, act, row, o);
    case 5:
        return half(5, act, row, o);
    case 6:
        return half(6, act, row, o);
    }
}

void block_int8_open_avx512(const struct block_open *o)
{
    int64_t h = o->b.h, first = h > HALF_MAX ? linear_ceil_div(h, 2) : h;
    struct block_open rest = *o;
    if (o->opened)
        some_rows(first, ACT_OPEN, 0, o);
    else
        some_rows(first, ACT_ASK, 0, o);
    if (o->opened)
        rest.b.panel = o->opened;
    if (first < h)
        some_rows(h - first, ACT_NONE, first, &rest);
}
