/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of routed rows, and the calls that do them.
 */
#include "kernels/experts_grid.h"

#include <string.h>

#include "kernels/linear_grid.h"

enum { PACK_COLS = 2048 }; /* inputs of a block that are gathered at a time: they fit scratch */

_Static_assert(PACK_COLS *LINEAR_MR * sizeof(float) <= K_SCRATCH_BYTES && PACK_COLS % 2 == 0,
               "a block's inputs");

static bool is_left_out(const struct k_saved *saved, int64_t expert)
{
    return saved && !saved[expert].data;
}

bool experts_next(struct experts_walk *w, struct experts_run *r)
{
    while (w->expert < w->n_expert && (is_left_out(w->saved, w->expert) ||
                                       w->start[w->expert] + w->at >= w->start[w->expert + 1])) {
        w->expert++;
        w->at = 0;
    }
    if (w->expert >= w->n_expert)
        return false;
    int64_t lo = w->start[w->expert] + w->at, hi = w->start[w->expert + 1];
    *r = (struct experts_run){w->expert, lo, linear_min(hi, lo + EXPERTS_RUN_ROWS)};
    w->at += r->hi - r->lo;
    return true;
}

int64_t experts_active(const struct k_stack *s, int64_t m, int64_t *n_row)
{
    int64_t n = 0;
    *n_row = m;
    if (!s->start)
        return linear_min(s->n_expert, m);
    *n_row = 0;
    for (int64_t e = 0; e < s->n_expert; e++) {
        int64_t rows = is_left_out(s->saved, e) ? 0 : s->start[e + 1] - s->start[e];
        n += rows > 0;
        *n_row += rows;
    }
    return n;
}

int64_t experts_runs(const int32_t *start, int64_t n_expert, const struct k_saved *saved, int64_t m)
{
    int64_t n = 0;
    if (!start)
        return linear_min(n_expert, m) + m / EXPERTS_RUN_ROWS;
    for (int64_t e = 0; e < n_expert && m > 0; e++)
        if (!is_left_out(saved, e))
            n += linear_ceil_div(start[e + 1] - start[e], EXPERTS_RUN_ROWS);
    return n;
}

static int64_t panels_of(const struct k_experts *a, bool is_dx)
{
    return linear_panels(is_dx ? a->stack.w.k : a->stack.w.n);
}

int64_t experts_units(const struct k_experts *a, bool is_dx)
{
    return experts_runs(a->stack.start, a->stack.n_expert, a->stack.saved, a->m) *
           panels_of(a, is_dx);
}

static struct k_weight weight_of(const struct k_stack *s, int64_t expert)
{
    struct k_weight w = s->w;
    if (s->saved) {
        w.data = s->saved[expert].data;
        w.scale = s->saved[expert].scale;
        return w;
    }
    w.data = (char *)w.data + expert * s->data_bytes;
    w.scale = w.scale ? (char *)w.scale + expert * s->scale_bytes : NULL;
    return w;
}

/* Panels [lo, hi) of a call that is cut by grid g: in each of its spans they stand together. */
static void run_panels(kernel_fn *fn, const void *args, const struct linear_grid *g, int64_t lo,
                       int64_t hi, const struct k_slice *s)
{
    for (int64_t span = 0; span < g->n_span; span++) {
        struct k_slice part = *s;
        part.lo = (span * g->n_panel + lo) * g->n_chunk;
        part.hi = (span * g->n_panel + hi) * g->n_chunk;
        fn(args, &part);
    }
}

/* Calls `one` for the slice's panels of each run. */
typedef void run_fn(const struct k_experts *a, const struct experts_run *r, int64_t lo, int64_t hi,
                    const struct k_slice *s, kernel_fn *fn);

static void run_units(const struct k_experts *a, const struct k_slice *s, kernel_fn *fn, bool is_dx,
                      run_fn *one)
{
    struct experts_walk w = {
        .start = a->stack.start, .n_expert = a->stack.n_expert, .saved = a->stack.saved};
    struct experts_run r;
    int64_t n_panel = panels_of(a, is_dx);
    for (int64_t first = 0; first < s->hi && experts_next(&w, &r); first += n_panel) {
        int64_t lo = s->lo > first ? s->lo - first : 0, hi = linear_min(n_panel, s->hi - first);
        if (lo < hi)
            one(a, &r, lo, hi, s, fn);
    }
}

static const char *rows_at(const struct k_experts *a, const struct experts_run *r, int64_t k)
{
    return (const char *)a->rows + r->lo * (int64_t)linear_row_bytes(a->stack.w.type, k);
}

static void product(const struct k_experts *a, const struct experts_run *r, int64_t lo, int64_t hi,
                    const struct k_slice *s, kernel_fn *fn)
{
    struct k_linear l = {.rows = rows_at(a, r, a->stack.w.k),
                         .w = weight_of(&a->stack, r->expert),
                         .y = a->y + r->lo * a->ld_y,
                         .ld_y = a->ld_y,
                         .m = r->hi - r->lo,
                         .panel_hi = linear_panels(a->stack.w.n)};
    struct linear_grid g = linear_grid(&l);
    run_panels(fn, &l, &g, lo, hi, s);
}

static void gradient(const struct k_experts *a, const struct experts_run *r, int64_t lo, int64_t hi,
                     const struct k_slice *s, kernel_fn *fn)
{
    struct k_linear_dx l = {.rows = rows_at(a, r, a->stack.w.n),
                            .m = r->hi - r->lo,
                            .w = weight_of(&a->stack, r->expert),
                            .panel_hi = linear_panels(a->stack.w.n),
                            .dx = a->y + r->lo * a->ld_y,
                            .ld_dx = a->ld_y,
                            .add = a->add};
    struct linear_grid g = linear_dx_grid(&l);
    run_panels(fn, &l, &g, lo, hi, s);
}

void experts_products(const struct k_experts *a, const struct k_slice *s, kernel_fn *linear)
{
    run_units(a, s, linear, false, product);
}

void experts_gradients(const struct k_experts *a, const struct k_slice *s, kernel_fn *dx)
{
    run_units(a, s, dx, true, gradient);
}

/* Routed rows [lo, lo + h), which are one block: gathered some inputs at a time, whose place in the
 * block is a run of it. */
static void pack_block(const struct k_experts_pack *a, int64_t lo, int64_t h,
                       const struct k_slice *s, kernel_fn *pack)
{
    size_t number = format_rows(a->type) == K_F32 ? sizeof(float) : sizeof(k_bf16);
    char *to = (char *)a->rows + lo * (int64_t)linear_row_bytes(a->type, a->k);
    float *row = s->scratch;
    for (int64_t at = 0; at < a->k; at += PACK_COLS) {
        int64_t n = linear_min(PACK_COLS, a->k - at);
        for (int64_t i = 0; i < h; i++)
            memcpy(row + i * n, a->x + experts_row(a->from, a->top, lo + i) * a->ld_x + at,
                   (size_t)n * sizeof *row);
        struct k_rows_pack p = {.x = row,
                                .ld_x = n,
                                .m = h,
                                .k = n,
                                .type = a->type,
                                .rows = to + (size_t)(at * h) * number};
        pack(&p, &(struct k_slice){.hi = 1});
    }
}

void experts_pack_runs(const struct k_experts_pack *a, const struct k_slice *s, kernel_fn *pack)
{
    struct experts_walk w = {.start = a->start, .n_expert = a->n_expert};
    struct experts_run r;
    for (int64_t i = 0; i < s->hi && experts_next(&w, &r); i++) {
        struct rows_cut cut = rows_cut_of(r.hi - r.lo);
        for (int64_t b = 0; i >= s->lo && b < rows_blocks(r.hi - r.lo); b++) {
            struct rows_block block = rows_cut_at(&cut, b);
            pack_block(a, r.lo + block.row, block.h, s, pack);
        }
    }
}
