/* SPDX-License-Identifier: Apache-2.0
 *
 * See stacked_weight.h. A stack by outputs is read as it lies. Of one by inputs a run of outputs is
 * read for each input, and put where its rows want it; of codes a row lies in one piece.
 */
#include "engine/load/stacked_weight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/coded.h"
#include "kernels/float16.h"

enum {
    EXPERTS_MAX = 1024,
    RUN_BYTES = 1 << 14, /* of the outputs of one input, or of a row's codes */
    GROUP = 32,          /* inputs that share a scale */
    GROUP_BYTES = GROUP / 2
};

/* ---- names --------------------------------------------------------------------------------- */

enum kind { KIND_NUMBERS, KIND_CODES, KIND_BIAS };

static const struct {
    const char *end;
    enum kind kind;
    int rank, step; /* step: matrices whose outputs come by turns */
    int kept;       /* letters of `end` that names of an expert's own begin with */
} row[] = {
    {".experts.gate_up_proj", KIND_NUMBERS, 3, 2, 0},
    {".experts.gate_up_proj_blocks", KIND_CODES, 4, 2, 0},
    {".experts.gate_up_proj_bias", KIND_BIAS, 2, 2, 0},
    {".experts.down_proj", KIND_NUMBERS, 3, 1, 0},
    {".experts.down_proj_blocks", KIND_CODES, 4, 1, 0},
    {".experts.down_proj_bias", KIND_BIAS, 2, 1, 0},
    {".block_sparse_moe.input_linear.weight", KIND_NUMBERS, 3, 2, sizeof ".block_sparse_moe" - 1},
    {".block_sparse_moe.output_linear.weight", KIND_NUMBERS, 3, 1, sizeof ".block_sparse_moe" - 1},
};

enum { N_ROW = sizeof row / sizeof *row };

static const char experts[] = ".experts";

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* `name` up to and with ".experts", and what follows in its place. */
static const struct weight *beside(const struct weights *w, const char *name, const char *end)
{
    char other[ST_MAX_NAME_BYTES];
    const char *at = strstr(name, experts);
    if (!at)
        return NULL;
    snprintf(other, sizeof other, "%.*s%s", (int)(at - name), name, end);
    return weights_get(w, other);
}

static bool is_by_turns(const struct weights *w, const struct st_tensor *t)
{
    return beside(w, t->name, ".experts.gate_up_proj_bias") != NULL;
}

/* The row of a stack; -1: it is none. Biases are stacked where outputs come by turns. */
static int row_of(const struct weights *w, const struct st_tensor *t)
{
    for (int i = 0; i < N_ROW; i++)
        if (ends_with(t->name, row[i].end))
            return t->rank == row[i].rank && t->dim[0] > 0 &&
                           (row[i].kind == KIND_NUMBERS || is_by_turns(w, t))
                       ? i
                       : -1;
    return -1;
}

size_t stacked_weight_count(const struct weights *w, const struct st_tensor *t)
{
    int i = row_of(w, t);
    return i < 0 || t->dim[0] > EXPERTS_MAX ? 0 : (size_t)(t->dim[0] * row[i].step);
}

uint64_t stacked_weight_numbers(const struct weights *w, const struct st_tensor *t)
{
    int i = row_of(w, t);
    uint64_t n = (uint64_t)st_tensor_count(t);
    if (i >= 0 && row[i].kind == KIND_CODES)
        return 2 * n;
    bool is_scale = ends_with(t->name, "_proj_scales") && strstr(t->name, experts) &&
                    beside(w, t->name, ".experts.gate_up_proj_blocks");
    return is_scale ? 0 : n;
}

/* ---- what there is ------------------------------------------------------------------------- */

static int bad(const struct weight *w, struct err *e, const char *what)
{
    char text[160];
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s, found %s", weight_file_name(w), w->t->name,
                   what, st_tensor_text(w->t, text, sizeof text));
}

static int find_scale(struct stacked_weight *s, const struct weights *w, struct err *e)
{
    const struct st_tensor *t = s->from->t;
    s->scale = beside(w, t->name,
                      s->step == 2 ? ".experts.gate_up_proj_scales" : ".experts.down_proj_scales");
    if (t->dtype != ST_U8 || t->dim[3] != GROUP_BYTES)
        return bad(s->from, e, "expected codes of type U8, 16 for a scale");
    if (!s->scale)
        return bad(s->from, e, "expected scales beside it");
    if (s->scale->t->dtype != ST_U8 || s->scale->t->rank != 3 ||
        memcmp(s->scale->t->dim, t->dim, 3 * sizeof *t->dim) != 0)
        return bad(s->scale, e, "expected a scale of type U8 for each 16 codes");
    return 0;
}

static int name_it(struct stacked_weight *s, int r, size_t i, struct err *e)
{
    const char *name = s->from->t->name;
    const char *part = s->step == 1 ? "down_proj" : i % 2 ? "up_proj" : "gate_proj";
    size_t n = strlen(name) - strlen(row[r].end) + (size_t)row[r].kept, room = n + 64;
    if (room > ST_MAX_NAME_BYTES)
        return bad(s->from, e, "expected a shorter name");
    s->name = xcalloc(room, 1);
    snprintf(s->name, room, "%.*s%s.%lld.%s.%s", (int)n, name, experts, (long long)s->expert, part,
             row[r].kind == KIND_BIAS ? "bias" : "weight");
    return 0;
}

int stacked_weight_init(struct stacked_weight *s, const struct weights *w,
                        const struct weight *from, size_t i, struct err *e)
{
    const struct st_tensor *t = from->t;
    int r = row_of(w, t), step = row[r].step;
    enum kind kind = row[r].kind;
    enum k_type type;
    *s = (struct stacked_weight){.from = from,
                                 .expert = (int64_t)i / step,
                                 .first = (int64_t)i % step,
                                 .step = step,
                                 .by_outputs = kind == KIND_NUMBERS && !is_by_turns(w, t),
                                 .n_all = t->dim[1]};
    if (kind == KIND_NUMBERS && !s->by_outputs)
        s->n_all = t->dim[2];
    if (s->n_all < step || s->n_all % step || st_tensor_count(t) == 0)
        return bad(from, e, "expected some outputs, of gate and up as many");
    if (kind == KIND_CODES ? find_scale(s, w, e) : !st_dtype_k_type(t->dtype, &type))
        return kind == KIND_CODES ? -1 : bad(from, e, "expected F32, F16 or BF16");
    if (name_it(s, r, i, e))
        return -1;
    s->dim[0] = s->n_all / step;
    s->dim[1] = s->by_outputs          ? t->dim[2]
                : kind == KIND_NUMBERS ? t->dim[1]
                : kind == KIND_CODES   ? t->dim[2] * GROUP
                                       : 1;
    s->t = (struct st_tensor){.name = s->name,
                              .dim = s->dim,
                              .dtype = kind == KIND_CODES ? ST_BF16 : t->dtype,
                              .rank = kind == KIND_BIAS ? 1 : 2};
    s->t.end = (uint64_t)(s->dim[0] * s->dim[1]) * (uint64_t)st_dtype_bits(s->t.dtype) / 8;
    return 0;
}

void stacked_weight_release(struct stacked_weight *s)
{
    free(s->name);
    s->name = NULL;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A rectangle of the matrix. */
struct area {
    int64_t row, rows, col, cols;
};

static int64_t size_of(const struct stacked_weight *s)
{
    return st_dtype_bits(s->t.dtype) / 8;
}

int64_t stacked_weight_rows_together(const struct stacked_weight *s)
{
    return s->scale || s->by_outputs ? 1 : RUN_BYTES / (size_of(s) * s->step);
}

/* Of one input the outputs of a's rows, each `ld` elements from the next at dst. */
static int read_input(const struct stacked_weight *s, const struct area *a, int64_t input,
                      char *dst, int64_t ld, struct err *e)
{
    char run[RUN_BYTES];
    int64_t size = size_of(s), n = (a->rows - 1) * s->step + 1;
    int64_t at = (s->expert * s->dim[1] + input) * s->n_all + s->first + a->row * s->step;
    ASSERT(n * size <= RUN_BYTES);
    if (weight_read_stored(s->from, (uint64_t)(at * size), run, (size_t)(n * size), e))
        return -1;
    for (int64_t r = 0; r < a->rows; r++)
        memcpy(dst + r * ld * size, run + r * s->step * size, (size_t)size);
    return 0;
}

static int read_numbers(const struct stacked_weight *s, const struct area *a, char *dst,
                        struct err *e)
{
    int64_t most = stacked_weight_rows_together(s), size = size_of(s);
    struct area some = *a;
    for (; some.row < a->row + a->rows; some.row += most, dst += most * a->cols * size) {
        int64_t left = a->row + a->rows - some.row;
        some.rows = left < most ? left : most;
        for (int64_t i = 0; i < a->cols; i++)
            if (read_input(s, &some, a->col + i, dst + i * size, a->cols, e))
                return -1;
    }
    return 0;
}

/* ---- codes --------------------------------------------------------------------------------- */

/* scale * code, exactly: scales are powers of two, and a code has one bit behind its first. */
static int put_group(const struct stacked_weight *s, int64_t output, const uint8_t *code,
                     uint8_t scale, k_bf16 *dst, struct err *e)
{
    static const float value[16] = {0,     .5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    float unit = f32_from_bits(scale ? (uint32_t)scale << 23 : UINT32_C(1) << 22);
    for (int i = 0; i < GROUP; i++) {
        float x = unit * value[code[i / 2] >> i % 2 * 4 & 15];
        if (!(x - x == 0))
            return err_set(e, ERR_BAD_INPUT,
                           "%s: %.200s: a number of output %lld of expert %lld is not finite",
                           weight_file_name(s->from), s->from->t->name, (long long)output,
                           (long long)s->expert);
        dst[i] = bf16_from_f32(x);
    }
    return 0;
}

/* Some groups of a row as they stand: codes, and then scales. */
struct groups {
    uint8_t code[RUN_BYTES], scale[RUN_BYTES / GROUP_BYTES];
};

static int read_groups(const struct stacked_weight *s, int64_t output, int64_t first, int64_t n,
                       struct groups *g, struct err *e)
{
    uint64_t at = (uint64_t)((s->expert * s->n_all + output) * (s->dim[1] / GROUP) + first);
    return weight_read_stored(s->from, at * GROUP_BYTES, g->code, (size_t)n * GROUP_BYTES, e) ||
                   weight_read_stored(s->scale, at, g->scale, (size_t)n, e)
               ? -1
               : 0;
}

enum { SOME = RUN_BYTES / GROUP_BYTES };

/* Columns [col, col + n) of a row, of which the first and the last group may be wanted in part. */
static int read_codes(const struct stacked_weight *s, int64_t r, int64_t col, int64_t n,
                      k_bf16 *dst, struct err *e)
{
    struct groups raw;
    k_bf16 group[GROUP];
    int64_t output = s->first + r * s->step;
    int64_t g = col / GROUP, end = (col + n - 1) / GROUP + 1, to = -(col % GROUP);
    for (int64_t some; g < end; g += some) {
        some = end - g < SOME ? end - g : SOME;
        if (read_groups(s, output, g, some, &raw, e))
            return -1;
        for (int64_t k = 0; k < some; k++, to += GROUP) {
            if (put_group(s, output, raw.code + k * GROUP_BYTES, raw.scale[k], group, e))
                return -1;
            for (int64_t i = to < 0 ? -to : 0; i < GROUP && to + i < n; i++)
                dst[to + i] = group[i];
        }
    }
    return 0;
}

/* ---- as codes of mxfp4 --------------------------------------------------------------------- */

_Static_assert((int)GROUP == (int)CODED_INPUTS, "a group is a block");

enum k_type stacked_weight_coded(const struct stacked_weight *s)
{
    return s->scale ? K_MXFP4 : K_F32;
}

/* Scales of f16 go from 2^-24 to 2^15. Of zeros any does. */
static int put_block(const struct stacked_weight *s, int64_t output, const uint8_t *code,
                     uint8_t scale, uint8_t *dst, struct err *e)
{
    int power = scale - 128;
    uint8_t *to = dst + CODED_SCALE_BYTES, any = 0;
    for (int i = 0; i < GROUP_BYTES; i++) {
        uint8_t low = code[i / 2] >> i % 2 * 4 & 15;
        uint8_t high = code[(i + GROUP_BYTES) / 2] >> i % 2 * 4 & 15;
        to[i] = (uint8_t)(low | high << 4);
        any |= to[i] & 0x77;
    }
    if (any && (power < -24 || power > 15))
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: %.200s: a scale of output %lld of expert %lld, 2^%d, is half of none of "
            "f16's: give --quantize bf16",
            weight_file_name(s->scale), s->scale->t->name, (long long)output, (long long)s->expert,
            power + 1);
    k_f16 half = any ? f16_from_f32(f32_from_bits((uint32_t)(power + 127) << 23)) : 0;
    memcpy(dst, &half, sizeof half);
    return 0;
}

int stacked_weight_read_coded(const struct stacked_weight *s, int64_t r, int64_t col, int64_t n,
                              void *dst, struct err *e)
{
    struct groups raw;
    int64_t groups = s->dim[1] / GROUP, g = col / GROUP;
    uint8_t *to = dst;
    for (int64_t left = n / GROUP, some; left; left -= some, g += some) {
        if (g == groups)
            g = 0, r++;
        some = groups - g < left ? groups - g : left;
        some = some < SOME ? some : SOME;
        int64_t output = s->first + r * s->step;
        if (read_groups(s, output, g, some, &raw, e))
            return -1;
        for (int64_t k = 0; k < some; k++, to += CODED_INT4_BYTES)
            if (put_block(s, output, raw.code + k * GROUP_BYTES, raw.scale[k], to, e))
                return -1;
    }
    return 0;
}

/* ---- either -------------------------------------------------------------------------------- */

static int read_area(const struct stacked_weight *s, const struct area *a, char *dst, struct err *e)
{
    if (!s->scale)
        return read_numbers(s, a, dst, e);
    for (int64_t r = 0; r < a->rows; r++, dst += a->cols * size_of(s))
        if (read_codes(s, a->row + r, a->col, a->cols, (k_bf16 *)(void *)dst, e))
            return -1;
    return 0;
}

int stacked_weight_read(const struct stacked_weight *s, int64_t r, int64_t col, int64_t n,
                        void *dst, struct err *e)
{
    int64_t k = s->dim[1];
    char *to = dst;
    if (s->by_outputs) {
        int64_t at = (s->expert * s->n_all + s->first * s->dim[0] + r) * k + col;
        return weight_read_stored(s->from, (uint64_t)(at * size_of(s)), dst,
                                  (size_t)(n * size_of(s)), e);
    }
    struct area a = {.row = r, .col = col};
    for (; n; n -= a.rows * a.cols, a.row += a.rows, a.col = 0) {
        bool is_whole = a.col == 0 && n >= k;
        a.rows = is_whole ? n / k : 1;
        a.cols = is_whole ? k : n < k - a.col ? n : k - a.col;
        if (read_area(s, &a, to, e))
            return -1;
        to += a.rows * a.cols * size_of(s);
    }
    return 0;
}
