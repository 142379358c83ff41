/* SPDX-License-Identifier: Apache-2.0
 *
 * See packed_weight.h. A matrix is read by tiles: the maker's layout makes codes, scales and zero
 * points of one, and here they become numbers or a format's blocks, row by row.
 */
#include "engine/load/packed_weight.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/load/packed_layout.h"
#include "kernels/coded.h"
#include "kernels/float16.h"
#include "kernels/linear.h"

static const struct packed_layout *const layouts[] = {&packed_layout_ct, &packed_layout_bytes,
                                                      &packed_layout_gptq, &packed_layout_awq,
                                                      &packed_layout_bnb};

enum { N_LAYOUT = sizeof layouts / sizeof *layouts };

/* ---- names --------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* One of the layouts whose codes are such a tensor. */
static const struct packed_layout *layout_of(const struct st_tensor *t)
{
    for (int i = 0; i < N_LAYOUT; i++)
        if (ends_with(t->name, layouts[i]->codes) && (!layouts[i]->is || layouts[i]->is(t)))
            return layouts[i];
    return NULL;
}

bool packed_weight_is(const struct st_tensor *t)
{
    return layout_of(t) != NULL;
}

/* `name` with another end. */
static void renamed(const char *name, size_t n_end, const char *end, char out[ST_MAX_NAME_BYTES])
{
    snprintf(out, ST_MAX_NAME_BYTES, "%.*s%s", (int)(strlen(name) - n_end), name, end);
}

const struct st_tensor *packed_weight_counted(const struct weights *w, const struct st_tensor *t)
{
    char name[ST_MAX_NAME_BYTES];
    const struct packed_layout *l = layout_of(t);
    if (l) {
        renamed(t->name, strlen(l->codes), ".weight", name);
        const struct weight *whole = weights_get(w, name);
        return whole ? whole->t : t;
    }
    for (int i = 0; i < N_LAYOUT; i++)
        for (const char *const *end = layouts[i]->beside; *end; end++)
            if (ends_with(t->name, *end))
                return NULL;
    return t;
}

const struct weight *packed_part(const struct packed_weight *p, const struct weights *w,
                                 const char *end)
{
    char name[ST_MAX_NAME_BYTES];
    renamed(p->name, strlen(".weight"), end, name);
    return weights_get(w, name);
}

int packed_bad(const struct weight *w, struct err *e, const char *what)
{
    char text[160];
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s, found %s", weight_file_name(w), w->t->name,
                   what, st_tensor_text(w->t, text, sizeof text));
}

bool packed_is_scale(const struct weight *w)
{
    enum k_type type;
    return st_dtype_k_type(w->t->dtype, &type) && w->t->rank == 2;
}

/* ---- what there is ------------------------------------------------------------------------- */

static const struct packed_layout *layout_said(const struct weight *codes,
                                               const struct packing *how, struct err *e)
{
    const struct packed_layout *l = layout_of(codes->t);
    if (l == &packed_layout_ct || l == &packed_layout_bytes || l == &packed_layout_bnb)
        return l;
    if (how->method == PACKING_GPTQ)
        return &packed_layout_gptq;
    if (how->method == PACKING_AWQ)
        return &packed_layout_awq;
    packed_bad(codes, e, "expected a quantization_config that says how it is packed");
    return NULL;
}

/* Whether a block of so many inputs is always of one group. */
static bool fits(const struct packed_weight *p, int64_t inputs)
{
    return p->k % inputs == 0 && p->group % inputs == 0;
}

/* The format that holds codes, scales and zeros as they are, in some order of inputs. */
static enum k_type coded_of(const struct packed_weight *p)
{
    if (p->is_nf4)
        return fits(p, K_NF4_GROUP) ? K_NF4 : K_F32;
    bool is_central = p->zero_same == 1 << (p->bits - 1);
    if ((p->group_of && !p->order) || !fits(p, CODED_INPUTS) ||
        (p->bits == 8 && !is_central && !p->is_fp8))
        return K_F32;
    if (p->is_fp8)
        return fits(p, K_NESTED) ? K_FP8 : K_F32;
    if (p->bits == 8 || weight_k_type(p->scale) == K_F32) /* any scale, any byte */
        return fits(p, K_NESTED) ? K_INT8C : weight_k_type(p->scale) == K_F32 ? K_F32 : K_INT8G;
    if (is_central)
        return K_INT4;
    return fits(p, K_NESTED) ? K_INT4K : K_INT8G;
}

int packed_weight_init(struct packed_weight *p, const struct weights *w, const struct weight *codes,
                       const struct packing *how, struct err *e)
{
    *p = (struct packed_weight){.codes = codes, .layout = layout_said(codes, how, e)};
    if (!p->layout)
        return -1;
    renamed(codes->t->name, strlen(p->layout->codes), ".weight", p->name);
    if (p->layout->find(p, w, how, e))
        return -1;
    p->coded = coded_of(p);
    p->dim[0] = p->n, p->dim[1] = p->k;
    p->t = (struct st_tensor){.name = p->name, .dim = p->dim, .dtype = ST_F32, .rank = 2};
    p->t.end = (uint64_t)p->n * (uint64_t)p->k * sizeof(float);
    return 0;
}

void packed_weight_release(struct packed_weight *p)
{
    mem_free(p->group_of);
    mem_free(p->order);
    mem_free(p->table);
    p->group_of = p->order = NULL;
    p->table = NULL;
}

int64_t packed_weight_rows_together(const struct packed_weight *p)
{
    return p->layout->tile_rows;
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* Runs that a tile of so many columns has at most. */
static int64_t runs_max(const struct packed_tile *t, int64_t cols)
{
    return packed_is_mixed(t) ? cols : linear_min(cols, (cols - 1) / t->w->group + 2);
}

static size_t raw_bytes(const struct packed_weight *p)
{
    size_t all = p->group_of ? (size_t)p->k * sizeof(uint32_t) : 0;
    return all > PACKED_RAW_BYTES ? all : PACKED_RAW_BYTES;
}

/* Room for tiles of so many rows and columns, in one piece. */
static char *tile_new(struct packed_tile *t, int64_t rows, int64_t cols, struct err *e)
{
    size_t area = (size_t)(rows * cols), runs = (size_t)runs_max(t, cols), raw = raw_bytes(t->w);
    size_t per_run = sizeof *t->scale + sizeof *t->zero, n_row = (size_t)rows;
    size_t bytes = raw + (size_t)cols * sizeof *t->run + runs * sizeof *t->group +
                   runs * n_row * per_run + area;
    char *at = try_alloc(1, bytes, "a tile of a packed matrix", e), *all = at;
    if (!at)
        return NULL;
    t->raw = at, at += raw;
    t->run = (int32_t *)(void *)at, at += (size_t)cols * sizeof *t->run;
    t->group = (int32_t *)(void *)at, at += runs * sizeof *t->group;
    t->scale = (float *)(void *)at, at += runs * n_row * sizeof *t->scale;
    t->zero = (int16_t *)(void *)at, at += runs * n_row * sizeof *t->zero;
    t->code = (uint8_t *)at;
    return all;
}

static void find_runs(struct packed_tile *t)
{
    const struct packed_weight *p = t->w;
    t->n_run = 0;
    for (int64_t i = 0; i < t->cols; i++) {
        int64_t at = t->col + i;
        int32_t group = packed_is_mixed(t) ? p->group_of[at] : (int32_t)(at / p->group);
        if (!t->n_run || t->group[t->n_run - 1] != group)
            t->group[t->n_run++] = group;
        t->run[i] = (int32_t)t->n_run - 1;
    }
}

/* n scales from number `at` on, as the file has them, to t->raw; and the i-th of those there. */
static int read_scales(struct packed_tile *t, int64_t at, int64_t n, struct err *e)
{
    size_t size = weight_k_type(t->w->scale) == K_F32 ? sizeof(float) : sizeof(uint16_t);
    return weight_read_stored(t->w->scale, (uint64_t)at * size, t->raw, (size_t)n * size, e);
}

static float scale_at(const struct packed_tile *t, enum k_type type, int64_t i)
{
    const uint16_t *half = t->raw;
    const float *whole = t->raw;
    return type == K_F32 ? whole[i] : type == K_BF16 ? bf16_to_f32(half[i]) : f16_to_f32(half[i]);
}

int packed_scales(struct packed_tile *t, int64_t at, int64_t n, int64_t step, float *dst,
                  struct err *e)
{
    enum k_type type = weight_k_type(t->w->scale);
    if (read_scales(t, at, n, e))
        return -1;
    for (int64_t i = 0; i < n; i++)
        dst[i * step] = scale_at(t, type, i);
    return 0;
}

int packed_scales_mixed(struct packed_tile *t, int64_t at, int64_t n, float *dst, struct err *e)
{
    enum k_type type = weight_k_type(t->w->scale);
    if (read_scales(t, at, n, e))
        return -1;
    for (int64_t i = 0; i < t->n_run; i++)
        dst[i] = scale_at(t, type, t->group[i]);
    return 0;
}

static int bad_scale(const struct packed_tile *t, enum err_code code, int64_t r, int64_t run,
                     const char *what, struct err *e)
{
    return err_set(e, code, "%s: %.200s: the scale of row %lld, group %d is %s",
                   weight_file_name(t->w->scale), t->w->scale->t->name, (long long)(t->row + r),
                   (int)t->group[run], what);
}

static int tile_read(struct packed_tile *t, struct err *e)
{
    find_runs(t);
    if (t->w->layout->read(t, e))
        return -1;
    for (int64_t i = 0; i < t->rows * t->n_run; i++)
        if (!(t->scale[i] - t->scale[i] == 0))
            return bad_scale(t, ERR_BAD_INPUT, i / t->n_run, i % t->n_run, "not finite", e);
    return 0;
}

/* ---- what becomes of a row ----------------------------------------------------------------- */

static int put_floats(const struct packed_tile *t, int64_t r, char *dst, struct err *e)
{
    const uint8_t *code = t->code + r * t->cols;
    const float *scale = t->scale + r * t->n_run;
    const int16_t *zero = t->zero + r * t->n_run;
    (void)e;
    for (int64_t i = 0; i < t->cols; i++, dst += sizeof(float)) {
        float v = t->w->is_fp8   ? coded_wide_value(K_FP8, code[i])
                  : t->w->is_nf4 ? coded_nf4_value(code[i])
                                 : (float)(code[i] - zero[t->run[i]]);
        float x = scale[t->run[i]] * v;
        memcpy(dst, &x, sizeof x);
    }
    return 0;
}

/* The scale of input i as f16 has it. */
static int half_scale(const struct packed_tile *t, int64_t r, int64_t i, k_f16 *out, struct err *e)
{
    float scale = t->scale[r * t->n_run + t->run[i]];
    char what[80];
    *out = f16_from_f32(scale);
    if (f16_to_f32(*out) == scale)
        return 0;
    snprintf(what, sizeof what, "%g, none of f16's: give --quantize bf16", (double)scale);
    return bad_scale(t, ERR_UNSUPPORTED, r, t->run[i], what, e);
}

static int put_bytes(const struct packed_tile *t, int64_t r, const uint8_t *code, int zero,
                     uint8_t *to, struct err *e)
{
    for (int i = 0; i < CODED_INPUTS; i++) {
        int v = code[i] - zero;
        if (v == -128)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %.200s: row %lld has the code -128, which int8g does not keep: "
                           "give --quantize f32",
                           weight_file_name(t->w->codes), t->w->codes->t->name,
                           (long long)(t->row + r));
        to[i] = (uint8_t)v;
    }
    return 0;
}

/* A run of inputs in the low nibbles, the next in the high ones. */
static void put_nibbles(const uint8_t *code, int64_t n, int64_t run, uint8_t *to)
{
    for (int64_t i = 0; i < n; i += 2 * run)
        for (int64_t j = 0; j < run; j++)
            *to++ = (uint8_t)(code[i + j] | code[i + run + j] << 4);
}

/* A scale of f32, and whatever a byte can be. */
static int put_wide(const struct packed_tile *t, int64_t r, char *dst, struct err *e)
{
    (void)e;
    for (int64_t i = 0; i < t->cols; i += K_NESTED, dst += CODED_WIDE_BYTES) {
        const uint8_t *code = t->code + r * t->cols + i;
        int64_t run = r * t->n_run + t->run[i];
        memcpy(dst, &t->scale[run], sizeof t->scale[run]);
        for (int j = 0; j < K_NESTED; j++)
            dst[CODED_WIDE_SCALE_BYTES + j] =
                (char)(t->w->is_fp8 ? code[j] : code[j] - t->zero[run]);
    }
    return 0;
}

static int put_nf4(const struct packed_tile *t, int64_t r, char *dst, struct err *e)
{
    (void)e;
    for (int64_t i = 0; i < t->cols; i += K_NF4_GROUP, dst += CODED_NF4_BYTES) {
        const float *scale = &t->scale[r * t->n_run + t->run[i]];
        memcpy(dst, scale, sizeof *scale);
        put_nibbles(t->code + r * t->cols + i, K_NF4_GROUP, K_NF4_GROUP / 2,
                    (uint8_t *)dst + CODED_WIDE_SCALE_BYTES);
    }
    return 0;
}

static int put_blocks(const struct packed_tile *t, int64_t r, char *dst, struct err *e)
{
    enum k_type type = t->w->coded;
    int64_t size = coded_inputs(type);
    for (int64_t i = 0; i < t->cols; i += size, dst += coded_bytes(type, size)) {
        const uint8_t *code = t->code + r * t->cols + i;
        int zero = t->zero[r * t->n_run + t->run[i]];
        uint8_t *to = (uint8_t *)dst;
        k_f16 scale;
        if (half_scale(t, r, i, &scale, e))
            return -1;
        memcpy(to, &scale, sizeof scale);
        if (type == K_INT8G && put_bytes(t, r, code, zero, to + CODED_SCALE_BYTES, e))
            return -1;
        if (type == K_INT4)
            put_nibbles(code, size, CODED_INPUTS / 2, to + CODED_SCALE_BYTES);
        if (type == K_INT4K) { /* scale * 1 * code - scale * zero */
            memcpy(to + 2, &scale, sizeof scale);
            memset(to + 4, 1, 4);
            memset(to + 8, zero, 4);
            put_nibbles(code, size, 32, to + CODED_INT4K_HEAD);
        }
    }
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* A rectangle of the matrix, and how its rows come: n inputs in so many bytes. */
struct wanted {
    int64_t row, rows, col, cols;
    int (*put)(const struct packed_tile *t, int64_t r, char *dst, struct err *e);
    int64_t some, bytes;
    const int32_t *order; /* of the columns; NULL: the file's */
};

static int tile_put(struct packed_tile *t, const struct wanted *q, char *dst, struct err *e)
{
    int64_t row_bytes = q->cols / q->some * q->bytes;
    if (tile_read(t, e))
        return -1;
    dst += (t->row - q->row) * row_bytes + (t->col - q->col) / q->some * q->bytes;
    for (int64_t r = 0; r < t->rows; r++, dst += row_bytes)
        if (q->put(t, r, dst, e))
            return -1;
    return 0;
}

static int read_rectangle(const struct packed_weight *p, const struct wanted *q, char *dst,
                          struct err *e)
{
    int64_t rows = linear_min(q->rows, p->layout->tile_rows);
    int64_t cols = linear_min(q->cols, p->layout->tile_cols);
    struct packed_tile t = {.w = p, .order = q->order};
    char *room = tile_new(&t, rows, cols, e);
    int rc = room ? 0 : -1;
    for (t.row = q->row; rc == 0 && t.row < q->row + q->rows; t.row += rows)
        for (t.col = q->col; rc == 0 && t.col < q->col + q->cols; t.col += cols) {
            t.rows = linear_min(rows, q->row + q->rows - t.row);
            t.cols = linear_min(cols, q->col + q->cols - t.col);
            rc = tile_put(&t, q, dst, e);
        }
    mem_free(room);
    return rc;
}

/* n elements from q's place on: what is left of a row, whole rows, the beginning of one. */
static int read_run(const struct packed_weight *p, struct wanted *q, int64_t n, char *dst,
                    struct err *e)
{
    for (; n; n -= q->rows * q->cols) {
        bool is_whole = q->col == 0 && n >= p->k;
        q->rows = is_whole ? n / p->k : 1;
        q->cols = is_whole ? p->k : linear_min(p->k - q->col, n);
        if (read_rectangle(p, q, dst, e))
            return -1;
        dst += q->rows * q->cols / q->some * q->bytes;
        q->row += q->rows;
        q->col = 0;
    }
    return 0;
}

int packed_weight_read(const struct packed_weight *p, int64_t row, int64_t col, int64_t n,
                       float *dst, struct err *e)
{
    struct wanted q = {.row = row, .col = col, .put = put_floats, .some = 1, .bytes = sizeof *dst};
    return read_run(p, &q, n, (char *)dst, e);
}

int packed_weight_read_coded(const struct packed_weight *p, int64_t row, int64_t col, int64_t n,
                             void *dst, struct err *e)
{
    int64_t size = coded_inputs(p->coded);
    struct wanted q = {.row = row,
                       .col = col,
                       .put = coded_is_wide(p->coded) ? put_wide
                              : p->is_nf4             ? put_nf4
                                                      : put_blocks,
                       .some = size,
                       .bytes = coded_bytes(p->coded, size),
                       .order = p->order};
    return read_run(p, &q, n, dst, e);
}
