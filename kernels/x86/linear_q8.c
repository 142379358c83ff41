/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_q8: units to rows, panels and groups.
 */
#include "kernels/x86/linear_q8.h"

/* The codes of the group at input lo; where the weight ends within it, in `room` with zeros. */
static const char *codes_at(const struct k_weight *w, int64_t panel, int64_t lo, char *room)
{
    struct k_stream s = format_stream(w->type, 0);
    const char *of = (const char *)w->data + (size_t)panel * linear_panel_bytes(w->type, w->k);
    const char *codes = of + lo / s.inputs * s.bytes;
    int64_t left = linear_k_stored(w->type, w->k) - lo;
    if (left >= K_Q8_GROUP || format_is_nested(w->type))
        return codes;
    memset(room, 0, Q8_CODES_MAX);
    memcpy(room, codes, (size_t)(left / s.inputs * s.bytes));
    return room;
}

/* Group g of a panel for rows [row, row + h); room: for codes where the weight ends within it. */
static struct q8_call call_at(const struct k_linear *a, int64_t panel, int64_t g, int64_t row,
                              char *room)
{
    const struct k_weight *w = &a->w;
    int64_t lo = g * K_Q8_GROUP;
    struct q8_call q = {.codes = codes_at(w, panel, lo, room),
                        .x = (const struct q8_group *)a->rows + g * a->m + row};
    if (format_is_nested(w->type)) {
        q.at = lo % K_NESTED;
    } else {
        q.at = lo % format_group(w->type);
        q.scale = linear_scales(w, panel, lo / format_group(w->type));
    }
    return q;
}

/* Asks for the lines that rows leave their outputs in, some with each group: by then they are
 * there. */
struct asking {
    const float *y; /* of the next row */
    int64_t ld, share;
};

static void ask(struct asking *a, int64_t h, int64_t groups)
{
    for (a->share += h; a->share >= groups; a->share -= groups, a->y += a->ld) {
        __builtin_prefetch(a->y, 1);
        __builtin_prefetch((const char *)a->y + LINE_BYTES, 1);
    }
}

/* The groups that are whole, one by one. */
static void whole_groups(const struct q8_isa *isa, const struct k_linear *a, const float *y,
                         int64_t n, struct q8_call *q)
{
    void (*const group)(const struct q8_call *) = isa->group[a->w.type];
    const struct q8_step step = q8_step_of(a->w.type, a->m);
    struct asking asking = {.y = y, .ld = a->ld_y};
    for (int64_t g = 0; g < n; g++, q8_next_group(&step, q)) {
        ask(&asking, q->h, n);
        group(q);
    }
}

/* Rows [row, row + h) of a panel, counted from the weight's first. */
static void some_rows(const struct q8_isa *isa, const struct k_linear *a, int64_t panel,
                      int64_t row, int64_t h, float *total)
{
    const struct k_weight *w = &a->w;
    _Alignas(64) char room[Q8_CODES_MAX];
    const int64_t whole = linear_k_stored(w->type, w->k) / K_Q8_GROUP;
    float *y = a->y + row * a->ld_y + (panel - a->panel_lo) * K_NR;
    memset(total, 0, (size_t)(h * K_NR) * sizeof *total);
    for (int64_t g = 0; g < q8_groups(w->k); g = g < whole ? whole : g + 1) {
        struct q8_call q = call_at(a, panel, g, row, room);
        q.h = h;
        q.stride = a->m;
        q.total = total;
        if (g >= whole)
            isa->group[w->type](&q);
        else if (h <= isa->few_max && isa->few[w->type])
            isa->few[w->type](&q, a->m, whole);
        else
            whole_groups(isa, a, y, whole, &q);
    }
    int64_t first = panel * K_NR;
    struct tile_out out = {.y = y,
                           .ld_y = a->ld_y,
                           .cols = w->n - first,
                           .bias = a->bias ? a->bias + first : NULL,
                           .add = a->add};
    isa->out(&out, h, total);
}

void linear_q8_run(const struct q8_isa *isa, const struct k_linear *a, const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    struct rows_cut cut = rows_cut_of(a->m > 0 ? a->m : 1);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        struct rows_block last = rows_cut_at(&cut, p.block_hi - 1);
        int64_t row = rows_cut_at(&cut, p.block_lo).row, end = last.row + last.h;
        for (; row < end; row += Q8_ROWS)
            some_rows(isa, a, a->panel_lo + p.panel, row, linear_min(end - row, Q8_ROWS),
                      s->scratch);
    }
}
