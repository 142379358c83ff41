/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_weights.h. Blocks are read in pieces that a stack holds.
 */
#include "engine/load/gguf_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/load/gguf_config.h"
#include "kernels/coded.h"
#include "kernels/float16.h"
#include "kernels/format.h"
#include "kernels/nested.h"

enum { PIECE_BYTES = 1 << 14 };

/* ---- reading ------------------------------------------------------------------------------- */

/* Where row `row` of ours, or column of GGUF_ORDER_V_COLS, stands in the file. */
static int64_t place_of(int64_t row, const struct gguf_heads *h)
{
    int64_t at = row - h->lo, in = at % h->head, k = at / h->head;
    switch (h->order) {
    case GGUF_ORDER_SAME:
        break;
    case GGUF_ORDER_TURNED: /* there a head's numbers alternate between the halves */
        return row - in + (in < h->head / 2 ? 2 * in : 2 * (in - h->head / 2) + 1);
    case GGUF_ORDER_B:
    case GGUF_ORDER_A:
        return (2 * (row / h->each) + (h->order == GGUF_ORDER_A)) * h->each + row % h->each;
    case GGUF_ORDER_V_ROWS:
    case GGUF_ORDER_QKV:
    case GGUF_ORDER_V_HEADS:
    case GGUF_ORDER_V_COLS:
        return at < 0 ? row : h->lo + (k % h->each * h->n_group + k / h->each) * h->head + in;
    }
    return row;
}

int64_t gguf_row_at(int64_t row, int32_t d)
{
    int64_t in = row % d;
    return row - in + in / 2 + (in % 2 ? d / 2 : 0);
}

static void put(void *dst, int64_t at, enum st_dtype dtype, float x)
{
    k_bf16 half;
    if (dtype == ST_F32) {
        memcpy((float *)dst + at, &x, sizeof x);
        return;
    }
    half = dtype == ST_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
    memcpy((uint16_t *)dst + at, &half, sizeof half);
}

/* One block that was read, of which its place is told in errors. */
static int unpack(const struct gguf_weight *w, uint64_t block, const uint8_t *bytes, float *x,
                  struct err *e)
{
    const struct ggml_type *type = w->from->type;
    type->unpack(bytes, x);
    for (int i = 0; i < type->block; i++)
        if (!(x[i] - x[i] == 0))
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: number %llu is not finite",
                           gguf_tensor_file(w->from), w->from->name,
                           (unsigned long long)block * type->block + (unsigned long long)i);
    return 0;
}

/* Elements [at, at + n) as the file has them: blocks by pieces, the first and last in part. */
static int read_run(const struct gguf_weight *w, uint64_t at, int64_t n, void *dst, struct err *e)
{
    const struct ggml_type *type = w->from->type;
    uint8_t bytes[PIECE_BYTES];
    float x[GGML_BLOCK_MAX];
    if (!type->unpack)
        return gguf_read(w->from, at * type->bytes, dst, (size_t)n * type->bytes, e);
    if (n == 0)
        return 0;
    uint64_t block = at / type->block, end = (at + (uint64_t)n - 1) / type->block + 1;
    int64_t to = -(int64_t)(at % type->block); /* where the block's first number would go */
    uint64_t most = sizeof bytes / type->bytes;
    for (uint64_t some; block < end; block += some) {
        some = end - block < most ? end - block : most;
        if (gguf_read(w->from, block * type->bytes, bytes, (size_t)some * type->bytes, e))
            return -1;
        for (uint64_t b = 0; b < some; b++, to += type->block) {
            if (unpack(w, block + b, bytes + b * type->bytes, x, e))
                return -1;
            for (int64_t i = to < 0 ? -to : 0; i < type->block && to + i < n; i++)
                put(dst, to + i, w->t.dtype, x[i]);
        }
    }
    return 0;
}

static bool is_finite(k_f16 scale)
{
    return (scale & 0x7c00) != 0x7c00;
}

/* What a block of codes may not hold; `at`: of the file's block. */
static int check_block(const struct gguf_weight *w, uint64_t at, const uint8_t *block,
                       struct err *e)
{
    const uint8_t *code = block + CODED_SCALE_BYTES;
    enum k_type coded = w->from->type->coded;
    bool has_dmin = format_is_nested(coded) && nested_has_mins(coded);
    if (!is_finite(coded_scale(block)) || (has_dmin && !is_finite(coded_scale(code))))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the scale of block %llu is not finite%s",
                       gguf_tensor_file(w->from), w->from->name, (unsigned long long)at,
                       w->from->type->dtype == ST_BF16
                           ? " in half of it, which mxfp4 keeps: give --quantize bf16"
                           : "");
    if (coded == K_INT8G && memchr(code, 0x80, CODED_INPUTS))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %.200s: block %llu has the code -128, which int8g does not keep: give "
                       "--quantize f32",
                       gguf_tensor_file(w->from), w->from->name, (unsigned long long)at);
    return 0;
}

/* n elements from `at` on, whole blocks of the format, which need be no whole ones of the file's.
 */
static int recode(const struct gguf_weight *w, uint64_t at, int64_t n, uint8_t *dst, struct err *e)
{
    const struct ggml_type *type = w->from->type;
    uint8_t bytes[PIECE_BYTES], all[2 * GGML_BLOCK_BYTES_MAX];
    int64_t size = coded_inputs(type->coded), one = coded_bytes(type->coded, size);
    uint64_t most = sizeof bytes / type->bytes, block = at / type->block;
    int64_t skip = (int64_t)(at % type->block) / size * one, left = n / size * one;
    ASSERT(coded_bytes(type->coded, type->block) <= (int64_t)sizeof all);
    while (left) {
        uint64_t some =
            ((uint64_t)(skip + left) / (uint64_t)one * (uint64_t)size + type->block - 1) /
            type->block;
        some = some < most ? some : most;
        if (gguf_read(w->from, block * type->bytes, bytes, (size_t)some * type->bytes, e))
            return -1;
        for (uint64_t b = 0; b < some; b++, skip = 0) {
            int64_t len = coded_bytes(type->coded, type->block) - skip;
            len = len < left ? len : left;
            type->recode(bytes + b * type->bytes, all);
            memcpy(dst, all + skip, (size_t)len);
            dst += len, left -= len;
        }
        block += some;
    }
    return 0;
}

/* Elements [at, at + n) as blocks of the format whose codes they are. */
static int read_blocks(const struct gguf_weight *w, uint64_t at, int64_t n, void *dst,
                       struct err *e)
{
    const struct ggml_type *type = w->from->type;
    const int64_t size = coded_inputs(type->coded), bytes = coded_bytes(type->coded, size);
    uint8_t *block = dst;
    ASSERT(at % (uint64_t)size == 0 && n % size == 0);
    if (type->recode ? recode(w, at, n, block, e)
                     : gguf_read(w->from, at / type->block * type->bytes, dst,
                                 (size_t)(n / type->block) * type->bytes, e))
        return -1;
    for (int64_t i = 0; i < n; i += size, block += bytes)
        if (check_block(w, (at + (uint64_t)i) / type->block, block, e))
            return -1;
    return 0;
}

/* How elements come: as numbers or as blocks, `some` of them in so many bytes. */
struct reading {
    int (*run)(const struct gguf_weight *w, uint64_t at, int64_t n, void *dst, struct err *e);
    int64_t some, bytes;
};

/* n elements of one row of the file from column col of ours on. */
static int read_cols(const struct gguf_weight *w, const struct reading *r, uint64_t row,
                     int64_t col, int64_t n, char *dst, struct err *e)
{
    const struct gguf_heads *h = &w->heads;
    if (h->order != GGUF_ORDER_V_COLS)
        return r->run(w, row + (uint64_t)col, n, dst, e);
    for (int64_t here; n; col += here, n -= here) {
        here = h->head - col % h->head < n ? h->head - col % h->head : n;
        if (r->run(w, row + (uint64_t)place_of(col, h), here, dst, e))
            return -1;
        dst += here / r->some * r->bytes;
    }
    return 0;
}

static int read_rows(const struct gguf_weight *w, const struct reading *r, int64_t row, int64_t col,
                     int64_t n, char *dst, struct err *e)
{
    const struct gguf_heads *h = &w->heads;
    int64_t rows = w->t.dim[0], len = st_tensor_count(&w->t) / rows;
    if (h->order == GGUF_ORDER_SAME)
        return r->run(w, w->first + (uint64_t)(row * len + col), n, dst, e);
    for (int64_t here; n; row++, col = 0, n -= here) {
        int64_t at = h->order == GGUF_ORDER_V_COLS ? row : place_of(row, h);
        here = len - col < n ? len - col : n;
        if (read_cols(w, r, (uint64_t)(at * len), col, here, dst, e))
            return -1;
        dst += here / r->some * r->bytes;
    }
    return 0;
}

/* Of vectors, which are F32. */
static int undo(const struct gguf_weight *w, int64_t n, char *dst, struct err *e)
{
    for (int64_t i = 0; i < n && w->change; i++, dst += sizeof(float)) {
        float x;
        memcpy(&x, dst, sizeof x);
        if (w->change == GGUF_CHANGE_LOG && !(x < 0))
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: expected numbers below 0, found %g",
                           gguf_tensor_file(w->from), w->from->name, (double)x);
        x = w->change == GGUF_CHANGE_LOG ? logf(-x) : x - 1;
        memcpy(dst, &x, sizeof x);
    }
    return 0;
}

int gguf_weight_read(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                     struct err *e)
{
    struct reading r = {read_run, 1, st_dtype_bits(w->t.dtype) / 8};
    return read_rows(w, &r, row, col, n, dst, e) || undo(w, n, dst, e) ? -1 : 0;
}

int gguf_weight_read_coded(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n,
                           void *dst, struct err *e)
{
    int64_t size = coded_inputs(w->coded);
    struct reading r = {read_blocks, size, coded_bytes(w->coded, size)};
    return read_rows(w, &r, row, col, n, dst, e);
}

/* ---- what they are read as ----------------------------------------------------------------- */

static bool is_half(float x, enum st_dtype dtype)
{
    return dtype == ST_BF16 ? bf16_to_f32(bf16_from_f32(x)) == x : f16_to_f32(f16_from_f32(x)) == x;
}

/* Of a kind whose numbers may need f32: whether they do. */
static int find_dtype(struct gguf_weight *w, struct err *e)
{
    const struct ggml_type *type = w->from->type;
    uint8_t bytes[GGML_BLOCK_BYTES_MAX];
    float x[GGML_BLOCK_MAX];
    uint64_t n_block = w->from->bytes / type->bytes;
    bool is_bf16 = true, is_f16 = true;
    w->t.dtype = type->dtype;
    if (!type->unpack || type->dtype != ST_F32)
        return 0;
    for (uint64_t b = 0; b < n_block && (is_bf16 || is_f16); b++) {
        if (gguf_read(w->from, b * type->bytes, bytes, type->bytes, e) || unpack(w, b, bytes, x, e))
            return -1;
        for (int i = 0; i < type->block; i++) {
            is_bf16 = is_bf16 && is_half(x[i], ST_BF16);
            is_f16 = is_f16 && is_half(x[i], ST_F16);
        }
    }
    w->t.dtype = is_bf16 ? ST_BF16 : is_f16 ? ST_F16 : ST_F32;
    return 0;
}

static int check_kind(const struct gguf_tensor *from, struct err *e)
{
    if (ggml_type_is_read(from->type))
        return 0;
    return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: numbers of kind %s are not read",
                   gguf_tensor_file(from), from->name, from->type->name);
}

static int err_shape(const struct gguf_tensor *from, const char *want, struct err *e)
{
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: expected %s", gguf_tensor_file(from), from->name,
                   want);
}

/* As our files have it. */
static int shape_as(struct gguf_weight *w, const struct gguf_name *name, struct err *e)
{
    const struct gguf_tensor *from = w->from;
    w->t.rank = from->rank;
    memcpy(w->dim, from->dim, (size_t)from->rank * sizeof *w->dim);
    if (name->form == GGUF_FORM_CONV) {
        if (from->rank != 2)
            return err_shape(from, "a matrix of taps", e);
        w->dim[2] = w->dim[1], w->dim[1] = 1, w->t.rank = 3;
    }
    if (name->form == GGUF_FORM_ROW && from->rank == 1)
        w->dim[1] = w->dim[0], w->dim[0] = 1, w->t.rank = 2;
    if (name->order == GGUF_ORDER_B || name->order == GGUF_ORDER_A)
        w->dim[0] /= 2;
    return 0;
}

static void finish(struct gguf_weight *w)
{
    w->t.name = w->name;
    w->t.dim = w->dim;
    w->t.end = (uint64_t)st_dtype_bits(w->t.dtype) / 8;
    for (int i = 0; i < w->t.rank; i++)
        w->t.end *= (uint64_t)w->dim[i];
}

/* The heads that the order speaks of, which the tensor must have. */
static int find_heads(struct gguf_weight *w, const struct gguf_shape *s, enum gguf_order order,
                      struct err *e)
{
    const struct gguf_tensor *from = w->from;
    int64_t n = w->dim[order == GGUF_ORDER_V_COLS && w->t.rank == 2];
    struct gguf_heads h = {.head = s->d_v, .n_group = s->n_k};
    if (order == GGUF_ORDER_SAME || (order == GGUF_ORDER_TURNED && s->style != GGUF_STYLE_LLAMA))
        return 0;
    if (order == GGUF_ORDER_TURNED) {
        w->heads = (struct gguf_heads){.order = order, .head = s->d_head};
        if (s->d_head % 2 || n % s->d_head)
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %lld rows are no heads of %d",
                           gguf_tensor_file(from), from->name, (long long)n, s->d_head);
        return 0;
    }
    if (order == GGUF_ORDER_QKV)
        h.lo = 2 * s->n_k * s->d_k;
    if (order == GGUF_ORDER_V_HEADS || order == GGUF_ORDER_B || order == GGUF_ORDER_A)
        h.head = 1;
    h.each = s->n_v / s->n_k;
    h.order =
        h.each == 1 && order != GGUF_ORDER_B && order != GGUF_ORDER_A ? GGUF_ORDER_SAME : order;
    if (n != h.lo + s->n_v * h.head || (order == GGUF_ORDER_V_COLS && w->t.rank != 2))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %lld are no %lld heads of values of %lld",
                       gguf_tensor_file(from), from->name, (long long)n, (long long)s->n_v,
                       (long long)h.head);
    w->heads = h;
    return 0;
}

/* What codes it can be read as: not where heads of columns cut them, nor where its rows are no
 * whole blocks of the format. */
static enum k_type coded_of(const struct gguf_weight *w)
{
    enum k_type coded = w->from->type->coded;
    bool is_cut = coded != K_F32 && w->heads.order == GGUF_ORDER_V_COLS &&
                  w->heads.head % coded_inputs(coded) != 0;
    bool is_whole = w->t.rank < 1 || w->dim[w->t.rank - 1] % format_stream(coded, 0).inputs == 0;
    return is_cut || !is_whole ? K_F32 : coded;
}

static int fill(struct gguf_weight *w, const struct gguf_tensor *from, const struct gguf_shape *s,
                const struct gguf_name *name, struct err *e)
{
    const char *rest;
    int layer = gguf_name_layer(from->name, &rest);
    *w = (struct gguf_weight){.from = from, .change = name->change};
    if (layer >= 0)
        snprintf(w->name, sizeof w->name, "model.layers.%d%s", layer, name->here);
    else
        snprintf(w->name, sizeof w->name, "%s", name->here);
    if (check_kind(from, e) || find_dtype(w, e) || shape_as(w, name, e) ||
        find_heads(w, s, name->order, e))
        return -1;
    if (w->change && (w->t.dtype != ST_F32 || from->type->unpack))
        return err_shape(from, "numbers of kind F32", e);
    w->coded = coded_of(w);
    finish(w);
    return 0;
}

/* ---- stacks of experts --------------------------------------------------------------------- */

/* The stack that a tensor is; NULL: it is none. */
static const struct gguf_stack *stack_of(const struct gguf_tensor *t)
{
    const char *rest;
    return gguf_name_layer(t->name, &rest) < 0 ? NULL : gguf_stack_find(rest);
}

/* Each expert's matrix or vector by its own name, w[0, *n). */
static int fill_stack(struct gguf_weight *w, const struct gguf_tensor *from,
                      const struct gguf_shape *s, const struct gguf_stack *stack, struct err *e)
{
    struct gguf_weight one = {.from = from};
    bool is_block = s->style == GGUF_STYLE_LLAMA;
    const char *rest;
    int layer = gguf_name_layer(from->name, &rest);
    if (check_kind(from, e) || find_dtype(&one, e))
        return -1;
    one.t.rank = from->rank - 1;
    memcpy(one.dim, from->dim + 1, (size_t)one.t.rank * sizeof *one.dim);
    one.coded = coded_of(&one);
    for (int64_t i = 0; i < from->dim[0]; i++) {
        w[i] = one;
        snprintf(w[i].name, sizeof w[i].name, "model.layers.%d.%s.experts.%lld.%s", layer,
                 is_block ? "block_sparse_moe" : "mlp", (long long)i,
                 is_block ? stack->block : stack->mlp);
        finish(&w[i]);
        w[i].first = (uint64_t)(i * st_tensor_count(&w[i].t));
    }
    return 0;
}

/* Layers behind the last guess tokens ahead: they are not read. */
static bool is_beyond(const struct gguf_tensor *t, const struct gguf_shape *s)
{
    const char *rest;
    return s->n_beyond > 0 && gguf_name_layer(t->name, &rest) >= s->n_layer;
}

/* A layer that the count of layers leaves out without saying that it guesses ahead. */
static int check_layer(const struct gguf_tensor *t, const struct gguf_shape *s, struct err *e)
{
    const char *rest;
    int64_t layer = gguf_name_layer(t->name, &rest);
    if (layer < s->n_layer)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: is of layer %lld, but %s.block_count is %lld",
                   gguf_tensor_file(t), t->name, (long long)layer, s->arch,
                   (long long)(s->n_layer + s->n_beyond));
}

/* How many weights a tensor is: one, none, two, or one for each expert. */
static int count_weights(const struct gguf_tensor *t, const struct gguf_shape *s, size_t *n,
                         struct err *e)
{
    const struct gguf_stack *stack = stack_of(t);
    const char *rest;
    int some;
    *n = 0;
    if (gguf_is_rope_factors(t) || is_beyond(t, s))
        return 0;
    if (check_layer(t, s, e))
        return -1;
    if (!stack) {
        gguf_name_layer(t->name, &rest);
        if (!gguf_name_find(s->style, rest, &some))
            return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: is no parameter of %s",
                           gguf_tensor_file(t), t->name, s->arch);
        *n = (size_t)some;
        return 0;
    }
    if (t->rank != (stack->is_vector ? 2 : 3) || t->dim[0] < 1 || t->dim[0] > CONFIG_EXPERT_MAX)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: is no stack of 1 to %d %s",
                       gguf_tensor_file(t), t->name, CONFIG_EXPERT_MAX,
                       stack->is_vector ? "vectors" : "matrices");
    *n = (size_t)t->dim[0];
    return 0;
}

static int fill_some(struct gguf_weight *w, const struct gguf_tensor *t, const struct gguf_shape *s,
                     size_t n, struct err *e)
{
    const struct gguf_stack *stack = stack_of(t);
    const char *rest;
    int some;
    if (stack)
        return fill_stack(w, t, s, stack, e);
    gguf_name_layer(t->name, &rest);
    const struct gguf_name *name = gguf_name_find(s->style, rest, &some);
    for (size_t i = 0; i < n; i++)
        if (fill(&w[i], t, s, &name[i], e))
            return -1;
    return 0;
}

struct gguf_weight *gguf_weights_new(struct gguf *g, size_t *n, struct err *e)
{
    struct gguf_shape s;
    size_t all = 0, some;
    *n = 0;
    if (gguf_shape_read(&s, g, e))
        return NULL;
    for (size_t i = 0; i < g->n_tensor; i++, all += some)
        if (count_weights(&g->tensor[i], &s, &some, e))
            return NULL;
    struct gguf_weight *w = arena_try(&g->arena, all + 1, sizeof *w, e);
    for (size_t i = 0; w && i < g->n_tensor; i++, *n += some)
        if (count_weights(&g->tensor[i], &s, &some, e) ||
            (some && fill_some(&w[*n], &g->tensor[i], &s, some, e)))
            return NULL;
    return w;
}
