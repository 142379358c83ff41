/* SPDX-License-Identifier: Apache-2.0
 *
 * See ct_weights.h. A row is read at a time, its codes by pieces that a stack holds.
 */
#include "engine/load/ct_weights.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "kernels/coded.h"
#include "kernels/float16.h"

enum { PIECE = 2048 }; /* inputs at a time: whole blocks, and whole words */

static const char PACKED[] = ".weight_packed";

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

bool ct_is_packed(const char *name)
{
    return ends_with(name, PACKED);
}

/* The name of the matrix whose codes have this one. */
static void matrix_name(const char *packed, char out[ST_MAX_NAME_BYTES])
{
    int n = (int)(strlen(packed) - strlen(PACKED));
    snprintf(out, ST_MAX_NAME_BYTES, "%.*s.weight", n, packed);
}

const struct st_tensor *ct_counted(const struct weights *w, const struct st_tensor *t)
{
    static const char *const beside[] = {".weight_scale", ".weight_shape", ".weight_zero_point"};
    char name[ST_MAX_NAME_BYTES];
    if (ct_is_packed(t->name)) {
        matrix_name(t->name, name);
        const struct weight *whole = weights_get(w, name);
        return whole ? whole->t : t;
    }
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (ends_with(t->name, beside[i]))
            return NULL;
    return t;
}

static int bad(const struct weight *w, struct err *e, const char *what)
{
    char text[160];
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s, found %s", weight_file_name(w), w->t->name,
                   what, st_tensor_text(w->t, text, sizeof text));
}

/* ---- what there is ------------------------------------------------------------------------- */

/* Another part of the matrix; NULL: it is not there. */
static const struct weight *part(const struct ct_weight *c, const struct weights *w,
                                 const char *what)
{
    char name[2 * ST_MAX_NAME_BYTES];
    snprintf(name, sizeof name, "%s_%s", c->name, what);
    return weights_get(w, name);
}

static bool is_shaped(const struct weight *w, int64_t rows, int64_t cols)
{
    return w->t->rank == 2 && w->t->dim[0] == rows && w->t->dim[1] == cols;
}

static int find_shape(struct ct_weight *c, const struct weights *w, struct err *e)
{
    const struct weight *shape = part(c, w, "shape");
    const struct st_tensor *t = c->packed->t;
    if (!shape || t->dtype != ST_I32 || t->rank != 2)
        return bad(c->packed, e, "expected I32 [n, words], with a weight_shape");
    if (shape->t->dtype != ST_I64 || shape->t->rank != 1 || shape->t->dim[0] != 2)
        return bad(shape, e, "expected I64 [2]");
    if (weight_read(shape, 0, 2, c->dim, e))
        return -1;
    c->n = c->dim[0], c->k = c->dim[1];
    if (c->n != t->dim[0] || c->n < 1 || c->k < 1 || c->k > (int64_t)1 << 31)
        return bad(c->packed, e, "expected the rows that weight_shape says");
    c->bits = c->k == t->dim[1] * 8 ? 4 : c->k == t->dim[1] * 4 ? 8 : 0;
    return c->bits ? 0 : bad(c->packed, e, "expected words of four or eight codes of 8 or 4 bits");
}

static int find_scale(struct ct_weight *c, const struct weights *w, struct err *e)
{
    enum k_type type;
    c->scale = part(c, w, "scale");
    if (!c->scale)
        return bad(c->packed, e, "expected a weight_scale beside it");
    const struct st_tensor *t = c->scale->t;
    if (!st_dtype_k_type(t->dtype, &type) || t->rank != 2 || t->dim[0] != c->n || t->dim[1] < 1 ||
        c->k % t->dim[1])
        return bad(c->scale, e, "expected a scale of F16, BF16 or F32 for each row and group");
    c->group = c->k / t->dim[1];
    c->zero = part(c, w, "zero_point");
    int64_t per_word = 32 / c->bits;
    if (c->zero && (c->zero->t->dtype != ST_I32 ||
                    !is_shaped(c->zero, (c->n + per_word - 1) / per_word, t->dim[1])))
        return bad(c->zero, e, "expected I32, a column for each group, packed by rows");
    if (part(c, w, "g_idx"))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s_g_idx: groups in the order of activations are not read",
                       weight_file_name(c->packed), c->name);
    return 0;
}

/* The format that holds codes, scales and zeros as they are. */
static enum k_type coded_of(const struct ct_weight *c)
{
    if (weight_k_type(c->scale) == K_F32)
        return K_F32;
    if (c->bits == 8)
        return c->zero || c->group % CODED_INPUTS ? K_F32 : K_INT8G;
    if (c->zero)
        return c->group % K_NESTED ? K_F32 : K_INT4K;
    return c->group % CODED_INPUTS ? K_F32 : K_INT4;
}

int ct_weight_init(struct ct_weight *c, const struct weights *w, const struct weight *packed,
                   struct err *e)
{
    *c = (struct ct_weight){.packed = packed};
    matrix_name(packed->t->name, c->name);
    if (find_shape(c, w, e) || find_scale(c, w, e))
        return -1;
    c->coded = coded_of(c);
    c->t = (struct st_tensor){.name = c->name, .dim = c->dim, .dtype = ST_F32, .rank = 2};
    c->t.end = (uint64_t)c->n * (uint64_t)c->k * sizeof(float);
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* A part of a row as the files have it. */
struct piece {
    const struct ct_weight *c;
    int64_t row, col, n;
    uint32_t word[PIECE / 4 + 2]; /* from the one that has the first code */
    uint8_t scale[PIECE * 4];     /* from that of its group */
    uint32_t zero[PIECE];
};

static int piece_read(struct piece *p, struct err *e)
{
    const struct ct_weight *c = p->c;
    int64_t per_word = 32 / c->bits, last = p->col + p->n - 1;
    int64_t word = p->col / per_word, group = p->col / c->group;
    int64_t groups = last / c->group - group + 1;
    if (weight_read_at(c->packed, p->row, word, last / per_word - word + 1, p->word, e) ||
        weight_read_at(c->scale, p->row, group, groups, p->scale, e))
        return -1;
    return c->zero ? weight_read_at(c->zero, p->row / per_word, group, groups, p->zero, e) : 0;
}

static int code_at(const struct piece *p, int64_t col)
{
    int64_t per_word = 32 / p->c->bits;
    uint32_t word = p->word[col / per_word - p->col / per_word];
    return (int)(word >> col % per_word * p->c->bits & ((1u << p->c->bits) - 1));
}

static int zero_at(const struct piece *p, int64_t col)
{
    int64_t per_word = 32 / p->c->bits;
    if (!p->c->zero)
        return 1 << (p->c->bits - 1);
    uint32_t word = p->zero[col / p->c->group - p->col / p->c->group];
    return (int)(word >> p->row % per_word * p->c->bits & ((1u << p->c->bits) - 1));
}

static int scale_at(const struct piece *p, int64_t col, float *out, struct err *e)
{
    const struct weight *w = p->c->scale;
    enum k_type type = weight_k_type(w);
    int64_t at = col / p->c->group - p->col / p->c->group;
    uint16_t half;
    memcpy(&half, p->scale + at * 2, sizeof half);
    if (type == K_F32)
        memcpy(out, p->scale + at * 4, sizeof *out);
    else
        *out = type == K_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
    if (*out - *out == 0)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the scale of row %lld, group %lld is not finite",
                   weight_file_name(w), w->t->name, (long long)p->row,
                   (long long)(col / p->c->group));
}

static int put_floats(const struct piece *p, char *dst, struct err *e)
{
    float scale = 0;
    for (int64_t i = p->col; i < p->col + p->n; i++, dst += sizeof(float)) {
        if ((i == p->col || i % p->c->group == 0) && scale_at(p, i, &scale, e))
            return -1;
        float x = scale * (float)(code_at(p, i) - zero_at(p, i));
        memcpy(dst, &x, sizeof x);
    }
    return 0;
}

/* The scale as f16 has it. */
static int half_scale(const struct piece *p, int64_t col, k_f16 *out, struct err *e)
{
    float scale;
    if (scale_at(p, col, &scale, e))
        return -1;
    *out = f16_from_f32(scale);
    if (f16_to_f32(*out) == scale)
        return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %.200s: the scale %g of row %lld is none of f16's: give --quantize bf16",
                   weight_file_name(p->c->scale), p->c->scale->t->name, (double)scale,
                   (long long)p->row);
}

static int put_bytes(const struct piece *p, int64_t col, uint8_t *to, struct err *e)
{
    for (int i = 0; i < CODED_INPUTS; i++) {
        int code = code_at(p, col + i) - zero_at(p, col);
        if (code == -128)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %.200s: row %lld has the code -128, which int8g does not keep: "
                           "give --quantize f32",
                           weight_file_name(p->c->packed), p->c->packed->t->name,
                           (long long)p->row);
        to[i] = (uint8_t)code;
    }
    return 0;
}

/* A run of inputs in the low nibbles, the next in the high ones. */
static void put_nibbles(const struct piece *p, int64_t col, int64_t n, int64_t run, uint8_t *to)
{
    for (int64_t i = 0; i < n / 2; i++) {
        int64_t at = col + i / run * 2 * run + i % run;
        to[i] = (uint8_t)(code_at(p, at) | code_at(p, at + run) << 4);
    }
}

static int put_blocks(const struct piece *p, char *dst, struct err *e)
{
    enum k_type type = p->c->coded;
    int64_t size = coded_inputs(type);
    for (int64_t i = p->col; i < p->col + p->n; i += size, dst += coded_bytes(type, size)) {
        uint8_t *to = (uint8_t *)dst;
        k_f16 scale;
        if (half_scale(p, i, &scale, e))
            return -1;
        memcpy(to, &scale, sizeof scale);
        if (type == K_INT8G && put_bytes(p, i, to + CODED_SCALE_BYTES, e))
            return -1;
        if (type == K_INT4)
            put_nibbles(p, i, size, CODED_INPUTS / 2, to + CODED_SCALE_BYTES);
        if (type == K_INT4K) { /* scale * 1 * code - scale * zero */
            memcpy(to + 2, &scale, sizeof scale);
            memset(to + 4, 1, 4);
            memset(to + 8, zero_at(p, i), 4);
            put_nibbles(p, i, size, 32, to + CODED_INT4K_HEAD);
        }
    }
    return 0;
}

/* n elements from p's place on. */
static int read_rows(const struct ct_weight *c, struct piece *p, int64_t n, char *dst, bool coded,
                     struct err *e)
{
    for (; n; n -= p->n) {
        int64_t left = c->k - p->col < n ? c->k - p->col : n;
        p->n = left < PIECE ? left : PIECE;
        if (piece_read(p, e) || (coded ? put_blocks : put_floats)(p, dst, e))
            return -1;
        dst += coded ? coded_bytes(c->coded, p->n) : p->n * (int64_t)sizeof(float);
        p->col += p->n;
        if (p->col == c->k)
            p->row++, p->col = 0;
    }
    return 0;
}

int ct_weight_read(const struct ct_weight *c, int64_t row, int64_t col, int64_t n, float *dst,
                   struct err *e)
{
    struct piece p = {.c = c, .row = row, .col = col};
    return read_rows(c, &p, n, (char *)dst, false, e);
}

int ct_weight_read_coded(const struct ct_weight *c, int64_t row, int64_t col, int64_t n, void *dst,
                         struct err *e)
{
    struct piece p = {.c = c, .row = row, .col = col};
    return read_rows(c, &p, n, dst, true, e);
}
