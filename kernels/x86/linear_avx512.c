/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_f32, linear_bf16, linear_int8. One block of rows (decode): memory is the limit, the
 * hardware's prefetcher keeps up with plain ascending reads, and one to three rows take several
 * panels at once to have enough sums under way. More rows: a panel passes all blocks of rows while
 * it lies in the core's cache and the next one is prefetched at an even pace, so that memory and
 * arithmetic overlap. The rows stream from the cache behind, 48 bytes per 24 cycles.
 *
 * int8: few rows look their codes up in registers; with more blocks of rows the first block keeps
 * what it looked up for the others, in the thread's scratch, a piece of the inputs at a time.
 *
 * Rejected: cutting the inputs so that a piece of a bf16 panel fits in the first-level cache. The
 * sums' way to memory and back costs more than the second-level cache does (5 to 20%).
 */
#include "kernels/linear_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/block_avx512.h"

enum {
    PIECE_GROUPS = 32, /* of inputs, kept as bf16 at a time */
    PIECE_STEPS = PIECE_GROUPS * TILE_GROUP_STEPS,
    PIECE_BYTES = PIECE_STEPS * TILE_STEP_BYTES, /* 256 KiB */
    TOTAL_BYTES = K_SCRATCH_BYTES - PIECE_BYTES
};

static struct tile_out out_at(const struct k_linear *a, int64_t panel, int64_t row)
{
    int64_t first = (a->panel_lo + panel) * K_NR;
    return (struct tile_out){.y = a->y + row * a->ld_y + panel * K_NR,
                             .ld_y = a->ld_y,
                             .cols = a->w.n - first,
                             .bias = a->bias ? a->bias + first : NULL,
                             .add = a->add};
}

/* What the three types differ in. */
struct weight {
    int64_t steps, panel_bytes, step_bytes;
    int64_t row_bytes;
    const char *panel; /* of panel_lo */
};

static struct weight weight_of(const struct k_linear *a)
{
    int64_t stored = linear_k_stored(a->w.type, a->w.k);
    struct weight w = {.steps = a->w.type == K_F32 ? stored : stored / 2};
    w.row_bytes = w.steps * 4;
    w.step_bytes = a->w.type == K_INT8 ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    w.panel_bytes = w.steps * w.step_bytes;
    w.panel = (const char *)a->w.data + a->panel_lo * w.panel_bytes;
    return w;
}

static const float *scale_at(const struct k_linear *a, int64_t panel)
{
    return a->w.scale + (a->panel_lo + panel) * linear_groups(a->w.k) * K_NR;
}

static void run_block(const struct k_linear *a, const struct block *b, int64_t panel, float *total)
{
    if (a->w.type == K_F32) {
        block_f32_avx512(b);
    } else if (a->w.type == K_BF16) {
        block_bf16_avx512(b);
    } else {
        struct block_int8 q = {.b = *b,
                               .scale = scale_at(a, panel),
                               .scale_stride = linear_groups(a->w.k) * K_NR,
                               .total = total,
                               .first = true,
                               .last = true};
        block_int8_avx512(&q);
    }
}

/* Units are panels; all rows are one block. */
static void one_block(const struct k_linear *a, const struct k_slice *s)
{
    struct weight w = weight_of(a);
    int64_t n = s->hi - s->lo, passes = linear_ceil_div(n, block_panels(a->m));
    for (int64_t i = 0; i < passes; i++) {
        int64_t panel = s->lo + n * i / passes, end = s->lo + n * (i + 1) / passes;
        struct block b = {.h = a->m,
                          .np = end - panel,
                          .rows = a->rows,
                          .panel = w.panel + panel * w.panel_bytes,
                          .stride = w.panel_bytes,
                          .steps = w.steps,
                          .out = out_at(a, panel, 0)};
        run_block(a, &b, panel, s->scratch);
    }
}

/* The next piece of weights comes while this one passes the blocks: each of them brings its share.
 */
static struct tile_ahead share_of_next(const char *next, int64_t bytes, int64_t steps, int64_t i,
                                       int64_t n)
{
    if (steps == 0)
        return (struct tile_ahead){.at = next};
    return (struct tile_ahead){.at = next + bytes * i / n, .pace = bytes / n / steps};
}

static struct block block_at(const struct k_linear *a, const struct weight *w,
                             const struct linear_piece *p, int64_t block)
{
    struct rows_block r = rows_block_at(a->m, block);
    return (struct block){.h = r.h,
                          .np = 1,
                          .rows = (const char *)a->rows + r.row * w->row_bytes,
                          .panel = w->panel + p->panel * w->panel_bytes,
                          .steps = w->steps,
                          .out = out_at(a, p->panel, r.row)};
}

static void panel_plain(const struct k_linear *a, const struct weight *w,
                        const struct linear_piece *p)
{
    int64_t n = p->block_hi - p->block_lo;
    for (int64_t i = 0; i < n; i++) {
        struct block b = block_at(a, w, p, p->block_lo + i);
        b.ahead = share_of_next(b.panel + w->panel_bytes, w->panel_bytes, w->steps, i, n);
        run_block(a, &b, p->panel, NULL);
    }
}

static void panel_int8(const struct k_linear *a, const struct weight *w,
                       const struct linear_piece *p, char *scratch)
{
    int64_t n = p->block_hi - p->block_lo;
    float *total = (float *)(void *)(scratch + PIECE_BYTES);
    int64_t row0 = rows_block_at(a->m, p->block_lo).row;
    for (int64_t at = 0; at < w->steps || at == 0; at += PIECE_STEPS) {
        int64_t steps = linear_min(w->steps - at, PIECE_STEPS);
        int64_t bytes = steps * w->step_bytes;
        for (int64_t i = 0; i < n; i++) {
            struct block_int8 q = {.b = block_at(a, w, p, p->block_lo + i), .wide = scratch};
            int64_t row = rows_block_at(a->m, p->block_lo + i).row;
            q.scale = scale_at(a, p->panel) + at / TILE_GROUP_STEPS * K_NR;
            q.total = total + (row - row0) * K_NR;
            q.first = at == 0;
            q.last = at + steps == w->steps;
            q.is_wide = i > 0;
            q.b.rows += at * q.b.h * 4;
            q.b.panel += at * w->step_bytes;
            q.b.steps = steps;
            q.b.ahead = share_of_next(q.b.panel + bytes, bytes, steps, i, n);
            block_int8_avx512(&q);
        }
    }
}

static void linear(const struct k_linear *a, const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    struct weight w = weight_of(a);
    if (g.n_block == 1) {
        one_block(a, s);
        return;
    }
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        if (a->w.type == K_INT8)
            panel_int8(a, &w, &p, s->scratch);
        else
            panel_plain(a, &w, &p);
    }
}

void linear_f32_avx512(const void *args, const struct k_slice *s)
{
    linear(args, s);
}

void linear_bf16_avx512(const void *args, const struct k_slice *s)
{
    linear(args, s);
}

void linear_int8_avx512(const void *args, const struct k_slice *s)
{
    linear(args, s);
}
