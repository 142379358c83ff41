/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of codes for several blocks of rows. The first one looks the codes up, which hides behind
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
enum act { ACT_NONE, ACT_ASK, ACT_WIDEN };

/* Some rows over a group of inputs. */
struct group {
    const char *rows, *panel;
    char *widened;
    int64_t stride, steps; /* bytes from a step's rows to the next */
    struct tile_prefetch ahead;
};

TILE_INLINE void group_sums(enum k_type type, int h, enum act act, __m512 *sum,
                            const struct group *g)
{
    struct tile_table table = {0};
    if (act == ACT_WIDEN)
        table = tile_table(type);
    tile_zero(h * 2, sum);
    for (int64_t i = 0; i < g->steps; i++) {
        __m512i w[2];
        if (act != ACT_NONE)
            tile_prefetch(&g->ahead, i);
        if (act == ACT_WIDEN) {
            char *to = g->widened + i * TILE_STEP_BYTES;
            tile_code_step(type, &table, g->panel + i * format_stream(type, 0).bytes, w);
            _mm512_store_si512((void *)to, w[0]);
            _mm512_store_si512((void *)(to + 64), w[1]);
        } else {
            w[0] = _mm512_load_si512(g->panel + i * TILE_STEP_BYTES);
            w[1] = _mm512_load_si512(g->panel + i * TILE_STEP_BYTES + 64);
        }
        tile_step_bf16(h, sum, g->rows + i * g->stride, w[0], w[1]);
    }
}

TILE_INLINE struct group group_at(enum k_type type, enum act act, const struct block_widen *o,
                                  int64_t row, int64_t at)
{
    const struct block *b = &o->b;
    int64_t step_bytes = act == ACT_WIDEN ? format_stream(type, 0).bytes : TILE_STEP_BYTES;
    return (struct group){.rows = b->rows + (at * b->h + row) * 4,
                          .panel = b->panel + at * step_bytes,
                          .widened = o->widened ? o->widened + at * TILE_STEP_BYTES : NULL,
                          .stride = b->h * 4,
                          .steps = linear_min(b->steps - at, tile_group_steps(type)),
                          .ahead = tile_prefetch_behind(&b->ahead, at)};
}

/* Rows [row, row + h) of a block. */
TILE_INLINE void half(enum k_type type, int h, enum act act, int64_t row,
                      const struct block_widen *o)
{
    const struct block *b = &o->b;
    __m512 sum[HALF_MAX * 2], total[HALF_MAX * 2];
    if (b->from)
        tile_load(h * 2, total, b->from + row * K_NR);
    else
        tile_zero(h * 2, total);
    const char *scale = o->scale;
    for (int64_t at = 0; at < b->steps; at += tile_group_steps(type)) {
        struct group g = group_at(type, act, o, row, at);
        group_sums(type, h, act, sum, &g);
        tile_fold_here(type, h, sum, scale, total);
        scale += format_stream(type, 1).bytes;
    }
    if (b->to) {
        tile_store(h * 2, total, b->to + row * K_NR);
    } else {
        struct tile_out out = b->out;
        out.y += row * out.ld_y;
        tile_out(h, total, &out);
    }
}

TILE_INLINE void some_rows(enum k_type type, int64_t h, enum act act, int64_t row,
                           const struct block_widen *o)
{
    switch (h) {
    case 1:
        return half(type, 1, act, row, o);
    case 2:
        return half(type, 2, act, row, o);
    case 3:
        return half(type, 3, act, row, o);
    case 4:
        return half(type, 4, act, row, o);
    case 5:
        return half(type, 5, act, row, o);
    case 6:
        return half(type, 6, act, row, o);
    }
}

TILE_INLINE void widen_as(enum k_type type, const struct block_widen *o)
{
    int64_t h = o->b.h, first = h > HALF_MAX ? linear_ceil_div(h, 2) : h;
    struct block_widen rest = *o;
    if (o->widened)
        some_rows(type, first, ACT_WIDEN, 0, o);
    else
        some_rows(type, first, ACT_ASK, 0, o);
    if (o->widened)
        rest.b.panel = o->widened;
    if (first < h)
        some_rows(type, h - first, ACT_NONE, first, &rest);
}

void block_int8_widen_avx512(const struct block_widen *o)
{
    widen_as(K_INT8, o);
}

void block_int8g_widen_avx512(const struct block_widen *o)
{
    widen_as(K_INT8G, o);
}

void block_int8c_widen_avx512(const struct block_widen *o)
{
    widen_as(K_INT8C, o);
}

void block_fp8_widen_avx512(const struct block_widen *o)
{
    widen_as(K_FP8, o);
}

void block_int4_widen_avx512(const struct block_widen *o)
{
    widen_as(K_INT4, o);
}

void block_mxfp4_widen_avx512(const struct block_widen *o)
{
    widen_as(K_MXFP4, o);
}
