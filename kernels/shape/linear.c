/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of packed linear algebra. Bytes count each number once: weights and scales as
 * stored, rows and results in their types.
 */
#include "kernels/linear_grid.h"
#include "kernels/variants.h"

static double weight_bytes(const struct k_weight *w, int64_t panels)
{
    return (double)k_weight_bytes(w->type, panels * K_NR, w->k);
}

struct k_shape weight_pack_shape(const void *args)
{
    const struct k_weight_pack *a = args;
    int64_t panels = linear_panels(a->n_src);
    double read = (double)a->n_src * (double)a->w.k * (double)k_type_bytes(a->src_type);
    return (struct k_shape){.n_unit = panels, .bytes = read + weight_bytes(&a->w, panels)};
}

struct k_shape weight_unpack_shape(const void *args)
{
    const struct k_weight_unpack *a = args;
    int64_t panels = linear_panels(a->w.n);
    double written = (double)a->w.n * (double)a->w.k * sizeof(float);
    return (struct k_shape){.n_unit = panels, .bytes = written + weight_bytes(&a->w, panels)};
}

struct k_shape rows_pack_shape(const void *args)
{
    const struct k_rows_pack *a = args;
    double read = (double)a->m * (double)a->k * sizeof(float);
    return (struct k_shape){.n_unit = rows_blocks(a->m),
                            .bytes = read + (double)k_rows_bytes(a->type, a->m, a->k)};
}

struct k_shape rows_q8_shape(const void *args)
{
    return rows_pack_shape(args);
}

struct k_shape cols_pack_shape(const void *args)
{
    const struct k_cols_pack *a = args;
    double read = (double)a->m * (double)a->n * sizeof(float);
    return (struct k_shape){.n_unit = a->n > 0 ? linear_ceil_div(a->m, COLS_UNIT_ROWS) : 0,
                            .bytes =
                                read + (double)k_cols_bytes(a->type, a->m, a->n, a->is_panels)};
}

/* Rows in, rows out, the panels between. */
static struct k_shape product(const struct linear_grid *g, const struct k_weight *w, int64_t m,
                              int64_t panels, double in, double out)
{
    int64_t outputs = linear_min(w->n, panels * K_NR);
    return (struct k_shape){.n_unit = linear_grid_units(g),
                            .bytes = weight_bytes(w, panels) + in + out,
                            .flops = 2.0 * (double)m * (double)outputs * (double)w->k};
}

static struct k_shape linear_shape(const struct k_linear *a, enum k_type rows)
{
    struct linear_grid g = linear_grid(a);
    double n = (double)linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    double out = (double)a->m * n * sizeof(float) * (a->add ? 2 : 1);
    if (a->gated)
        out = (double)k_rows_bytes(rows == K_Q8 ? K_Q8 : K_BF16, a->m, g.n_panel * K_NR);
    return product(&g, &a->w, a->m, a->panel_hi - a->panel_lo,
                   (double)k_rows_bytes(rows, a->m, a->w.k), out);
}

#define FORMAT(name, ID, ...)                                                                      \
    struct k_shape linear_##name##_shape(const void *args)                                         \
    {                                                                                              \
        return linear_shape(args, K_##ID);                                                         \
    }
#include "kernels/format.def"
#undef FORMAT

struct k_shape linear_q8_shape(const void *args)
{
    return linear_shape(args, K_Q8);
}

/* The chunks of a panel share its turning over. */
static struct k_shape dx_shape(const void *args)
{
    const struct k_linear_dx *a = args;
    struct linear_grid g = linear_dx_grid(a);
    int64_t n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    struct k_shape s = product(&g, &a->w, a->m, a->panel_hi - a->panel_lo,
                               (double)k_rows_bytes(a->w.type, a->m, n),
                               (double)a->m * (double)a->w.k * sizeof(float) * (a->add ? 2 : 1));
    s.n_together = g.n_chunk;
    return s;
}

#define FORMAT(name, ...)                                                                          \
    struct k_shape linear_dx_##name##_shape(const void *args)                                      \
    {                                                                                              \
        return dx_shape(args);                                                                     \
    }
#include "kernels/format.def"
#undef FORMAT

static struct k_shape dw_shape(enum k_type type, const struct k_linear_dw *a)
{
    struct linear_grid g = linear_dw_grid(a);
    double n = (double)a->n, k = (double)a->k;
    size_t read = k_cols_bytes(type, a->m, a->n, false) + k_cols_bytes(type, a->m, a->k, true);
    return (struct k_shape){.n_unit = a->m > 0 ? linear_grid_units(&g) : 0,
                            .bytes = (double)read + n * k * sizeof(float) * (a->fills ? 1 : 2),
                            .flops = 2 * (double)a->m * n * k};
}

struct k_shape linear_dw_f32_shape(const void *args)
{
    return dw_shape(K_F32, args);
}

struct k_shape linear_dw_bf16_shape(const void *args)
{
    return dw_shape(K_BF16, args);
}
