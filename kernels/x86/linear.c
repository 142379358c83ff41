/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_f32, linear_bf16, linear_int8. One block of rows (decode): memory is the limit. Up to
 * three rows take several panels at once to have enough sums under way, and the hardware's
 * prefetcher keeps up with their plain ascending reads; more rows read one panel more slowly, and a
 * prefetch at a fixed distance keeps memory busy. Several blocks: a panel passes them while it lies
 * in the core's cache, and each asks for its share of the next, so that memory and arithmetic
 * overlap. The rows stream from the cache behind, 48 bytes per 24 cycles.
 *
 * int8 in many blocks: a run of a panel's inputs at a time is opened to bf16 in scratch, for all
 * blocks; the totals of blocks that have more inputs to come wait there too.
 *
 * Rejected: cutting the inputs so that a piece of a bf16 panel fits in the first-level cache. The
 * sums' way to memory and back costs more than the second-level cache does (5 to 20%).
 */
#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"
#include "kernels/x86/soon.h"

enum {
    AHEAD_BYTES =
        32 << 10, /* of one block of rows: far enough for memory, near in a small weight */
    OPEN_BLOCKS = 4,
    OPEN_STEPS = 1024, /* of codes, opened at a time: whole groups */
    OPEN_BYTES = OPEN_STEPS * TILE_STEP_BYTES
};

_Static_assert(OPEN_STEPS % TILE_GROUP_STEPS == 0, "a run of codes is whole groups");
_Static_assert(OPEN_BYTES + LINEAR_SPAN_ROWS * K_NR * 4 <= K_SCRATCH_BYTES, "both fit scratch");

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
    struct rows_cut cut;
};

static struct weight weight_of(const struct k_linear *a)
{
    int64_t stored = linear_k_stored(a->w.type, a->w.k);
    struct weight w = {.steps = a->w.type == K_F32 ? stored : stored / 2};
    w.row_bytes = w.steps * 4;
    w.step_bytes = a->w.type == K_INT8 ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    w.panel_bytes = w.steps * w.step_bytes;
    w.panel = (const char *)a->w.data + a->panel_lo * w.panel_bytes;
    w.cut = rows_cut_of(a->m);
    return w;
}

static const float *scale_at(const struct k_linear *a, int64_t panel)
{
    return a->w.scale + (a->panel_lo + panel) * linear_groups(a->w.k) * K_NR;
}

static void run_block(const struct linear_isa *isa, const struct k_linear *a, const struct block *b,
                      int64_t panel, float *total)
{
    if (a->w.type != K_INT8) {
        block_run(isa, a->w.type, b);
    } else {
        struct block_int8 q = {.b = *b,

                               .scale = scale_at(a, panel),
                               .scale_stride = linear_groups(a->w.k) * K_NR,
                               .total = total};
        isa->int8(&q);
    }
}

/* Units are panels; all rows are one block. */
static void one_block(const struct linear_isa *isa, const struct k_linear *a,
                      const struct k_slice *s)
{
    struct weight w = weight_of(a);
    int64_t n = s->hi - s->lo, passes = linear_ceil_div(n, isa->panels[a->m]);
    for (int64_t i = 0; i < passes; i++) {
        int64_t panel = s->lo + n * i / passes, end = s->lo + n * (i + 1) / passes;
        struct block b = {.h = a->m,
                          .np = end - panel,
                          .rows = a->rows,
                          .panel = w.panel + panel * w.panel_bytes,
                          .stride = w.panel_bytes,
                          .steps = w.steps,
                          .out = out_at(a, panel, 0)};
        b.ahead = tile_ahead_at(b.panel + AHEAD_BYTES, w.step_bytes);
        run_block(isa, a, &b, panel, s->scratch);
    }
}

/* The next piece of weights comes while this one passes n blocks: each of them brings its share.
 */
struct share {
    const char *next;
    int64_t bytes, pace; /* of a block; of a step */
};

static struct share share_of_next(const char *next, int64_t bytes, int64_t steps, int64_t n)
{
    return (struct share){next, bytes / n, steps > 0 ? bytes / n / steps : 0};
}

static struct tile_ahead share_at(const struct share *s, int64_t i)
{
    return tile_ahead_at(s->next + s->bytes * i, s->pace);
}

static struct block block_at(const struct k_linear *a, const struct weight *w,
                             const struct linear_piece *p, int64_t block)
{
    struct rows_block r = rows_cut_at(&w->cut, block);
    return (struct block){.h = r.h,
                          .np = 1,
                          .rows = (const char *)a->rows + r.row * w->row_bytes,
                          .panel = w->panel + p->panel * w->panel_bytes,
                          .steps = w->steps,
                          .out = out_at(a, p->panel, r.row)};
}

/* A block of f32 or bf16, in as many parts as there are runs in its share of what is wanted soon.
 */
static void run_asking(const struct linear_isa *isa, const struct k_linear *a,
                       const struct block *whole, struct soon *soon, struct soon_share share,
                       float *sums)
{
    int64_t bytes = share.hi - share.lo, n, end;
    for (int64_t at = 0; at < whole->steps; at = end) {
        struct block b = *whole;
        b.rows += at * b.h * 4;
        b.panel += at * TILE_STEP_BYTES;
        b.from = at > 0 ? sums : NULL;
        b.ahead = tile_ahead_behind(&whole->ahead, at);
        end = whole->steps;
        if (share.lo < share.hi) {
            b.ahead.also = soon_cut(soon, &share, &n);
            b.ahead.also_pace = linear_ceil_div(bytes, whole->steps);
            end -= (share.hi - share.lo) * whole->steps / bytes;
            end = end > at ? end : at + 1;
        }
        b.steps = end - at;
        b.to = end < whole->steps ? sums : NULL;
        block_run(isa, a->w.type, &b);
    }
}

static bool asks(const struct weight *w, const struct soon *s, const struct share *own)
{
    return s->bytes > 0 && w->steps > 0 && own->pace <= SOON_PACE_MAX;
}

static void blocks(const struct linear_isa *isa, const struct k_linear *a, const struct weight *w,
                   const struct linear_piece *p, struct soon *soon, float *total)
{
    int64_t n = p->block_hi - p->block_lo;
    const char *next = w->panel + (p->panel + 1) * w->panel_bytes;
    struct share share = share_of_next(next, w->panel_bytes, w->steps, n);
    for (int64_t i = 0; i < n; i++) {
        struct block b = block_at(a, w, p, p->block_lo + i);
        b.ahead = share_at(&share, i);
        if (asks(w, soon, &share))
            run_asking(isa, a, &b, soon,
                       soon_share(soon, p->panel * rows_blocks(a->m) + p->block_lo + i), total);
        else
            run_block(isa, a, &b, p->panel, total);
    }
}

/* Steps [lo, lo + n) of a panel of codes. */
static void open_steps(const struct linear_isa *isa, const struct k_linear *a,
                       const struct weight *w, const struct linear_piece *p, int64_t lo, int64_t n,
                       char *scratch)
{
    const char *codes = w->panel + p->panel * w->panel_bytes + lo * w->step_bytes;
    int64_t n_block = p->block_hi - p->block_lo, bytes = n * w->step_bytes;
    float *total = (float *)(void *)(scratch + OPEN_BYTES);
    struct share share = share_of_next(codes + bytes, bytes, n, n_block);
    for (int64_t i = 0; i < n_block; i++) {
        struct block_open o = {.b = block_at(a, w, p, p->block_lo + i),
                               .opened = i == 0 ? scratch : NULL,
                               .scale = scale_at(a, p->panel) + lo / TILE_GROUP_STEPS * K_NR};
        o.b.rows += lo * o.b.h * 4;
        o.b.panel = i == 0 ? codes : scratch;
        o.b.steps = n;
        o.b.from = lo > 0 ? total : NULL;
        o.b.to = lo + n < w->steps ? total : NULL;
        o.b.ahead = share_at(&share, i);
        isa->int8_open(&o);
        total += o.b.h * K_NR;
    }
}

static void opened_blocks(const struct linear_isa *isa, const struct k_linear *a,
                          const struct weight *w, const struct linear_piece *p, char *scratch)
{
    for (int64_t lo = 0; lo < w->steps; lo += OPEN_STEPS)
        open_steps(isa, a, w, p, lo, linear_min(w->steps - lo, OPEN_STEPS), scratch);
}

/* Few blocks are done sooner when each looks the codes up for itself. */
static bool opens(const struct linear_isa *isa, const struct k_linear *a, const struct weight *w,
                  const struct linear_piece *p)
{
    return a->w.type == K_INT8 && isa->int8_open && w->steps > 0 &&
           p->block_hi - p->block_lo >= OPEN_BLOCKS;
}

void linear_run(const struct linear_isa *isa, const struct k_linear *a, const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    struct weight w = weight_of(a);
    if (g.n_block == 1) {
        one_block(isa, a, s);
        return;
    }
    struct soon soon;
    soon_init(&soon, &a->soon, g.n_panel * g.n_block);
    if (g.n_span > 1 || a->w.type == K_INT8) /* shares would not ascend; sums stand elsewhere */
        soon.bytes = 0;
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        if (opens(isa, a, &w, &p))
            opened_blocks(isa, a, &w, &p, s->scratch);
        else
            blocks(isa, a, &w, &p, &soon, s->scratch);
    }
}
