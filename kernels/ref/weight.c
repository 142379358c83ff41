/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack, weight_unpack, rows_pack, cols_pack: one number at a time, by the rules of
 * kernels/linear.h.
 *
 * int8: per output and group, scale = max |w| / 127 and code = round(w / scale) to nearest even. A
 * group that holds a number which is not finite gets a NaN for a scale: the damage shows. int8g
 * the same, of smaller groups, with the scale rounded to f16 first. int4: kernels/int4.h.
 */
#include <math.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/cols_run.h"
#include "kernels/int4.h"
#include "kernels/linear_grid.h"
#include "kernels/variants.h"

static float load(const void *src, enum k_type type, int64_t at)
{
    if (type == K_F32)
        return ((const float *)src)[at];
    uint16_t bits = ((const uint16_t *)src)[at];
    return type == K_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/* w[o, i] of the source; zero outside. */
static float source_at(const struct k_weight_pack *a, int64_t o, int64_t i)
{
    if (o >= a->n_src || i >= a->w.k)
        return 0;
    return load(a->src, a->src_type, a->transposed ? i * a->ld_src + o : o * a->ld_src + i);
}

static float group_scale(const struct k_weight_pack *a, int64_t o, int64_t lo, int64_t hi)
{
    float most = 0;
    for (int64_t i = lo; i < hi; i++) {
        float v = fabsf(source_at(a, o, i));
        if (!isfinite(v))
            return NAN;
        most = v > most ? v : most;
    }
    return most / 127;
}

static int quantise(float v, float scale)
{
    float q = scale > 0 ? rintf(v / scale) : 0;
    return (int)(q > 127 ? 127 : q < -127 ? -127 : q);
}

static void pack_int8_some(const struct k_weight_pack *a, int64_t panel, enum k_type type)
{
    int64_t groups = linear_groups(type, a->w.k), stored = linear_k_stored(type, a->w.k);
    int64_t at = a->panel_lo + panel, size = format_group(type);
    uint8_t *code = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(type, a->w.k);
    for (int64_t o = 0; o < K_NR; o++) {
        for (int64_t g = 0; g < groups; g++) {
            int64_t lo = g * size, hi = linear_min(stored, lo + size);
            int64_t to = (at * groups + g) * K_NR + o;
            float s = group_scale(a, panel * K_NR + o, lo, hi);
            if (type == K_INT8) {
                ((float *)a->w.scale)[to] = s;
            } else {
                ((k_f16 *)a->w.scale)[to] = f16_from_f32(s);
                s = f16_to_f32(f16_from_f32(s));
            }
            for (int64_t i = lo; i < hi; i++)
                code[linear_int8_at(o, i)] =
                    linear_int8_pack(quantise(source_at(a, panel * K_NR + o, i), s));
        }
    }
}

static void pack_int8(const struct k_weight_pack *a, int64_t panel)
{
    pack_int8_some(a, panel, K_INT8);
}

static void pack_int8g(const struct k_weight_pack *a, int64_t panel)
{
    pack_int8_some(a, panel, K_INT8G);
}

/* ---- int4 --------------------------------------------------------------------------------- */

struct int4_group {
    float v[K_INT4_GROUP];
    int n;
};

static int int4_code(float v, float scale)
{
    if (!(fabsf(scale) > 0))
        return 0;
    float q = v * (1 / scale);
    return (int)rintf(q > 7 ? 7 : q > -8 ? q : -8);
}

static float int4_error(const struct int4_group *g, float scale)
{
    float sum = 0;
    for (int i = 0; i < g->n; i++) {
        float d = fmaf(-scale, (float)int4_code(g->v[i], scale), g->v[i]);
        sum = fmaf(d, d, sum);
    }
    return sum;
}

/* The scale of a group, in bits (kernels/int4.h). */
static k_f16 int4_scale(const struct int4_group *g)
{
    static const float reach[INT4_REACHES] = INT4_REACH;
    float most = 0, least_error = 0;
    k_f16 best = 0;
    for (int i = 0; i < g->n; i++) {
        if (!isfinite(g->v[i]))
            return f16_from_f32(NAN);
        most = fabsf(g->v[i]) > fabsf(most) ? g->v[i] : most;
    }
    for (int r = 0; r < INT4_REACHES; r++) {
        k_f16 scale = f16_from_f32(most / reach[r]);
        float error = int4_error(g, f16_to_f32(scale));
        if (r == 0 || error < least_error) {
            best = scale;
            least_error = error;
        }
    }
    return best;
}

/* The lower nibble of a byte comes first. */
static void put_nibble(uint8_t *code, int64_t at, int q)
{
    code[at / 2] = (uint8_t)(at % 2 ? code[at / 2] | q << 4 : q);
}

static void pack_int4_group(const struct k_weight_pack *a, int64_t panel, int64_t lo, uint8_t *code,
                            k_f16 *scale)
{
    int64_t hi = linear_min(linear_k_stored(K_INT4, a->w.k), lo + K_INT4_GROUP);
    for (int64_t o = 0; o < K_NR; o++) {
        struct int4_group g = {.n = (int)(hi - lo)};
        for (int64_t i = lo; i < hi; i++)
            g.v[i - lo] = source_at(a, panel * K_NR + o, i);
        scale[o] = int4_scale(&g);
        for (int64_t i = lo; i < hi; i++)
            put_nibble(code, linear_int4_at(o, i),
                       INT4_ZERO + int4_code(g.v[i - lo], f16_to_f32(scale[o])));
    }
}

static void pack_int4(const struct k_weight_pack *a, int64_t panel)
{
    int64_t groups = linear_groups(K_INT4, a->w.k), at = a->panel_lo + panel;
    uint8_t *code = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(K_INT4, a->w.k);
    k_f16 *scale = (k_f16 *)a->w.scale + at * groups * K_NR;
    for (int64_t g = 0; g < groups; g++)
        pack_int4_group(a, panel, g * K_INT4_GROUP, code, scale + g * K_NR);
}

_Static_assert((int)CODED_INPUTS == (int)K_INT8G_GROUP, "a block is a group of either");

/* ---- codes -------------------------------------------------------------------------------- */

/* One group of an output whose source is coded as the weight is (kernels/coded.h). */
static void pack_coded_group(const struct k_weight_pack *a, int64_t panel, int64_t o, int64_t lo)
{
    bool is_here = panel * K_NR + o < a->n_src;
    const uint8_t *block = is_here ? coded_block(a, panel * K_NR + o, lo) : NULL;
    int64_t at = a->panel_lo + panel, size = coded_inputs(a->w.type),
            group = at * linear_groups(a->w.type, a->w.k) + lo / size;
    uint8_t *code = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(a->w.type, a->w.k);
    if (coded_is_wide(a->w.type)) {
        ((float *)a->w.scale)[group * K_NR + o] = is_here ? coded_wide_scale(block) : 0;
        for (int64_t i = 0; i < size; i++)
            code[linear_int8_at(o, lo + i)] = is_here ? coded_wide_stored(a->w.type, block, i) : 0;
        return;
    }
    if (a->w.type == K_NF4) {
        ((float *)a->w.scale)[group * K_NR + o] = is_here ? coded_wide_scale(block) : 0;
        for (int64_t i = 0; i < size; i++)
            put_nibble(code, linear_nf4_at(o, lo + i),
                       is_here ? coded_nf4_nibble(block, i) : CODED_NF4_ZERO);
        return;
    }
    ((k_f16 *)a->w.scale)[group * K_NR + o] = is_here ? coded_scale(block) : 0;
    for (int64_t i = 0; i < size; i++) {
        if (coded_is_four(a->w.type))
            put_nibble(code, linear_int4_at(o, lo + i),
                       is_here               ? coded_nibble(block, i)
                       : a->w.type == K_INT4 ? INT4_ZERO
                                             : 0);
        else
            code[linear_int8g_at(o, lo + i)] =
                linear_int8_pack(is_here ? coded_code(a->src_type, block, i) : 0);
    }
}

static void pack_groups(const struct k_weight_pack *a, int64_t panel)
{
    for (int64_t o = 0; o < K_NR; o++)
        for (int64_t lo = 0; lo < a->w.k; lo += coded_inputs(a->w.type))
            pack_coded_group(a, panel, o, lo);
}

static void pack_nested(const struct k_weight_pack *a, int64_t panel)
{
    for (int64_t b = 0; b < a->w.k / K_NESTED; b++)
        for (int64_t lane = 0; lane < NESTED_LANES; lane++)
            nested_pack(a, panel, b, lane);
}

/* These are made of codes alone. */
static void pack_int4k(const struct k_weight_pack *a, int64_t panel)
{
    pack_nested(a, panel);
}

static void pack_int5k(const struct k_weight_pack *a, int64_t panel)
{
    pack_nested(a, panel);
}

static void pack_int6k(const struct k_weight_pack *a, int64_t panel)
{
    pack_nested(a, panel);
}

static void pack_int8k(const struct k_weight_pack *a, int64_t panel)
{
    pack_nested(a, panel);
}

static void pack_int8c(const struct k_weight_pack *a, int64_t panel)
{
    pack_groups(a, panel);
}

static void pack_mxfp4(const struct k_weight_pack *a, int64_t panel)
{
    pack_groups(a, panel);
}

static void pack_nf4(const struct k_weight_pack *a, int64_t panel)
{
    pack_groups(a, panel);
}

static void pack_fp8(const struct k_weight_pack *a, int64_t panel)
{
    pack_groups(a, panel);
}

/* A panel, number by number. */
static void pack_plain(const struct k_weight_pack *a, int64_t panel,
                       void (*put)(void *panel, int64_t o, int64_t i, float v))
{
    enum k_type type = a->w.type;
    char *data =
        (char *)a->w.data + (size_t)(a->panel_lo + panel) * linear_panel_bytes(type, a->w.k);
    for (int64_t i = 0; i < linear_k_stored(type, a->w.k); i++)
        for (int64_t o = 0; o < K_NR; o++)
            put(data, o, i, source_at(a, panel * K_NR + o, i));
}

static void put_f32(void *panel, int64_t o, int64_t i, float v)
{
    ((float *)panel)[linear_f32_at(o, i)] = v;
}

static void put_bf16(void *panel, int64_t o, int64_t i, float v)
{
    ((k_bf16 *)panel)[linear_bf16_at(o, i)] = bf16_from_f32(v);
}

static void put_f16(void *panel, int64_t o, int64_t i, float v)
{
    ((k_f16 *)panel)[linear_f16_at(o, i)] = f16_from_f32(v);
}

static void pack_f32(const struct k_weight_pack *a, int64_t panel)
{
    pack_plain(a, panel, put_f32);
}

static void pack_bf16(const struct k_weight_pack *a, int64_t panel)
{
    pack_plain(a, panel, put_bf16);
}

static void pack_f16(const struct k_weight_pack *a, int64_t panel)
{
    pack_plain(a, panel, put_f16);
}

void weight_pack_ref(const void *args, const struct k_slice *s)
{
    static void (*const pack[K_TYPE_COUNT])(const struct k_weight_pack *, int64_t) = {
#define FORMAT(name, ID, ...) [K_##ID] = pack_##name,
#include "kernels/format.def"
#undef FORMAT
    };
    const struct k_weight_pack *a = args;
    const bool is_coded = coded_has(a->src_type) && !format_is_nested(a->w.type);
    for (int64_t panel = s->lo; panel < s->hi; panel++)
        (is_coded ? pack_groups : pack[a->w.type])(a, panel);
}

void weight_unpack_ref(const void *args, const struct k_slice *s)
{
    const struct k_weight_unpack *a = args;
    for (int64_t o = s->lo * K_NR; o < linear_min(s->hi * K_NR, a->w.n); o++) {
        for (int64_t i = 0; i < a->w.k; i++)
            a->dst[o * a->ld_dst + i] = linear_weight_at(&a->w, o, i);
    }
}

static float row_number(const struct k_rows_pack *a, int64_t row, int64_t i)
{
    return i < a->k ? a->x[row * a->ld_x + i] : 0;
}

void rows_pack_ref(const void *args, const struct k_slice *s)
{
    const struct k_rows_pack *a = args;
    enum k_type type = format_rows(a->type);
    int64_t stored = linear_row_stored(type, a->k);
    for (int64_t block = s->lo; block < s->hi; block++) {
        struct rows_block b = rows_block_at(a->m, block);
        int64_t at = b.row * stored;
        int64_t step = type == K_F32 ? 1 : LINEAR_STEP;
        for (int64_t i = 0; i < stored; i += step) {
            for (int64_t r = 0; r < b.h; r++) {
                for (int64_t j = 0; j < step; j++, at++) {
                    float v = row_number(a, b.row + r, i + j);
                    if (type == K_F32)
                        ((float *)a->rows)[at] = v;
                    else
                        ((k_bf16 *)a->rows)[at] = bf16_from_f32(v);
                }
            }
        }
    }
}

/* ---- columns ------------------------------------------------------------------------------ */

/* Number `row` of column c in a run of `rows` rows: an index of elements. */
static int64_t column_at(const struct k_cols_pack *a, int64_t rows, int64_t row, int64_t c)
{
    int64_t stored = linear_k_stored(a->type, rows), step = a->type == K_F32 ? 1 : LINEAR_STEP;
    if (a->is_panels)
        return c / K_NR * K_NR * stored +
               (a->type == K_F32 ? linear_f32_at(c % K_NR, row) : linear_bf16_at(c % K_NR, row));
    struct rows_block b = rows_block_of(a->n, c);
    return b.row * stored + (row / step * b.h + c - b.row) * step + row % step;
}

void cols_pack_ref(const void *args, const struct k_slice *s)
{
    const struct k_cols_pack *a = args;
    int64_t wide = a->is_panels ? linear_panels(a->n) * K_NR : a->n;
    int64_t end = linear_min(linear_k_stored(a->type, a->m), s->hi * COLS_UNIT_ROWS);
    for (int64_t row = s->lo * COLS_UNIT_ROWS; row < end; row++) {
        int64_t lo = row / LINEAR_DW_ROWS * LINEAR_DW_ROWS, rows = cols_run_rows(a->m, lo);
        char *run = (char *)a->cols + cols_run_at(a->type, a->n, a->is_panels, lo);
        for (int64_t c = 0; c < wide; c++) {
            int64_t at = column_at(a, rows, row - lo, c);
            float v = row < a->m && c < a->n ? a->x[row * a->ld_x + c] : 0;
            if (a->type == K_F32)
                ((float *)(void *)run)[at] = v;
            else
                ((k_bf16 *)(void *)run)[at] = bf16_from_f32(v);
        }
    }
}
