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

/* Rows [row, row + h) of a panel, counted from the weight's first. */
static void some_rows(const struct q8_isa *isa, const struct k_linear *a, int64_t panel,
                      int64_t row, int64_t h, float *total)
{
    const struct k_weight *w = &a->w;
    _Alignas(64) char room[Q8_CODES_MAX];
    const bool is_few = h <= isa->few_max && isa->few[w->type];
    int64_t g = 0, whole = is_few ? linear_k_stored(w->type, w->k) / K_Q8_GROUP : 0;
    memset(total, 0, (size_t)(h * K_NR) * sizeof *total);
    for (; g < q8_groups(w->k); g = g < whole ? whole : g + 1) {
        struct q8_call q = call_at(a, panel, g, row, room);
        q.h = h;
        q.total = total;
        if (g < whole)
            isa->few[w->type](&q, a->m, whole);
        else
            isa->group[w->type](&q);
    }
    int64_t first = panel * K_NR;
    float *y = a->y + row * a->ld_y + first - a->panel_lo * K_NR;
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
