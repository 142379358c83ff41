/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_<format>. One block of rows (decode): memory is the limit. Up to
 * three rows take several panels at once to have enough sums under way, and the hardware's
 * prefetcher keeps up with their plain ascending reads, of codes with some help (tile_avx512.h,
 * which brought an Intel CPU a sixth more); more rows read one panel more slowly, and a
 * prefetch at a fixed distance keeps memory busy. Several blocks: a panel passes them while it lies
 * in the core's cache, and each asks for its share of the next, so that memory and arithmetic
 * overlap. The rows stream from the cache behind, 48 bytes per 24 cycles.
 *
 * Codes in many blocks: a run of a panel's inputs at a time is widened to bf16 in scratch, for all
 * blocks; the totals of blocks that have more inputs to come wait there too.
 *
 * Gated: a piece's gates go to scratch, then what they gate, and from there, out of the second
 * cache, rounded rows to where the next product reads them. Written as numbers both would be four
 * times as much, of which the cores' caches hold little.
 *
 * Where a variant opens what it multiplies, more than few rows go to linear_widened.c instead, or,
 * up to some more, to what the variant has for those.
 *
 * Rejected: cutting the inputs so that a piece of a bf16 panel fits in the first-level cache. The
 * sums' way to memory and back costs more than the second-level cache does (5 to 20%).
 */
#include "kernels/linear_grid.h"
#include "kernels/x86/linear_widened.h"
#include "kernels/x86/prefetch.h"

enum {
    AHEAD_BYTES =
        32 << 10, /* of one block of rows: far enough for memory, near in a small weight */
    OPEN_BLOCKS = 4,
    OPEN_STEPS = 1024, /* of codes, widened at a time: whole groups */
    OPEN_BYTES = OPEN_STEPS * TILE_STEP_BYTES,
    SUMS_BYTES = LINEAR_SPAN_ROWS * K_NR * 4, /* of one panel */
    HALF_AT = OPEN_BYTES + SUMS_BYTES /* in scratch: gates, and behind them what they gate */
};

_Static_assert(OPEN_STEPS % (K_INT8_GROUP / 2) == 0 && OPEN_STEPS % (K_INT8G_GROUP / 2) == 0 &&
                   OPEN_STEPS % (K_INT4_GROUP / 2) == 0,
               "a run of codes is whole groups");
_Static_assert(HALF_AT + 2 * SUMS_BYTES <= K_SCRATCH_BYTES, "all of it fits scratch");

/* What formats differ in, and where outputs go. */
struct weight {
    int64_t steps, panel_bytes, step_bytes;
    int64_t row_bytes;
    const char *panel; /* of panel_lo */
    struct rows_cut cut;
    float *y; /* from row row_lo and panel y_panel on */
    int64_t ld_y, row_lo, y_panel;
    int64_t to_next; /* panels from one to the next that a thread takes */
};

static struct weight weight_of(const struct k_linear *a)
{
    int64_t stored = linear_k_stored(a->w.type, a->w.k);
    struct k_stream numbers = format_stream(a->w.type, 0);
    struct weight w = {.steps = stored / numbers.inputs, .step_bytes = numbers.bytes};
    w.row_bytes = (int64_t)linear_row_bytes(a->w.type, a->w.k);
    w.panel_bytes = w.steps * w.step_bytes;
    w.panel = (const char *)a->w.data + a->panel_lo * w.panel_bytes;
    w.cut = rows_cut_of(a->m);
    w.y = a->y;
    w.ld_y = a->ld_y;
    w.to_next = 1;
    return w;
}

static struct tile_out out_at(const struct k_linear *a, const struct weight *w, int64_t panel,
                              int64_t row)
{
    int64_t first = (a->panel_lo + panel) * K_NR;
    return (struct tile_out){.y = w->y + (row - w->row_lo) * w->ld_y + (panel - w->y_panel) * K_NR,
                             .ld_y = w->ld_y,
                             .cols = a->w.n - first,
                             .bias = a->bias ? a->bias + first : NULL,
                             .add = a->add};
}

static const char *scale_at(const struct k_linear *a, int64_t panel, int64_t group)
{
    return linear_scales(&a->w, a->panel_lo + panel, group);
}

static void run_block(const struct linear_isa *isa, const struct k_linear *a, const struct block *b,
                      int64_t panel, float *total)
{
    if (!format_group(a->w.type)) {
        block_run(isa, a->w.type, b);
    } else {
        int64_t groups = linear_groups(a->w.type, a->w.k);
        struct block_codes q = {.b = *b,
                                .scale = scale_at(a, panel, 0),
                                .scale_stride = groups * format_stream(a->w.type, 1).bytes,
                                .total = total};
        isa->codes[a->w.type](&q);
    }
}

/* Panels [lo, hi) against all rows, which are one block. */
static void one_block(const struct linear_isa *isa, const struct k_linear *a,
                      const struct weight *w, int64_t lo, int64_t hi, float *total)
{
    int64_t n = hi - lo, passes = linear_ceil_div(n, isa->panels[a->m]);
    for (int64_t i = 0; i < passes; i++) {
        int64_t panel = lo + n * i / passes, end = lo + n * (i + 1) / passes;
        struct block b = {.h = a->m,
                          .np = end - panel,
                          .rows = a->rows,
                          .panel = w->panel + panel * w->panel_bytes,
                          .stride = w->panel_bytes,
                          .steps = w->steps,
                          .out = out_at(a, w, panel, 0)};
        b.ahead = tile_prefetch_at(b.panel + AHEAD_BYTES, w->step_bytes);
        run_block(isa, a, &b, panel, total);
    }
}

/* The next piece of weights comes while this one passes n blocks: each of them brings its share,
 * all of it: a line left out waits for memory when its turn comes, for as long as a tenth of a
 * block takes. */
struct share {
    const char *next;
    int64_t bytes, pace; /* of a block; of a step */
};

static struct share share_of_next(const char *next, int64_t bytes, int64_t steps, int64_t n)
{
    return (struct share){next, bytes / n, steps > 0 ? linear_ceil_div(bytes, n * steps) : 0};
}

static struct tile_prefetch share_at(const struct share *s, int64_t i)
{
    return tile_prefetch_at(s->next + s->bytes * i, s->pace);
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
                          .out = out_at(a, w, p->panel, r.row)};
}

/* A block's steps in as many parts as there are runs in its share of what is wanted soon. */
struct asking {
    struct prefetch *prefetch;
    struct prefetch_share share; /* what is left of it */
    struct tile_prefetch own;    /* of the whole block */
    int64_t bytes, steps;        /* of the share; of the block */
    int64_t grain;               /* steps that a part may not cut */
};

struct part {
    int64_t lo, hi; /* steps */
    struct tile_prefetch ahead;
};

/* The next part; {.hi = 0} begins. */
static bool part_next(struct asking *q, struct part *p)
{
    if (p->hi == q->steps)
        return false;
    *p = (struct part){p->hi, q->steps, tile_prefetch_behind(&q->own, p->hi)};
    if (q->share.lo < q->share.hi) {
        int64_t n;
        p->ahead.also = prefetch_cut(q->prefetch, &q->share, &n);
        p->ahead.also_pace = linear_ceil_div(q->bytes, q->steps);
        int64_t end = q->steps - (q->share.hi - q->share.lo) * q->steps / q->bytes;
        end = (end > p->lo ? end + q->grain - 1 : p->lo + q->grain) / q->grain * q->grain;
        p->hi = linear_min(end, q->steps);
    }
    return true;
}

static struct asking asking_of(struct prefetch *prefetch, int64_t share, const struct block *b,
                               int64_t grain)
{
    struct asking q = {.prefetch = prefetch,
                       .share = prefetch_share(prefetch, share),
                       .own = b->ahead,
                       .steps = b->steps,
                       .grain = grain};
    q.bytes = q.share.hi - q.share.lo;
    return q;
}

/* A block without groups; sums: room for what goes from part to part. */
static void run_asking(const struct linear_isa *isa, const struct k_linear *a,
                       const struct weight *w, const struct block *whole, struct asking *q,
                       float *sums)
{
    for (struct part p = {0}; part_next(q, &p);) {
        struct block b = *whole;
        b.rows += p.lo * b.h * 4;
        b.panel += p.lo * w->step_bytes;
        b.steps = p.hi - p.lo;
        b.from = p.lo > 0 ? sums : NULL;
        b.to = p.hi < whole->steps ? sums : NULL;
        b.ahead = p.ahead;
        block_run(isa, a->w.type, &b);
    }
}

/* The same of codes, whose totals stand in `total` between parts. */
static void open_asking(const struct linear_isa *isa, enum k_type type,
                        const struct block_widen *whole, struct asking *q, float *total)
{
    int64_t step_bytes = whole->widened ? format_stream(type, 0).bytes : TILE_STEP_BYTES;
    for (struct part p = {0}; part_next(q, &p);) {
        struct block_widen o = *whole;
        o.b.rows += p.lo * o.b.h * 4;
        o.b.panel += p.lo * step_bytes;
        o.widened = o.widened ? o.widened + p.lo * TILE_STEP_BYTES : NULL;
        o.scale += p.lo / q->grain * format_stream(type, 1).bytes;
        o.b.steps = p.hi - p.lo;
        o.b.from = p.lo > 0 ? total : whole->b.from;
        o.b.to = p.hi < whole->b.steps ? total : whole->b.to;
        o.b.ahead = p.ahead;
        isa->codes_widen[type](&o);
    }
}

/* Shares of a panel's pass of one block: codes may be widened a run at a time. */
static int64_t pass_shares(const struct k_linear *a, const struct weight *w)
{
    return format_group(a->w.type) && w->steps > 0 ? linear_ceil_div(w->steps, OPEN_STEPS) : 1;
}

/* The share of block i of a piece over the run of steps from `lo` on. */
static int64_t share_index(const struct k_linear *a, const struct weight *w,
                           const struct linear_piece *p, int64_t i, int64_t lo)
{
    int64_t run = p->panel * pass_shares(a, w) + lo / OPEN_STEPS;
    return run * rows_blocks(a->m) + p->block_lo + i;
}

/* Block i of a piece, which asks for its share of what is wanted soon. */
static void block_asking(const struct linear_isa *isa, const struct k_linear *a,
                         const struct weight *w, const struct linear_piece *p, int64_t i,
                         struct block *b, struct prefetch *prefetch, float *total)
{
    /* codes in one part: behind the end of a run stands what is wanted next */
    int64_t grain = format_group(a->w.type) ? w->steps : 1;
    struct asking q = asking_of(prefetch, share_index(a, w, p, i, 0), b, grain);
    struct part all = {0};
    if (q.bytes > 0 && !format_group(a->w.type)) {
        run_asking(isa, a, w, b, &q, total);
        return;
    }
    if (q.bytes > 0 && part_next(&q, &all))
        b->ahead = all.ahead;
    run_block(isa, a, b, p->panel, total);
}

static void blocks(const struct linear_isa *isa, const struct k_linear *a, const struct weight *w,
                   const struct linear_piece *p, struct prefetch *prefetch, float *total)
{
    int64_t n = p->block_hi - p->block_lo;
    const char *next = w->panel + (p->panel + w->to_next) * w->panel_bytes;
    struct share share = share_of_next(next, w->panel_bytes, w->steps, n);
    bool asks = prefetch->bytes > 0 && w->steps > 0 && share.pace <= SOON_PACE_MAX &&
                !format_is_nested(a->w.type);
    for (int64_t i = 0; i < n; i++) {
        struct block b = block_at(a, w, p, p->block_lo + i);
        b.ahead = share_at(&share, i);
        if (asks)
            block_asking(isa, a, w, p, i, &b, prefetch, total);
        else
            run_block(isa, a, &b, p->panel, total);
    }
}

/* Steps [lo, lo + n) of a panel of codes. */
static void open_steps(const struct linear_isa *isa, const struct k_linear *a,
                       const struct weight *w, const struct linear_piece *p, int64_t lo, int64_t n,
                       struct prefetch *prefetch, char *scratch)
{
    const char *codes = w->panel + p->panel * w->panel_bytes + lo * w->step_bytes;
    int64_t group = tile_group_steps(a->w.type);
    int64_t n_block = p->block_hi - p->block_lo, bytes = n * w->step_bytes;
    float *total = (float *)(void *)(scratch + OPEN_BYTES);
    int64_t skip = lo + n < w->steps ? 0 : (w->to_next - 1) * w->panel_bytes;
    struct share share = share_of_next(codes + bytes + skip, bytes, n, n_block);
    for (int64_t i = 0; i < n_block; i++) {
        struct block_widen o = {.b = block_at(a, w, p, p->block_lo + i),
                                .widened = i == 0 ? scratch : NULL,
                                .scale = scale_at(a, p->panel, lo / group)};
        o.b.rows += lo * o.b.h * 4;
        o.b.panel = i == 0 ? codes : scratch;
        o.b.steps = n;
        o.b.from = lo > 0 ? total : NULL;
        o.b.to = lo + n < w->steps ? total : NULL;
        o.b.ahead = share_at(&share, i);
        struct asking q = asking_of(prefetch, share_index(a, w, p, i, lo), &o.b, group);
        open_asking(isa, a->w.type, &o, &q, total);
        total += o.b.h * K_NR;
    }
}

static void widened_blocks(const struct linear_isa *isa, const struct k_linear *a,
                           const struct weight *w, const struct linear_piece *p,
                           struct prefetch *prefetch, char *scratch)
{
    for (int64_t lo = 0; lo < w->steps; lo += OPEN_STEPS)
        open_steps(isa, a, w, p, lo, linear_min(w->steps - lo, OPEN_STEPS), prefetch, scratch);
}

/* Few blocks are done sooner when each looks the codes up for itself. */
static bool opens(const struct linear_isa *isa, const struct k_linear *a, const struct weight *w,
                  const struct linear_piece *p)
{
    return format_group(a->w.type) && isa->codes_widen[a->w.type] && w->steps > 0 &&
           p->block_hi - p->block_lo >= OPEN_BLOCKS;
}

static void run_piece(const struct linear_isa *isa, const struct k_linear *a,
                      const struct weight *w, const struct linear_piece *p,
                      struct prefetch *prefetch, char *scratch)
{
    if (opens(isa, a, w, p))
        widened_blocks(isa, a, w, p, prefetch, scratch);
    else
        blocks(isa, a, w, p, prefetch, (float *)(void *)scratch);
}

static float *half_at(char *scratch, int half)
{
    return (float *)(void *)(scratch + HALF_AT + half * SUMS_BYTES);
}

/* K_NR columns of a block of rows, which begin at number `at` of both halves in scratch, ld wide,
 * to inputs of packed rows: those of panel `panel` of n_panel. */
static void gate_block(const struct linear_isa *isa, const struct k_linear *a, char *scratch,
                       const struct rows_block *r, int64_t at, int64_t ld, int64_t panel,
                       int64_t n_panel)
{
    struct gating g = {.gate = half_at(scratch, 0) + at,
                       .up = half_at(scratch, 1) + at,
                       .ld = ld,
                       .h = r->h,
                       .to = (char *)a->gated +
                             (r->row * n_panel + panel * r->h) * K_NR * (int64_t)sizeof(k_bf16)};
    isa->gate(&g);
}

/* Units [s->lo, s->hi) of all rows, which are one block: as many panels at a time as have room. */
static void gated_one_block(const struct linear_isa *isa, const struct k_linear *a,
                            const struct linear_grid *g, const struct k_slice *s)
{
    struct weight w = weight_of(a);
    struct rows_block all = {.h = a->m};
    int64_t most = LINEAR_SPAN_ROWS / a->m, hi;
    for (int64_t lo = s->lo; lo < s->hi; lo = hi) {
        hi = linear_min(lo + most, s->hi);
        w.ld_y = (hi - lo) * K_NR;
        for (int half = 0; half < 2; half++) {
            w.y = half_at(s->scratch, half);
            w.y_panel = lo + half * g->n_panel;
            one_block(isa, a, &w, w.y_panel, w.y_panel + hi - lo, s->scratch);
        }
        for (int64_t i = lo; i < hi; i++)
            gate_block(isa, a, s->scratch, &all, (i - lo) * K_NR, w.ld_y, i, g->n_panel);
    }
}

static void gated_piece(const struct linear_isa *isa, const struct k_linear *a,
                        const struct linear_grid *g, const struct linear_piece *p,
                        struct prefetch *prefetch, char *scratch)
{
    struct weight w = weight_of(a);
    w.ld_y = K_NR;
    w.row_lo = rows_cut_at(&w.cut, p->block_lo).row;
    for (int half = 0; half < 2; half++) {
        struct linear_piece q = *p;
        q.panel += half * g->n_panel;
        w.y = half_at(scratch, half);
        w.y_panel = q.panel;
        w.to_next = half ? 1 - g->n_panel : g->n_panel;
        run_piece(isa, a, &w, &q, prefetch, scratch);
    }
    for (int64_t i = p->block_lo; i < p->block_hi; i++) {
        struct rows_block r = rows_cut_at(&w.cut, i);
        gate_block(isa, a, scratch, &r, (r.row - w.row_lo) * K_NR, K_NR, p->panel, g->n_panel);
    }
}

void linear_run(const struct linear_isa *isa, const struct k_linear *a, const struct k_slice *s)
{
    const bool is_mid = isa->mid && a->m > isa->few_max && a->m <= isa->mid_max;
    if (is_mid && !format_group(a->w.type) && !format_is_nested(a->w.type)) {
        isa->mid(a, s->lo, s->hi, s->scratch);
        return;
    }
    if (isa->widening && a->m > isa->few_max) {
        linear_widened_run(isa, a, s);
        return;
    }
    struct linear_grid g = linear_grid(a);
    struct weight w = weight_of(a);
    if (g.n_block == 1 && a->gated) {
        gated_one_block(isa, a, &g, s);
        return;
    }
    if (g.n_block == 1) {
        one_block(isa, a, &w, s->lo, s->hi, s->scratch);
        return;
    }
    struct prefetch prefetch;
    prefetch_init(&prefetch, &a->prefetch, g.n_panel * g.n_block * pass_shares(a, &w));
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        if (a->gated)
            gated_piece(isa, a, &g, &p, &prefetch, s->scratch);
        else
            run_piece(isa, a, &w, &p, &prefetch, s->scratch);
    }
}
