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

/* Where rows leave what becomes of them, a line or two each, `ld` bytes apart. */
struct place {
    const char *at;
    int64_t ld;
};

/* Asks for those lines, some with each group: by then they are there. */
struct asking {
    struct place next;
    int64_t share;
};

static void ask(struct asking *a, int64_t h, int64_t groups)
{
    for (a->share += h; a->share >= groups; a->share -= groups, a->next.at += a->next.ld) {
        __builtin_prefetch(a->next.at, 1);
        __builtin_prefetch(a->next.at + LINE_BYTES, 1);
    }
}

/* The groups that are whole, one by one. */
static void whole_groups(const struct q8_isa *isa, const struct k_linear *a, struct place to,
                         int64_t n, struct q8_call *q)
{
    void (*const group)(const struct q8_call *) = isa->group[a->w.type];
    const struct q8_step step = q8_step_of(a->w.type, a->m);
    struct asking asking = {.next = to};
    for (int64_t g = 0; g < n; g++, q8_next_group(&step, q)) {
        ask(&asking, q->h, n);
        group(q);
    }
}

/* The totals of rows [row, row + h) of a panel, counted from the weight's first; to: where they
 * will go. */
static void totals(const struct q8_isa *isa, const struct k_linear *a, int64_t panel, int64_t row,
                   int64_t h, struct place to, float *total)
{
    const struct k_weight *w = &a->w;
    _Alignas(64) char room[Q8_CODES_MAX];
    const int64_t whole = linear_k_stored(w->type, w->k) / K_Q8_GROUP;
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
            whole_groups(isa, a, to, whole, &q);
    }
}

static void some_rows(const struct q8_isa *isa, const struct k_linear *a, int64_t panel,
                      int64_t row, int64_t h, float *total)
{
    int64_t first = panel * K_NR;
    float *y = a->y + row * a->ld_y + first - a->panel_lo * K_NR;
    struct place to = {(const char *)y, a->ld_y * (int64_t)sizeof *y};
    totals(isa, a, panel, row, h, to, total);
    struct tile_out out = {.y = y,
                           .ld_y = a->ld_y,
                           .cols = a->w.n - first,
                           .bias = a->bias ? a->bias + first : NULL,
                           .add = a->add};
    isa->out(&out, h, total);
}

/* Panel `panel` of n_panel gates, and what it gates, to a group of inputs of the next product. */
static void gated_rows(const struct q8_isa *isa, const struct k_linear *a, int64_t n_panel,
                       int64_t panel, int64_t row, int64_t h, float *scratch)
{
    float *half[] = {scratch, scratch + Q8_ROWS * K_NR};
    struct q8_group *to = (struct q8_group *)a->gated + panel * a->m + row;
    struct place rows = {(const char *)to, sizeof *to};
    for (int i = 0; i < 2; i++) {
        int64_t of = a->panel_lo + panel + i * n_panel;
        totals(isa, a, of, row, h, rows, half[i]);
        struct tile_out out = {.y = half[i], .ld_y = K_NR, .cols = K_NR};
        if (!a->bias)
            continue;
        out.bias = a->bias + of * K_NR;
        isa->out(&out, h, half[i]);
    }
    isa->gate(half[0], half[1], h, to);
}

void linear_q8_run(const struct q8_isa *isa, const struct k_linear *a, const struct k_slice *s)
{
    struct linear_grid g = linear_grid(a);
    struct rows_cut cut = rows_cut_of(a->m > 0 ? a->m : 1);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        struct rows_block last = rows_cut_at(&cut, p.block_hi - 1);
        int64_t row = rows_cut_at(&cut, p.block_lo).row, end = last.row + last.h;
        for (; row < end; row += Q8_ROWS) {
            int64_t h = linear_min(end - row, Q8_ROWS);
            if (a->gated)
                gated_rows(isa, a, g.n_panel, p.panel, row, h, s->scratch);
            else
                some_rows(isa, a, a->panel_lo + p.panel, row, h, s->scratch);
        }
    }
}
