/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices of which a code is a byte (packed_weight.h): e4m3, or an integer. How many outputs and
 * inputs share a scale follows from how many there are, or where they are blocks from the config.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/load/packed_layout.h"

enum { TILE_ROWS = 64 };

static const char *const beside[] = {".weight_scale", ".weight_scale_inv", ".weight_zero_point",
                                     ".input_scale",  ".output_scale",     NULL};

static bool is_bytes(const struct st_tensor *t)
{
    return (t->dtype == ST_F8_E4M3 || t->dtype == ST_I8) && t->rank == 2;
}

/* ---- what there is ------------------------------------------------------------------------- */

/* Of `n` things, how many share one of `some` scales: `block` of them where that is told. */
static int64_t shared_by(int64_t n, int64_t some, int64_t block)
{
    if (some == 1)
        return n;
    if (block > 0 && some == (n + block - 1) / block)
        return block;
    return n % some == 0 && (block <= 0 || some == n) ? n / some : 0;
}

static int find_scale(struct packed_weight *p, const struct weights *w, const struct packing *how,
                      struct err *e)
{
    const struct weight *inverse = packed_part(p, w, ".weight_scale_inv");
    enum k_type type;
    p->scale = inverse ? inverse : packed_part(p, w, ".weight_scale");
    if (!p->scale)
        return packed_bad(p->codes, e, "expected a weight_scale or weight_scale_inv beside it");
    const struct st_tensor *t = p->scale->t;
    int64_t rows = t->rank > 0 ? t->dim[0] : 1, cols = t->rank > 1 ? t->dim[1] : 1;
    if (!st_dtype_k_type(t->dtype, &type) || t->rank > 2 || rows < 1 || cols < 1)
        return packed_bad(p->scale, e, "expected scales of F16, BF16 or F32");
    p->scale_rows = shared_by(p->n, rows, how->block[0]);
    p->group = shared_by(p->k, cols, how->block[1]);
    p->scale_cols = cols;
    return p->scale_rows && p->group
               ? 0
               : packed_bad(p->scale, e,
                            "expected one scale, one for each row, or for the blocks that "
                            "quantization_config says");
}

/* Those of compressed-tensors stand there where all are zero, too. */
static int want_no_zeros(const struct weight *zero, struct err *e)
{
    char some[1024];
    uint64_t size = weight_stored_bytes(zero);
    for (uint64_t at = 0; at < size; at += sizeof some) {
        size_t n = size - at < sizeof some ? (size_t)(size - at) : sizeof some;
        if (weight_read_stored(zero, at, some, n, e))
            return -1;
        for (size_t i = 0; i < n; i++)
            if (some[i])
                return err_set(e, ERR_UNSUPPORTED,
                               "%s: %.200s: zero points of bytes are not read, but zeros",
                               weight_file_name(zero), zero->t->name);
    }
    return 0;
}

static int find(struct packed_weight *p, const struct weights *w, const struct packing *how,
                struct err *e)
{
    const struct st_tensor *t = p->codes->t;
    p->n = t->dim[0], p->k = t->dim[1];
    if (p->n < 1 || p->k < 1 || p->k > PACKED_INPUTS_MAX)
        return packed_bad(p->codes, e, "expected some outputs and inputs");
    p->bits = 8;
    p->zero_same = 128; /* a signed byte, taken for an unsigned one */
    p->is_fp8 = t->dtype == ST_F8_E4M3;
    const struct weight *zero = packed_part(p, w, ".weight_zero_point");
    return find_scale(p, w, how, e) || (zero && want_no_zeros(zero, e)) ? -1 : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int check_finite(const struct packed_tile *t, const uint8_t *code, int64_t row,
                        struct err *e)
{
    for (int64_t i = 0; i < t->cols; i++)
        if ((code[i] & 0x7f) == 0x7f)
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: number %lld of row %lld is not finite",
                           weight_file_name(t->w->codes), t->w->codes->t->name,
                           (long long)(t->col + i), (long long)row);
    return 0;
}

static int read_row(struct packed_tile *t, int64_t r, struct err *e)
{
    const struct packed_weight *p = t->w;
    int64_t row = t->row + r;
    uint8_t *code = t->code + r * t->cols;
    if (weight_read_at(p->codes, row, t->col, t->cols, code, e))
        return -1;
    for (int64_t i = 0; i < t->cols && !p->is_fp8; i++)
        code[i] ^= 0x80;
    for (int64_t i = 0; i < t->n_run; i++)
        t->zero[r * t->n_run + i] = (int16_t)p->zero_same;
    if (p->is_fp8 && check_finite(t, code, row, e))
        return -1;
    return packed_scales(t, row / p->scale_rows * p->scale_cols + t->group[0], t->n_run, 1,
                         t->scale + r * t->n_run, e);
}

static int read_tile(struct packed_tile *t, struct err *e)
{
    for (int64_t r = 0; r < t->rows; r++)
        if (read_row(t, r, e))
            return -1;
    return 0;
}

const struct packed_layout packed_layout_bytes = {.codes = ".weight",
                                                  .is = is_bytes,
                                                  .beside = beside,
                                                  .tile_rows = TILE_ROWS,
                                                  .tile_cols = PACKED_COLS_MAX,
                                                  .find = find,
                                                  .read = read_tile};
