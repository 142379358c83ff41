/* SPDX-License-Identifier: Apache-2.0
 *
 * What bitsandbytes packs as nf4 (packed_weight.h): codes one behind the other over all rows, two
 * in a byte, the first in the high half, and of each so many of them the largest size. Those may be
 * codes too, places in a table of their own, with largest sizes of their own and what is added to
 * all. How many share one is said by a text of JSON in a tensor. The weight is
 * absmax * quant_map[code], of
 *
 *   NAME.weight            U8 [n * k / 2, 1]
 *   NAME.weight.absmax     F32, one for each `blocksize` numbers in their order; or U8, and then
 *   NAME.weight.nested_quant_map, NAME.weight.nested_absmax  F32: nested_offset +
 *                          nested_absmax * nested_quant_map[absmax]
 *   NAME.weight.quant_map  F32 [16], the table of nf4
 *   NAME.weight.quant_state.bitsandbytes__nf4  U8, JSON: shape, sizes of blocks, nested_offset
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/load/json.h"
#include "engine/load/packed_layout.h"
#include "kernels/coded.h"

enum { BLOCK_MIN = 32, BLOCK_MAX = 1 << 16, STATE_MAX = 4096, TILE_ROWS = 32, TABLE = 256 };

static const char state_end[] = ".weight.quant_state.bitsandbytes__nf4";
static const char *const beside[] = {
    ".weight.absmax",           ".weight.quant_map", ".weight.nested_absmax",
    ".weight.nested_quant_map", state_end,           NULL};

static bool is_bnb(const struct st_tensor *t)
{
    return t->dtype == ST_U8 && t->rank == 2 && t->dim[1] == 1;
}

/* ---- what there is ------------------------------------------------------------------------- */

static int want_word(const struct json *v, const char *key, const char *word, struct err *e)
{
    const char *said = word;
    struct json m = json_member(v, key);
    if (json_opt_str(v, key, &said, e))
        return -1;
    return strcmp(said, word) == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; %s is", said, word);
}

static int parse_shape(struct packed_weight *p, const struct json *root, struct err *e)
{
    struct json shape, c;
    int64_t *const to[2] = {&p->n, &p->k};
    int n = 0;
    if (json_get(root, "shape", JSON_ARRAY, &shape, e))
        return -1;
    if (json_count(&shape) != 2)
        return json_err(&shape, e, ERR_BAD_INPUT, "expected outputs and inputs");
    json_each(c, shape)
    {
        if (json_as_int(&c, 1, PACKED_INPUTS_MAX, to[n++], e))
            return -1;
    }
    return 0;
}

static int parse_state(struct packed_weight *p, const struct json *root, bool is_nested,
                       struct err *e)
{
    double more = 0;
    if (json_want(root, JSON_OBJECT, e) || want_word(root, "quant_type", "nf4", e) ||
        parse_shape(p, root, e) ||
        json_get_int(root, "blocksize", BLOCK_MIN, BLOCK_MAX, &p->block, e))
        return -1;
    if (is_nested &&
        (want_word(root, "nested_dtype", "float32", e) ||
         json_get_int(root, "nested_blocksize", BLOCK_MIN, BLOCK_MAX, &p->nested_block, e) ||
         json_get_num(root, "nested_offset", &more, e)))
        return -1;
    p->nested_more = (float)more;
    return 0;
}

static int read_state(struct packed_weight *p, const struct weights *w, bool is_nested,
                      struct err *e)
{
    const struct weight *state = packed_part(p, w, state_end);
    char text[STATE_MAX];
    if (!state)
        return packed_bad(p->codes, e, "expected a quant_state.bitsandbytes__nf4 beside it");
    uint64_t n = weight_stored_bytes(state);
    if (state->t->dtype != ST_U8 || n > sizeof text)
        return packed_bad(state, e, "expected a short text as U8");
    if (weight_read_stored(state, 0, text, (size_t)n, e))
        return -1;
    struct json_doc *doc = json_parse(text, (size_t)n, state->t->name, &json_rules_config, e);
    if (!doc) {
        err_wrap(e, "%s", weight_file_name(state));
        return -1;
    }
    struct json root = json_root(doc);
    int rc = parse_state(p, &root, is_nested, e);
    if (rc)
        err_wrap(e, "%s", weight_file_name(state));
    json_free(doc);
    return rc;
}

/* A part of so many numbers in a row. */
static const struct weight *vector(const struct packed_weight *p, const struct weights *w,
                                   const char *end, enum st_dtype dtype, int64_t n, struct err *e)
{
    const struct weight *v = packed_part(p, w, end);
    char what[80];
    if (!v) {
        err_set(e, ERR_BAD_INPUT, "%s: %.200s: expected a %s beside it", weight_file_name(p->codes),
                p->codes->t->name, end + 1);
        return NULL;
    }
    snprintf(what, sizeof what, "expected %s [%lld]", st_dtype_name(dtype), (long long)n);
    if (v->t->dtype == dtype && v->t->rank == 1 && v->t->dim[0] == n)
        return v;
    packed_bad(v, e, what);
    return NULL;
}

/* The one table that the format nf4 has. */
static int check_table(const struct packed_weight *p, const struct weights *w, struct err *e)
{
    float got[16];
    const struct weight *map = vector(p, w, ".weight.quant_map", ST_F32, 16, e);
    if (!map || weight_read(map, 0, 16, got, e))
        return -1;
    for (int i = 0; i < 16; i++)
        if (!(got[i] == coded_nf4_value(i)))
            return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: number %d is %g; of nf4 it is %g",
                           weight_file_name(map), map->t->name, i, (double)got[i],
                           (double)coded_nf4_value(i));
    return 0;
}

static int find_nested(struct packed_weight *p, const struct weights *w, int64_t blocks,
                       struct err *e)
{
    int64_t n = (blocks + p->nested_block - 1) / p->nested_block;
    const struct weight *map = vector(p, w, ".weight.nested_quant_map", ST_F32, TABLE, e);
    p->nested = map ? vector(p, w, ".weight.nested_absmax", ST_F32, n, e) : NULL;
    if (!p->nested)
        return -1;
    p->table = try_alloc(TABLE, sizeof *p->table, "a table of scales", e);
    return p->table ? weight_read(map, 0, TABLE, p->table, e) : -1;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int find(struct packed_weight *p, const struct weights *w, const struct packing *how,
                struct err *e)
{
    (void)how;
    const struct weight *most = packed_part(p, w, ".weight.absmax");
    if (!most)
        return packed_bad(p->codes, e, "expected a weight.absmax beside it");
    const bool is_nested = most->t->dtype == ST_U8;
    if (read_state(p, w, is_nested, e) || check_table(p, w, e))
        return -1;
    if (p->n > INT64_MAX / p->k || p->n * p->k % 2 || p->codes->t->dim[0] != p->n * p->k / 2)
        return packed_bad(p->codes, e, "expected a byte for two numbers of quant_state's shape");
    int64_t blocks = (p->n * p->k - 1) / p->block + 1;
    p->scale = vector(p, w, ".weight.absmax", is_nested ? ST_U8 : ST_F32, blocks, e);
    if (!p->scale)
        return -1;
    p->bits = 4;
    p->is_nf4 = true;
    p->group = common_divisor(p->k, p->block);
    return is_nested ? find_nested(p, w, blocks, e) : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_codes(struct packed_tile *t, int64_t at, uint8_t *code, struct err *e)
{
    int64_t first = at / 2, n = (at + t->cols - 1) / 2 - first + 1;
    const uint8_t *raw = t->raw;
    if (weight_read_stored(t->w->codes, (uint64_t)first, t->raw, (size_t)n, e))
        return -1;
    for (int64_t i = at; i < at + t->cols; i++)
        *code++ = i % 2 ? raw[i / 2 - first] & 15 : raw[i / 2 - first] >> 4;
    return 0;
}

/* Largest sizes [first, first + n) to t->raw. */
static int read_sizes(struct packed_tile *t, int64_t first, int64_t n, struct err *e)
{
    const struct packed_weight *p = t->w;
    float *to = t->raw, unit = 0;
    uint8_t code[PACKED_COLS_MAX / BLOCK_MIN + 2];
    if (!p->nested)
        return weight_read_stored(p->scale, (uint64_t)first * sizeof *to, to,
                                  (size_t)n * sizeof *to, e);
    if (weight_read_stored(p->scale, (uint64_t)first, code, (size_t)n, e))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t block = (first + i) / p->nested_block;
        if ((i == 0 || (first + i) % p->nested_block == 0) &&
            weight_read_stored(p->nested, (uint64_t)block * sizeof unit, &unit, sizeof unit, e))
            return -1;
        float size = p->table[code[i]] * unit; /* rounded before the sum, as the makers do */
        to[i] = size + p->nested_more;
    }
    return 0;
}

static int read_tile(struct packed_tile *t, struct err *e)
{
    const struct packed_weight *p = t->w;
    for (int64_t r = 0; r < t->rows; r++) {
        int64_t row = (t->row + r) * p->k, first = (row + t->col) / p->block;
        int64_t n = (row + t->col + t->cols - 1) / p->block - first + 1;
        const float *size = t->raw;
        if (read_codes(t, row + t->col, t->code + r * t->cols, e) || read_sizes(t, first, n, e))
            return -1;
        for (int64_t i = 0; i < t->n_run; i++) {
            int64_t at = row + t->group[i] * p->group;
            at = at < row + t->col ? row + t->col : at;
            t->scale[r * t->n_run + i] = size[at / p->block - first];
            t->zero[r * t->n_run + i] = 0;
        }
    }
    return 0;
}

const struct packed_layout packed_layout_bnb = {.codes = ".weight",
                                                .is = is_bnb,
                                                .beside = beside,
                                                .tile_rows = TILE_ROWS,
                                                .tile_cols = PACKED_COLS_MAX,
                                                .find = find,
                                                .read = read_tile};
