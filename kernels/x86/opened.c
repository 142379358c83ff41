/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of some panels is opened, then each block of rows is, and passes those panels: 16 KB of a
 * panel and 6 KB of rows lie in the first cache meanwhile, the other panels in the second. The sums
 * wait in scratch from run to run, 100 cycles of a block's 3,000. Opening costs a panel 8 cycles a
 * step, which all blocks share, and a block 3 cycles a step, which all panels share.
 */
#include "kernels/x86/opened.h"

/* Panels [panel, panel + n_panel) and blocks of rows [block, block + n_block). */
struct area {
    int64_t panel, n_panel, block, n_block;
};

struct room {
    float *panels, *rows, *sums;
};

static struct room room_in(char *scratch)
{
    char *rows = scratch + OPENED_PANELS * OPENED_PANEL_BYTES;
    return (struct room){(float *)(void *)scratch, (float *)(void *)rows,
                         (float *)(void *)(rows + OPENED_ROWS_BYTES)};
}

/* Block i of an area asks for its share of part q of what the next run opens. */
static struct tile_ahead ask(const struct opened *o, const struct area *r, int64_t lo, int64_t n,
                             int64_t i, int64_t q)
{
    int64_t next = lo + OPENED_STEPS, panel = r->panel;
    int64_t bytes = OPENED_STEPS * o->step_bytes;
    if (next >= o->steps) { /* most likely these come then */
        next = 0;
        panel += r->n_panel;
    }
    if (panel >= o->n_panel || n == 0)
        return tile_ahead_at(o->rows, 0);
    return tile_ahead_at(o->stored(o, panel, next, q) + bytes * i / r->n_block,
                         linear_ceil_div(bytes, r->n_block * 2 * n));
}

/* Block i against all panels of the area. */
static void pass(const struct opened *o, const struct area *r, const struct room *room, int64_t lo,
                 int64_t n, int64_t i)
{
    struct rows_block b = rows_block_at(o->m, r->block + i);
    float *sum = room->sums + i * OPENED_PANELS * LINEAR_MR * K_NR;
    o->isa->opening->rows(o->rows + (b.row * o->steps + lo * b.h) * 4, b.h, n, room->rows);
    for (int64_t q = 0; q < r->n_panel; q++, sum += LINEAR_MR * K_NR) {
        struct block k = {.h = b.h,
                          .np = 1,
                          .rows = (const char *)room->rows,
                          .panel = (const char *)room->panels + q * OPENED_PANEL_BYTES,
                          .steps = 2 * n,
                          .from = lo > 0 ? sum : NULL,
                          .to = lo + n < o->steps ? sum : NULL,
                          .scale = o->scale ? o->scale(o, r->panel + q, lo) : NULL,
                          .out = o->out(o, r->panel + q, b.row),
                          .ahead = ask(o, r, lo, n, i, q)};
        o->isa->f32(&k);
    }
}

static void area_run(const struct opened *o, const struct area *r, char *scratch)
{
    struct room room = room_in(scratch);
    int64_t lo = 0;
    do { /* without inputs, too: there may be a bias */
        int64_t n = linear_min(o->steps - lo, OPENED_STEPS);
        for (int64_t q = 0; q < r->n_panel; q++)
            o->open(o, r->panel + q, lo, n, room.panels + q * (OPENED_PANEL_BYTES / 4));
        for (int64_t i = 0; i < r->n_block; i++)
            pass(o, r, &room, lo, n, i);
        lo += n;
    } while (lo < o->steps);
}

/* Panels that follow each other and pass the same blocks. */
static struct area area_next(const struct linear_grid *g, int64_t *u, int64_t hi)
{
    struct linear_piece p = linear_grid_next(g, u, hi);
    struct area r = {p.panel, 1, p.block_lo, p.block_hi - p.block_lo};
    while (*u < hi && r.n_panel < OPENED_PANELS) {
        int64_t behind = *u;
        struct linear_piece q = linear_grid_next(g, &behind, hi);
        if (q.panel != p.panel + r.n_panel || q.block_lo != p.block_lo || q.block_hi != p.block_hi)
            break;
        r.n_panel++;
        *u = behind;
    }
    return r;
}

void opened_run(const struct opened *o, const struct linear_grid *g, const struct k_slice *s)
{
    for (int64_t u = s->lo; u < s->hi;) {
        struct area all = area_next(g, &u, s->hi);
        int64_t parts = linear_ceil_div(all.n_block, OPENED_BLOCKS);
        for (int64_t i = 0; i < parts; i++) {
            struct area r = all;
            r.block += all.n_block * i / parts;
            r.n_block = all.block + all.n_block * (i + 1) / parts - r.block;
            area_run(o, &r, s->scratch);
        }
    }
}

/* ---- the forward --------------------------------------------------------------------------- */

static const char *linear_stored(const struct opened *o, int64_t panel, int64_t lo, int64_t i)
{
    const struct k_linear *a = o->call;
    int64_t at = (a->panel_lo + panel + i) * o->steps + lo;
    return (const char *)a->w.data + at * o->step_bytes;
}

static void linear_open(const struct opened *o, int64_t panel, int64_t lo, int64_t n, float *to)
{
    const struct k_linear *a = o->call;
    o->isa->opening->weight(a->w.type, linear_stored(o, panel, lo, 0), n, to);
}

static const float *linear_scale(const struct opened *o, int64_t panel, int64_t lo)
{
    const struct k_linear *a = o->call;
    int64_t group = (a->panel_lo + panel) * linear_groups(a->w.k) + lo / OPENED_STEPS;
    return a->w.scale + group * K_NR;
}

static struct tile_out linear_out(const struct opened *o, int64_t panel, int64_t row)
{
    const struct k_linear *a = o->call;
    int64_t first = (a->panel_lo + panel) * K_NR;
    return (struct tile_out){.y = a->y + row * a->ld_y + panel * K_NR,
                             .ld_y = a->ld_y,
                             .cols = a->w.n - first,
                             .bias = a->bias ? a->bias + first : NULL,
                             .add = a->add};
}

void linear_opened_run(const struct linear_isa *isa, const struct k_linear *a,
                       const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    bool codes = a->w.type == K_INT8;
    struct opened o = {.isa = isa,
                       .rows = a->rows,
                       .m = a->m,
                       .n_panel = a->panel_hi - a->panel_lo,
                       .steps = linear_k_stored(a->w.type, a->w.k) / LINEAR_STEP,
                       .open = linear_open,
                       .scale = codes ? linear_scale : NULL,
                       .out = linear_out,
                       .stored = linear_stored,
                       .step_bytes = codes ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES,
                       .call = a};
    opened_run(&o, &g, s);
}
