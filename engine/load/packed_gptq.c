/* SPDX-License-Identifier: Apache-2.0
 *
 * What GPTQ's and AWQ's tools pack (packed_weight.h): a row of the tensors is an input, or a word
 * of them, and holds all outputs. A tile is therefore tall, so that what is read at once is long.
 *
 * A stored zero point of GPTQ's first kind is one less than what is meant. Where all its bits are
 * set, some readers take 16 (of 8 bits 256), others 0: it is refused.
 */
#include "engine/base/err.h"
#include "engine/load/packed_layout.h"

static const char *const beside_gptq[] = {".qzeros", ".scales", ".g_idx", NULL};
static const char *const beside_awq[] = {".qzeros", ".scales", NULL};

/* Where AWQ has output o of each eight in a word. */
static const uint8_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* By what word o's code is shifted, of a word packed along the outputs. */
static int shift_of(const struct packed_weight *p, int64_t o)
{
    int64_t per_word = 32 / p->bits;
    if (p->layout == &packed_layout_awq)
        return awq_place[o % 8] * 4;
    return (int)(o % per_word) * p->bits;
}

/* ---- what there is ------------------------------------------------------------------------- */

static bool is_words(const struct weight *w, int64_t rows, int64_t cols)
{
    return w->t->dtype == ST_I32 && w->t->rank == 2 && w->t->dim[0] == rows && w->t->dim[1] == cols;
}

/* Outputs are told by the scales, and bits by how many of them a word of zero points has. */
static int find_parts(struct packed_weight *p, const struct weights *w, struct err *e)
{
    p->scale = packed_part(p, w, ".scales");
    p->zero = packed_part(p, w, ".qzeros");
    if (!p->scale || !p->zero)
        return packed_bad(p->codes, e, "expected scales and qzeros beside it");
    if (!packed_is_scale(p->scale) || p->scale->t->dim[0] < 1 || p->scale->t->dim[1] < 1)
        return packed_bad(p->scale, e,
                          "expected a scale of F16, BF16 or F32 for each group and output");
    p->n = p->scale->t->dim[1];
    int64_t groups = p->scale->t->dim[0];
    p->bits = is_words(p->zero, groups, p->n / 8) && p->n % 8 == 0   ? 4
              : is_words(p->zero, groups, p->n / 4) && p->n % 4 == 0 ? 8
                                                                     : 0;
    return p->bits ? 0
                   : packed_bad(p->zero, e,
                                "expected I32, for each group of the scales its outputs' words of "
                                "four or eight zero points of 8 or 4 bits");
}

static int find_group(struct packed_weight *p, const struct packing *how, struct err *e)
{
    int64_t groups = p->scale->t->dim[0];
    if (p->k < 1 || p->k > PACKED_INPUTS_MAX)
        return packed_bad(p->codes, e, "expected some inputs");
    p->group = how->group > 0 && how->group < p->k ? how->group : p->k;
    if (groups == (p->k + p->group - 1) / p->group)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "%s: %.200s: %lld inputs in groups of %lld, as quantization_config says, have "
                   "no %lld scales",
                   weight_file_name(p->scale), p->scale->t->name, (long long)p->k,
                   (long long)p->group, (long long)groups);
}

/* Whether all zero points are one, and none is out of range. */
static int look_at_zeros(struct packed_weight *p, struct err *e)
{
    int64_t n_word = p->zero->t->dim[1], per_word = 32 / p->bits;
    uint32_t mask = (1u << p->bits) - 1, word[1024];
    int64_t most = sizeof word / sizeof *word;
    p->zero_same = -2; /* none seen */
    for (int64_t g = 0; g < p->zero->t->dim[0]; g++) {
        for (int64_t at = 0, some; at < n_word; at += some) {
            some = n_word - at < most ? n_word - at : most;
            if (weight_read_at(p->zero, g, at, some, word, e))
                return -1;
            for (int64_t i = 0; i < some * per_word; i++) {
                uint32_t v = word[i / per_word] >> i % per_word * p->bits & mask;
                int zero = (int)v + p->zero_more;
                if (zero > (int)mask)
                    return err_set(e, ERR_BAD_INPUT,
                                   "%s: %.200s: a zero point of group %lld is %d, which %d bits "
                                   "do not have",
                                   weight_file_name(p->zero), p->zero->t->name, (long long)g, zero,
                                   p->bits);
                p->zero_same = p->zero_same == -2 || p->zero_same == zero ? zero : -1;
            }
        }
    }
    return 0;
}

static int find_gptq(struct packed_weight *p, const struct weights *w, const struct packing *how,
                     struct err *e)
{
    if (find_parts(p, w, e))
        return -1;
    int64_t words = p->codes->t->rank == 2 ? p->codes->t->dim[0] : 0;
    p->k = words * (32 / p->bits);
    p->zero_more = how->is_zero_less;
    if (!is_words(p->codes, words, p->n))
        return packed_bad(p->codes, e, "expected I32, a column for each output of the scales");
    if (find_group(p, how, e) || look_at_zeros(p, e))
        return -1;
    const struct weight *order = packed_part(p, w, ".g_idx");
    if (order)
        return packed_order(p, order, e);
    return how->is_ordered ? packed_bad(p->codes, e, "expected a g_idx beside it: desc_act is true")
                           : 0;
}

static int find_awq(struct packed_weight *p, const struct weights *w, const struct packing *how,
                    struct err *e)
{
    if (find_parts(p, w, e))
        return -1;
    p->k = p->codes->t->rank == 2 ? p->codes->t->dim[0] : 0;
    if (p->bits != 4 || !is_words(p->codes, p->k, p->n / 8))
        return packed_bad(p->codes, e, "expected I32, eight outputs of the scales to a word");
    return find_group(p, how, e) || look_at_zeros(p, e) ? -1 : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Words of eight (of 8 bits four) outputs that have the tile's, of a row of codes or zeros. */
static int read_words(struct packed_tile *t, const struct weight *w, int64_t row, struct err *e)
{
    int64_t per_word = 32 / t->w->bits, word = t->row / per_word;
    int64_t n = (t->row + t->rows - 1) / per_word - word + 1;
    return weight_read_at(w, row, word, n, t->raw, e);
}

static uint32_t value_in(const struct packed_tile *t, int64_t r)
{
    int64_t per_word = 32 / t->w->bits, o = t->row + r;
    uint32_t word = ((const uint32_t *)t->raw)[o / per_word - t->row / per_word];
    return word >> shift_of(t->w, o) & ((1u << t->w->bits) - 1);
}

static int read_groups(struct packed_tile *t, struct err *e)
{
    const struct packed_weight *p = t->w;
    for (int64_t i = 0; i < t->n_run; i++) {
        if (packed_scales(t, t->group[i] * p->n + t->row, t->rows, t->n_run, t->scale + i, e) ||
            read_words(t, p->zero, t->group[i], e))
            return -1;
        for (int64_t r = 0; r < t->rows; r++)
            t->zero[r * t->n_run + i] = (int16_t)(value_in(t, r) + (uint32_t)p->zero_more);
    }
    return 0;
}

/* A word has inputs side by side, of which an order of their own takes few at a time. */
static int read_gptq(struct packed_tile *t, struct err *e)
{
    const struct packed_weight *p = t->w;
    const int64_t per_word = 32 / p->bits;
    const uint32_t *raw = t->raw, mask = (1u << p->bits) - 1;
    for (int64_t lo = 0, hi; lo < t->cols; lo = hi) {
        int64_t word = packed_input(t, lo) / per_word;
        for (hi = lo + 1; hi < t->cols && packed_input(t, hi) / per_word == word;)
            hi++;
        if (weight_read_at(p->codes, word, t->row, t->rows, t->raw, e))
            return -1;
        for (int64_t r = 0; r < t->rows; r++) {
            uint8_t *code = t->code + r * t->cols;
            for (int64_t i = lo; i < hi; i++)
                code[i] = (uint8_t)(raw[r] >> packed_input(t, i) % per_word * p->bits & mask);
        }
    }
    return read_groups(t, e);
}

static int read_awq(struct packed_tile *t, struct err *e)
{
    for (int64_t i = 0; i < t->cols; i++) {
        if (read_words(t, t->w->codes, t->col + i, e))
            return -1;
        for (int64_t r = 0; r < t->rows; r++)
            t->code[r * t->cols + i] = (uint8_t)value_in(t, r);
    }
    return read_groups(t, e);
}

const struct packed_layout packed_layout_gptq = {.codes = ".qweight",
                                                 .beside = beside_gptq,
                                                 .tile_rows = PACKED_ROWS_MAX,
                                                 .tile_cols = 128,
                                                 .find = find_gptq,
                                                 .read = read_gptq};
const struct packed_layout packed_layout_awq = {.codes = ".qweight",
                                                .beside = beside_awq,
                                                .tile_rows = PACKED_ROWS_MAX,
                                                .tile_cols = 128,
                                                .find = find_awq,
                                                .read = read_awq};
