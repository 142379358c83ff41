/* SPDX-License-Identifier: Apache-2.0
 *
 * What compressed-tensors packs (packed_weight.h): codes by rows, zero points down the outputs.
 */
#include "engine/base/err.h"
#include "engine/load/packed_layout.h"

static const char *const beside[] = {".weight_scale", ".weight_shape", ".weight_zero_point",
                                     ".weight_g_idx", NULL};

static int find_shape(struct packed_weight *p, const struct weights *w, struct err *e)
{
    const struct weight *shape = packed_part(p, w, ".weight_shape");
    const struct st_tensor *t = p->codes->t;
    int64_t dim[2];
    if (!shape || t->dtype != ST_I32 || t->rank != 2)
        return packed_bad(p->codes, e, "expected I32 [n, words], with a weight_shape");
    if (shape->t->dtype != ST_I64 || shape->t->rank != 1 || shape->t->dim[0] != 2)
        return packed_bad(shape, e, "expected I64 [2]");
    if (weight_read(shape, 0, 2, dim, e))
        return -1;
    p->n = dim[0], p->k = dim[1];
    if (p->n != t->dim[0] || p->n < 1 || p->k < 1 || p->k > PACKED_INPUTS_MAX)
        return packed_bad(p->codes, e, "expected the rows that weight_shape says");
    p->bits = p->k == t->dim[1] * 8 ? 4 : p->k == t->dim[1] * 4 ? 8 : 0;
    return p->bits
               ? 0
               : packed_bad(p->codes, e, "expected words of four or eight codes of 8 or 4 bits");
}

static int find(struct packed_weight *p, const struct weights *w, const struct packing *how,
                struct err *e)
{
    (void)how;
    if (find_shape(p, w, e))
        return -1;
    p->scale = packed_part(p, w, ".weight_scale");
    if (!p->scale)
        return packed_bad(p->codes, e, "expected a weight_scale beside it");
    const struct st_tensor *t = p->scale->t;
    if (!packed_is_scale(p->scale) || t->dim[0] != p->n || t->dim[1] < 1 || p->k % t->dim[1])
        return packed_bad(p->scale, e,
                          "expected a scale of F16, BF16 or F32 for each row and group");
    p->group = p->k / t->dim[1];
    p->zero = packed_part(p, w, ".weight_zero_point");
    p->zero_same = p->zero ? -1 : 1 << (p->bits - 1);
    int64_t per_word = 32 / p->bits;
    if (p->zero &&
        (p->zero->t->dtype != ST_I32 || p->zero->t->rank != 2 ||
         p->zero->t->dim[0] != (p->n + per_word - 1) / per_word || p->zero->t->dim[1] != t->dim[1]))
        return packed_bad(p->zero, e, "expected I32, a column for each group, packed by rows");
    const struct weight *order = packed_part(p, w, ".weight_g_idx");
    return order ? packed_order(p, order, e) : 0;
}

/* Of inputs in an order of their own all words of the row are read. */
static int read_codes(struct packed_tile *t, int64_t r, struct err *e)
{
    const struct packed_weight *p = t->w;
    int64_t per_word = 32 / p->bits, word = t->order ? 0 : t->col / per_word;
    int64_t end = t->order ? p->k : t->col + t->cols, n = (end - 1) / per_word - word + 1;
    uint8_t *code = t->code + r * t->cols;
    const uint32_t *raw = t->raw, mask = (1u << p->bits) - 1;
    if (weight_read_at(p->codes, t->row + r, word, n, t->raw, e))
        return -1;
    for (int64_t i = 0; i < t->cols; i++) {
        int64_t at = packed_input(t, i);
        *code++ = (uint8_t)(raw[at / per_word - word] >> at % per_word * p->bits & mask);
    }
    return 0;
}

/* The groups that are read of a row: those of the tile, or all. */
struct groups {
    int64_t first, n;
};

static struct groups groups_of(const struct packed_tile *t)
{
    if (packed_is_mixed(t))
        return (struct groups){0, t->w->k / t->w->group};
    return (struct groups){t->group[0], t->n_run};
}

static int read_zeros(struct packed_tile *t, int64_t r, struct err *e)
{
    const struct packed_weight *p = t->w;
    int64_t per_word = 32 / p->bits, o = t->row + r;
    int16_t *zero = t->zero + r * t->n_run;
    struct groups g = groups_of(t);
    const uint32_t *raw = t->raw, mask = (1u << p->bits) - 1;
    if (p->zero && weight_read_at(p->zero, o / per_word, g.first, g.n, t->raw, e))
        return -1;
    for (int64_t i = 0; i < t->n_run; i++)
        zero[i] = (int16_t)(p->zero ? raw[t->group[i] - g.first] >> o % per_word * p->bits & mask
                                    : (uint32_t)p->zero_same);
    return 0;
}

static int read_row_scales(struct packed_tile *t, int64_t r, struct err *e)
{
    int64_t groups = t->w->k / t->w->group, at = (t->row + r) * groups;
    float *scale = t->scale + r * t->n_run;
    return packed_is_mixed(t) ? packed_scales_mixed(t, at, groups, scale, e)
                              : packed_scales(t, at + t->group[0], t->n_run, 1, scale, e);
}

static int read_tile(struct packed_tile *t, struct err *e)
{
    for (int64_t r = 0; r < t->rows; r++)
        if (read_codes(t, r, e) || read_zeros(t, r, e) || read_row_scales(t, r, e))
            return -1;
    return 0;
}

const struct packed_layout packed_layout_ct = {.codes = ".weight_packed",
                                               .beside = beside,
                                               .tile_rows = 32,
                                               .tile_cols = PACKED_COLS_MAX,
                                               .find = find,
                                               .read = read_tile};
