/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_q8 and linear_q8: the rounding and the order of kernels/q8.h, number by number.
 */
#include <string.h>

#include "kernels/linear_grid.h"
#include "kernels/ref/act.h"
#include "kernels/variants.h"

void rows_q8_ref(const void *args, const struct k_slice *s)
{
    const struct k_rows_pack *a = args;
    struct q8_group *to = a->rows;
    for (int64_t block = s->lo; block < s->hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        for (int64_t r = b.row; r < b.row + b.h; r++)
            for (int64_t i = 0; i < a->k; i += K_Q8_GROUP)
                q8_round(a->x + r * a->ld_x + i, linear_min(a->k - i, K_Q8_GROUP),
                         &to[i / K_Q8_GROUP * a->m + r]);
    }
}

/* What a panel's outputs have over the inputs of a sum. */
struct span {
    int32_t code[K_Q8_GROUP][K_NR];
    float scale[K_NR], min[K_NR];
};

static void nested_span(const struct k_weight *w, int64_t panel, int64_t lo, struct span *s)
{
    const uint8_t *block = (const uint8_t *)w->data +
                           (size_t)panel * linear_panel_bytes(w->type, w->k) +
                           lo / K_NESTED * nested_bytes(w->type);
    int64_t at = lo % K_NESTED;
    for (int64_t o = 0; o < K_NR; o++) {
        s->scale[o] = f16_to_f32(nested_f16(block, nested_d_at(w->type, at), o)) *
                      (float)nested_scale(w->type, block, o, at);
        s->min[o] = f16_to_f32(nested_dmin(w->type, block, o, at)) *
                    (float)nested_min(w->type, block, o, at);
        for (int64_t i = 0; i < q8_span(w->type); i++)
            s->code[i][o] = nested_code(w->type, block, o, at + i);
    }
}

static void span_at(const struct k_weight *w, int64_t panel, int64_t lo, struct span *s)
{
    if (format_is_nested(w->type)) {
        nested_span(w, panel, lo, s);
        return;
    }
    for (int64_t o = 0; o < K_NR; o++) {
        s->scale[o] = linear_scale_at(w, panel * K_NR + o, lo);
        for (int64_t i = 0; i < K_Q8_GROUP; i++)
            s->code[i][o] =
                lo + i < w->k ? (int32_t)linear_stored_at(w, panel * K_NR + o, lo + i) : 0;
    }
}

/* The span's inputs begin at `first` of the row's group. */
static void add_span(enum k_type type, const struct span *s, const struct q8_group *x,
                     int64_t first, float *total)
{
    bool ends = first + q8_span(type) == K_Q8_GROUP;
    for (int64_t o = 0; o < K_NR; o++) {
        int32_t sum = 0;
        for (int64_t i = 0; i < q8_span(type); i++)
            sum += s->code[i][o] * x->code[first + i];
        total[o] = fmaf(s->scale[o], x->scale * (float)sum, total[o]);
        if (format_is_nested(type) && nested_has_mins(type) && ends)
            total[o] = fmaf(-s->min[o], x->weighed, total[o]);
    }
}

static void block_of_rows(const struct k_linear *a, const struct rows_block *b, int64_t panel,
                          float total[LINEAR_MR][K_NR])
{
    const struct q8_group *x = a->rows;
    struct span s;
    memset(total, 0, sizeof(float[LINEAR_MR][K_NR]));
    for (int64_t lo = 0; lo < a->w.k; lo += q8_span(a->w.type)) {
        span_at(&a->w, panel, lo, &s);
        for (int64_t r = 0; r < b->h; r++)
            add_span(a->w.type, &s, &x[lo / K_Q8_GROUP * a->m + b->row + r], lo % K_Q8_GROUP,
                     total[r]);
    }
}

/* A panel's outputs for a block of rows, with their bias. */
static void outputs(const struct k_linear *a, const struct rows_block *b, int64_t panel,
                    float v[LINEAR_MR][K_NR])
{
    int64_t o = panel * K_NR, n = linear_min(K_NR, a->w.n - o);
    block_of_rows(a, b, panel, v);
    for (int64_t i = 0; i < b->h * n && a->bias; i++)
        v[i / n][i % n] += a->bias[o + i % n];
}

/* n_panel: of gates; as many follow. A panel's outputs are a group of inputs of what comes next. */
static void gated_piece(const struct k_linear *a, const struct linear_piece *p, int64_t n_panel)
{
    _Static_assert(K_NR == K_Q8_GROUP, "a panel is a group");
    int64_t panel = a->panel_lo + p->panel;
    for (int64_t block = p->block_lo; block < p->block_hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        float gate[LINEAR_MR][K_NR], up[LINEAR_MR][K_NR];
        outputs(a, &b, panel, gate);
        outputs(a, &b, panel + n_panel, up);
        for (int64_t r = 0; r < b.h; r++) {
            for (int64_t j = 0; j < K_NR; j++)
                up[r][j] *= ref_silu(gate[r][j]);
            q8_round(up[r], K_NR, (struct q8_group *)a->gated + p->panel * a->m + b.row + r);
        }
    }
}

static void piece(const struct k_linear *a, const struct linear_piece *p)
{
    int64_t n = linear_min(K_NR, a->w.n - (a->panel_lo + p->panel) * K_NR);
    for (int64_t block = p->block_lo; block < p->block_hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        float v[LINEAR_MR][K_NR];
        outputs(a, &b, a->panel_lo + p->panel, v);
        for (int64_t i = 0; i < b.h * n; i++) {
            float *y = a->y + (b.row + i / n) * a->ld_y + p->panel * K_NR + i % n;
            *y = a->add ? *y + v[i / n][i % n] : v[i / n][i % n];
        }
    }
}

void linear_q8_ref(const void *args, const struct k_slice *s)
{
    const struct k_linear *a = args;
    struct linear_grid g = linear_grid(a);
    for (int64_t u = s->lo; u < s->hi;) {
        struct linear_piece p = linear_grid_next(&g, &u, s->hi);
        if (a->gated)
            gated_piece(a, &p, g.n_panel);
        else
            piece(a, &p);
    }
}
