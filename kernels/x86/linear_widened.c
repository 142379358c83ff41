/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of some panels is widened, then each block of rows is, and passes those panels: 16 KB of
 * half a panel and 12 KB of rows lie in the first cache meanwhile, the other panels in the second.
 * The sums wait in scratch from run to run.
 *
 * Tried with AVX2: runs of 128 or 384 inputs, half a panel held for all rows, tiles of three rows
 * by a whole panel, rows asked for ahead, two panels at a time: nothing.
 */
#include "kernels/x86/linear_widened.h"

/* Panels [panel, panel + n_panel) and blocks of rows [block, block + n_block). */
struct area {
    int64_t panel, n_panel, block, n_block;
    int64_t next; /* panel that most likely comes then */
    struct rows_cut cut;
};

struct room {
    float *panels, *rows, *sums;
    float scales[OPENED_PANELS][K_NR]; /* of the run */
};

static struct room room_in(char *scratch)
{
    char *rows = scratch + OPENED_PANELS * OPENED_PANEL_BYTES;
    return (struct room){(float *)(void *)scratch,
                         (float *)(void *)rows,
                         (float *)(void *)(rows + OPENED_ROWS_BYTES),
                         {{0}}};
}

static float *panel_in(const struct room *room, int64_t i)
{
    return room->panels + i * (OPENED_PANEL_BYTES / (int64_t)sizeof(float));
}

static int64_t run_of(const struct widened *o)
{
    return format_folds(o->type) ? format_group(o->type) : OPENED_INPUTS;
}

/* Lines [line, end) of part q of what the next run opens. */
static struct lines ask(const struct widened *o, const struct area *r, int64_t lo, int64_t q,
                        int64_t line, int64_t end)
{
    int64_t next = lo + run_of(o), panel = r->panel;
    if (next >= o->inputs) {
        next = 0;
        panel = r->next;
    }
    if (panel >= o->n_panel)
        return (struct lines){0};
    return (struct lines){o->stored(o, panel, next, q, line * LINE_BYTES), end - line};
}

/* Rows of a block, n inputs from `lo` on. */
static void rows_open(const struct widened *o, const struct rows_block *b, int64_t lo, int64_t n,
                      const struct room *room, struct block_widened *k)
{
    int64_t at = b->row * o->inputs + lo * b->h;
    k->b.h = b->h;
    k->b.steps = n;
    if (format_rows(o->type) == K_F32) {
        k->b.rows = o->rows + at * (int64_t)sizeof(float);
        k->to_second = b->h;
        k->to_third = 2 * b->h;
        return;
    }
    o->isa->widening->rows(o->rows + at * (int64_t)sizeof(k_bf16), b->h, n / 2, room->rows);
    k->b.rows = (const char *)room->rows;
    k->to_second = n / 2 * b->h;
    k->to_third = b->h;
}

/* Block i against all panels of the area. */
static void pass(const struct widened *o, const struct area *r, const struct room *room, int64_t lo,
                 int64_t n, int64_t i)
{
    struct rows_block b = rows_cut_at(&r->cut, r->block + i);
    float *sum = room->sums + i * OPENED_PANELS * LINEAR_MR * K_NR;
    struct block_widened k = {.b.np = 1};
    int64_t lines = o->run_bytes / LINE_BYTES; /* each block asks for its share of them */
    int64_t line = lines * i / r->n_block, end = lines * (i + 1) / r->n_block;
    rows_open(o, &b, lo, n, room, &k);
    for (int64_t q = 0; q < r->n_panel; q++, sum += LINEAR_MR * K_NR) {
        k.b.panel = (const char *)panel_in(room, q);
        k.b.from = lo > 0 ? sum : NULL;
        k.b.to = lo + n < o->inputs ? sum : NULL;
        k.b.out = o->out(o, r->panel + q, b.row);
        k.ahead = ask(o, r, lo, q, line, end);
        k.scale = o->scale ? room->scales[q] : NULL;
        o->isa->widening->block(&k);
    }
}

static void area_run(const struct widened *o, const struct area *r, char *scratch)
{
    struct room room = room_in(scratch);
    int64_t lo = 0;
    do { /* without inputs, too: there may be a bias */
        int64_t n = linear_min(o->inputs - lo, run_of(o));
        for (int64_t q = 0; q < r->n_panel; q++) {
            float *to = panel_in(&room, q);
            o->open(o, r->panel + q, lo, n, to, to + n * (K_NR / 2));
            if (o->scale && n > 0)
                o->scale(o, r->panel + q, lo, room.scales[q]);
        }
        for (int64_t i = 0; i < r->n_block; i++)
            pass(o, r, &room, lo, n, i);
        lo += n;
    } while (lo < o->inputs);
}

/* Panels that follow each other and pass the same blocks. */
static struct area area_next(const struct linear_grid *g, int64_t *u, int64_t hi)
{
    struct linear_piece p = linear_grid_next(g, u, hi);
    struct area r = {p.panel, 1, p.block_lo, p.block_hi - p.block_lo, p.panel, {0}};
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

void widened_run(const struct widened *o, const struct linear_grid *g, const struct k_slice *s)
{
    if (o->m <= 0)
        return;
    struct rows_cut cut = rows_cut_of(o->m);
    for (int64_t u = s->lo; u < s->hi;) {
        struct area all = area_next(g, &u, s->hi);
        all.cut = cut;
        int64_t parts = linear_ceil_div(all.n_block, OPENED_BLOCKS);
        for (int64_t i = 0; i < parts; i++) {
            struct area r = all;
            r.block += all.n_block * i / parts;
            r.next += i + 1 < parts ? 0 : r.n_panel;
            r.n_block = all.block + all.n_block * (i + 1) / parts - r.block;
            area_run(o, &r, s->scratch);
        }
    }
}

/* ---- the forward --------------------------------------------------------------------------- */

static const char *linear_stored(const struct widened *o, int64_t panel, int64_t lo, int64_t q,
                                 int64_t at)
{
    const struct k_linear *a = o->call;
    int64_t numbers = (a->panel_lo + panel + q) * o->inputs + lo;
    return (const char *)a->w.data + linear_panel_bytes(o->type, numbers) + at;
}

/* Weights [n][16] of a group times its scales. */
static void scale_half(const float *scale, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++, to += K_NR / 2)
        for (int j = 0; j < K_NR / 2; j++)
            to[j] *= scale[j];
}

static void linear_scale(const struct widened *o, int64_t panel, int64_t lo, float *to);

static void linear_open(const struct widened *o, int64_t panel, int64_t lo, int64_t n, float *to,
                        float *second)
{
    const int64_t group = format_group(o->type), half = K_NR / 2;
    o->isa->widening->weight(o->type, linear_stored(o, panel, lo, 0, 0), n, to, second);
    for (int64_t i = 0; group && !o->scale && i < n; i += group) {
        float scale[K_NR];
        linear_scale(o, panel, lo + i, scale);
        scale_half(scale, linear_min(n - i, group), to + i * half);
        scale_half(scale + half, linear_min(n - i, group), second + i * half);
    }
}

static void linear_scale(const struct widened *o, int64_t panel, int64_t lo, float *to)
{
    const struct k_linear *a = o->call;
    const void *from = linear_scales(&a->w, a->panel_lo + panel, lo / format_group(o->type));
    o->isa->widening->scales(o->type, from, to);
}

static struct tile_out linear_out(const struct widened *o, int64_t panel, int64_t row)
{
    const struct k_linear *a = o->call;
    int64_t first = (a->panel_lo + panel) * K_NR;
    return (struct tile_out){.y = a->y + row * a->ld_y + panel * K_NR,
                             .ld_y = a->ld_y,
                             .cols = a->w.n - first,
                             .bias = a->bias ? a->bias + first : NULL,
                             .add = a->add};
}

void linear_widened_run(const struct linear_isa *isa, const struct k_linear *a,
                        const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    struct widened o = {.isa = isa,
                        .type = a->w.type,
                        .rows = a->rows,
                        .m = a->m,
                        .n_panel = a->panel_hi - a->panel_lo,
                        .inputs = linear_k_stored(a->w.type, a->w.k),
                        .open = linear_open,
                        .scale = format_folds(a->w.type) ? linear_scale : NULL,
                        .out = linear_out,
                        .stored = linear_stored,
                        .call = a};
    o.run_bytes = (int64_t)linear_panel_bytes(o.type, run_of(&o));
    widened_run(&o, &g, s);
}
