/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_dx: the forward's loop over a weight turned over on the way. For a run of 32 inputs, the
 * tiles of some panels are transposed into scratch, where they form a panel whose outputs are those
 * inputs; it passes the blocks of rows, and meanwhile the tiles that come next are prefetched.
 * 32 x 32 numbers take about 100 cycles to turn over and 32 cycles per row to multiply.
 *
 * Where a variant opens what it multiplies (linear_widened.h), tiles are turned over on that way.
 *
 * Tried: pieces of a call that end with a panel, 9 or 18 for each thread instead of 8 (under 1%).
 */
#include "kernels/linear_grid.h"
#include "kernels/x86/linear_widened.h"

enum {
    PIECE_PANELS = 64,                       /* of the weight, turned over at a time */
    PIECE_BYTES = PIECE_PANELS * K_NR * 128, /* at most: f32 */
};

/* The call, in bytes and steps. */
struct dx {
    const struct linear_isa *isa;    /* borrowed */
    const struct k_linear_dx *a;     /* borrowed */
    int64_t n;                       /* outputs: what is summed over */
    int64_t per_step;                /* of them, and of inputs */
    int64_t panel_bytes, tile_bytes; /* of nested scales a tile is a part of a block */
    int64_t steps_stored;            /* of a panel */
    int64_t whole;                   /* tiles of a block of nested scales; 1: there are none */
    int64_t group;                   /* inputs that share a scale; 0: none do */
};

static struct dx dx_of(const struct linear_isa *isa, const struct k_linear_dx *a)
{
    enum k_type type = a->w.type;
    struct dx d = {.isa = isa,
                   .a = a,
                   .n = linear_outputs(&a->w, a->panel_lo, a->panel_hi),
                   .whole = format_is_nested(type) ? K_NESTED / K_NR : 1,
                   .group = format_group(type)};
    d.per_step = d.whole > 1 ? 1 : format_stream(type, 0).inputs;
    d.steps_stored = linear_ceil_div(a->w.k, d.per_step);
    d.tile_bytes = (int64_t)format_stream(type, 0).bytes * K_NR / format_stream(type, 0).inputs;
    d.panel_bytes = (int64_t)linear_panel_bytes(type, a->w.k);
    return d;
}

/* Steps of a tile, and where the tile of panel p stands: run `column` of 32 inputs. */
static int64_t tile_steps(const struct dx *d)
{
    return K_NR / d->per_step;
}

static const char *tile_at(const struct dx *d, int64_t p, int64_t column)
{
    return (const char *)d->a->w.data + (d->a->panel_lo + p) * d->panel_bytes +
           column / d->whole * d->whole * d->tile_bytes;
}

/* The tile of panel p becomes the steps of 32 outputs at `to`. */
static void turn_tile(const struct dx *d, int64_t p, int64_t column, char *to)
{
    struct turn t = {.type = d->a->w.type,
                     .tile = tile_at(d, p, column),
                     .left = linear_min(d->steps_stored - column * tile_steps(d), tile_steps(d)),
                     .first = column % d->whole * K_NR,
                     .to = to};
    if (d->group)
        t.scale = linear_scales(&d->a->w, d->a->panel_lo + p, column * K_NR / d->group);
    d->isa->turn(&t);
}

/* Panels [lo, hi) of a run of inputs. */
struct part {
    int64_t column, lo, hi;
};

/* Block i of n asks for its share of the tiles of `next`. */
static void ask_ahead(const struct dx *d, const struct part *next, int64_t i, int64_t n,
                      struct block *b)
{
    int64_t panels = next->hi - next->lo, lo = panels * i / n, count = panels * (i + 1) / n - lo;
    b->ahead = tile_prefetch_at(b->panel, 0);
    if (count == 0 || b->steps == 0)
        return;
    int64_t bytes = d->tile_bytes * count;
    b->ahead =
        tile_prefetch_at(tile_at(d, next->lo + lo, next->column), linear_ceil_div(bytes, b->steps));
    b->ahead_n = count;
    b->ahead_stride = d->panel_bytes;
}

static void pass_blocks(const struct dx *d, const struct linear_piece *p, const struct part *now,
                        const struct part *next, char *scratch)
{
    const struct k_linear_dx *a = d->a;
    int64_t n = p->block_hi - p->block_lo, all_steps = linear_ceil_div(d->n, d->per_step);
    int64_t at = now->lo * tile_steps(d);
    int64_t steps = linear_min(all_steps - at, (now->hi - now->lo) * tile_steps(d));
    float *sums = (float *)(void *)(scratch + PIECE_BYTES);
    int64_t row0 = rows_block_at(a->m, p->block_lo).row;
    for (int64_t i = 0; i < n; i++) {
        struct rows_block r = rows_block_at(a->m, p->block_lo + i);
        float *own = sums + (r.row - row0) * K_NR;
        struct block b = {.h = r.h,
                          .np = 1,
                          .rows = (const char *)a->rows + (r.row * all_steps + at * r.h) * 4,
                          .panel = scratch,
                          .steps = steps,
                          .from = at > 0 ? own : NULL,
                          .to = at + steps < all_steps ? own : NULL,
                          .out = {.y = a->dx + r.row * a->ld_dx + now->column * K_NR,
                                  .ld_y = a->ld_dx,
                                  .cols = a->w.k - now->column * K_NR,
                                  .add = a->add}};
        ask_ahead(d, next, i, n, &b);
        block_run(d->isa, format_rows(a->w.type), &b);
    }
}

static void dx_piece(const struct dx *d, const struct linear_piece *p, char *scratch)
{
    int64_t panels = d->a->panel_hi - d->a->panel_lo;
    struct part now = {p->panel, 0, linear_min(panels, PIECE_PANELS)};
    for (bool more = true; more;) {
        struct part next = {now.column, now.hi, linear_min(panels, now.hi + PIECE_PANELS)};
        more = now.hi < panels;
        if (!more) /* most likely the next run of inputs */
            next = (struct part){p->panel + 1, 0, linear_min(panels, PIECE_PANELS)};
        for (int64_t i = now.lo; i < now.hi; i++)
            turn_tile(d, i, now.column, scratch + (i - now.lo) * tile_steps(d) * TILE_STEP_BYTES);
        pass_blocks(d, p, &now, &next, scratch);
        now = next;
    }
}

/* ---- widened -------------------------------------------------------------------------------- */

/* Runs are whole tiles but for the last. */
static void dx_open(const struct widened *o, int64_t column, int64_t lo, int64_t n, float *to,
                    float *second)
{
    char turned[K_NR * TILE_STEP_BYTES] __attribute__((aligned(64)));
    const struct dx *d = o->call;
    enum k_type type = o->type;
    for (int64_t i = 0; i < n; i += K_NR) {
        int64_t at = i * (K_NR / 2);
        turn_tile(d, (lo + i) / K_NR, column, turned);
        d->isa->widening->weight(type, turned, linear_min(n - i, K_NR), to + at, second + at);
    }
}

static struct tile_out dx_out(const struct widened *o, int64_t column, int64_t row)
{
    const struct k_linear_dx *a = ((const struct dx *)o->call)->a;
    return (struct tile_out){.y = a->dx + row * a->ld_dx + column * K_NR,
                             .ld_y = a->ld_dx,
                             .cols = a->w.k - column * K_NR,
                             .add = a->add};
}

/* The tiles of some columns lie side by side, those of a run in some panels. Exact where blocks are
 * even in number; what others miss comes without having been asked for. */
static const char *dx_stored(const struct widened *o, int64_t column, int64_t lo, int64_t q,
                             int64_t at)
{
    const struct dx *d = o->call;
    int64_t beside = OPENED_PANELS * d->tile_bytes;
    int64_t panel = (lo + q * (OPENED_INPUTS / OPENED_PANELS)) / K_NR + at / beside;
    return tile_at(d, linear_min(panel, d->a->panel_hi - d->a->panel_lo - 1), column) + at % beside;
}

static void dx_widened(const struct dx *d, const struct linear_grid *g, const struct k_slice *s)
{
    struct widened o = {.isa = d->isa,
                        .type = format_rows(d->a->w.type),
                        .rows = d->a->rows,
                        .m = d->a->m,
                        .n_panel = g->n_panel,
                        .inputs = linear_row_stored(d->a->w.type, d->n),
                        .run_bytes = OPENED_INPUTS * d->tile_bytes / K_NR,
                        .open = dx_open,
                        .out = dx_out,
                        .stored = dx_stored,
                        .call = d};
    widened_run(&o, g, s);
}

void linear_dx_run(const struct linear_isa *isa, const struct k_linear_dx *a,
                   const struct k_slice *s)
{
    struct linear_grid g = linear_dx_grid(a);
    struct dx d = dx_of(isa, a);
    if (isa->widening) {
        dx_widened(&d, &g, s);
        return;
    }
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        dx_piece(&d, &p, s->scratch);
    }
}
