/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_weights.h. Blocks are read in pieces that a stack holds.
 */
#include "engine/load/gguf_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/load/gguf_config.h"
#include "kernels/coded.h"
#include "kernels/float16.h"

enum { PIECE_BYTES = 1 << 14 };

/* ---- names --------------------------------------------------------------------------------- */

/* A parameter's name there and here; of a layer where it begins with a dot. */
static const struct {
    const char *there, *here;
    bool is_query, is_key; /* of those that llama.cpp permutes */
} name_row[] = {
    {"token_embd.weight", "model.embed_tokens.weight", false, false},
    {"output_norm.weight", "model.norm.weight", false, false},
    {"output.weight", "lm_head.weight", false, false},
    {".attn_norm.weight", ".input_layernorm.weight", false, false},
    {".attn_q.weight", ".self_attn.q_proj.weight", true, false},
    {".attn_q.bias", ".self_attn.q_proj.bias", true, false},
    {".attn_k.weight", ".self_attn.k_proj.weight", false, true},
    {".attn_k.bias", ".self_attn.k_proj.bias", false, true},
    {".attn_v.weight", ".self_attn.v_proj.weight", false, false},
    {".attn_v.bias", ".self_attn.v_proj.bias", false, false},
    {".attn_output.weight", ".self_attn.o_proj.weight", false, false},
    {".attn_output.bias", ".self_attn.o_proj.bias", false, false},
    {".attn_q_norm.weight", ".self_attn.q_norm.weight", false, false},
    {".attn_k_norm.weight", ".self_attn.k_norm.weight", false, false},
    {".ffn_norm.weight", ".post_attention_layernorm.weight", false, false},
    {".ffn_gate.weight", ".mlp.gate_proj.weight", false, false},
    {".ffn_gate.bias", ".mlp.gate_proj.bias", false, false},
    {".ffn_up.weight", ".mlp.up_proj.weight", false, false},
    {".ffn_up.bias", ".mlp.up_proj.bias", false, false},
    {".ffn_down.weight", ".mlp.down_proj.weight", false, false},
    {".ffn_down.bias", ".mlp.down_proj.bias", false, false},
};

/* Of a mixture: the stacks of all experts' matrices with the name of one, where mixtures are called
 * mlp and where they are called block_sparse_moe; and the router. */
static const struct {
    const char *there, *mlp, *block;
} stack_row[] = {
    {".ffn_gate_exps.weight", "gate_proj", "w1"},
    {".ffn_up_exps.weight", "up_proj", "w3"},
    {".ffn_down_exps.weight", "down_proj", "w2"},
};

enum { N_STACK = sizeof stack_row / sizeof *stack_row };

static const char router[] = ".ffn_gate_inp.weight";

/* The layer of "blk.7.attn_q.weight", *rest at the dot behind it; -1: of no layer. */
static int layer_of(const char *name, const char **rest)
{
    char *end;
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return -1;
    long n = strtol(name + 4, &end, 10);
    if (*end != '.' || n >= CONFIG_LAYER_MAX || (name[4] == '0' && end != name + 5))
        return -1;
    *rest = end;
    return (int)n;
}

static int name_weight(struct gguf_weight *w, const struct gguf_shape *s, struct err *e)
{
    const char *rest;
    int layer = layer_of(w->from->name, &rest);
    for (size_t i = 0; i < sizeof name_row / sizeof *name_row; i++) {
        if (strcmp(rest, name_row[i].there) != 0)
            continue;
        if (layer >= 0)
            snprintf(w->name, sizeof w->name, "model.layers.%d%s", layer, name_row[i].here);
        else
            snprintf(w->name, sizeof w->name, "%s", name_row[i].here);
        if (s->is_permuted && (name_row[i].is_query || name_row[i].is_key))
            w->d_head = s->d_head;
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: is no parameter of %s",
                   gguf_tensor_file(w->from), w->from->name, s->arch);
}

static const char *mixture_name(const struct gguf_shape *s)
{
    return s->is_permuted ? "block_sparse_moe" : "mlp";
}

/* A router's; *is_so: it is one. */
static void name_router(struct gguf_weight *w, const struct gguf_shape *s, bool *is_so)
{
    const char *rest;
    int layer = layer_of(w->from->name, &rest);
    *is_so = layer >= 0 && strcmp(rest, router) == 0;
    if (*is_so)
        snprintf(w->name, sizeof w->name, "model.layers.%d.%s.gate.weight", layer, mixture_name(s));
}

bool gguf_tensor_name(const char *param, char name[ST_MAX_NAME_BYTES], bool *is_permuted)
{
    static const char layers[] = "layers.", model[] = "model.";
    char *rest = NULL;
    bool is_of_layer = strncmp(param, layers, sizeof layers - 1) == 0;
    long layer = is_of_layer ? strtol(param + sizeof layers - 1, &rest, 10) : 0;
    for (size_t i = 0; i < sizeof name_row / sizeof *name_row; i++) {
        const char *here = name_row[i].here;
        if (!is_of_layer && strncmp(here, model, sizeof model - 1) == 0)
            here += sizeof model - 1;
        if (strcmp(here, is_of_layer ? rest : param) != 0)
            continue;
        snprintf(name, ST_MAX_NAME_BYTES, "%s", name_row[i].there);
        if (is_of_layer)
            snprintf(name, ST_MAX_NAME_BYTES, "blk.%ld%s", layer, name_row[i].there);
        *is_permuted = name_row[i].is_query || name_row[i].is_key;
        return true;
    }
    return false;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Where row r of a head of d stands in the file: there its numbers alternate between the halves. */
static int64_t place_of(int64_t row, int32_t d)
{
    if (!d)
        return row;
    int64_t in = row % d, half = d / 2;
    return row - in + (in < half ? 2 * in : 2 * (in - half) + 1);
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
    bool is_nested = coded_inputs(w->from->type->coded) == K_NESTED;
    if (!is_finite(coded_scale(block)) || (is_nested && !is_finite(coded_scale(code))))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the scale of block %llu is not finite",
                       gguf_tensor_file(w->from), w->from->name, (unsigned long long)at);
    if (w->from->type->coded == K_INT8G && memchr(code, 0x80, CODED_INPUTS))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %.200s: block %llu has the code -128, which int8g does not keep: give "
                       "--quantize f32",
                       gguf_tensor_file(w->from), w->from->name, (unsigned long long)at);
    return 0;
}

/* n blocks from block `first` on, which become those of the format. */
static int recode(const struct gguf_weight *w, uint64_t first, uint64_t n, uint8_t *dst,
                  struct err *e)
{
    const struct ggml_type *type = w->from->type;
    uint8_t bytes[PIECE_BYTES];
    uint64_t most = sizeof bytes / type->bytes;
    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < most ? n - at : most;
        if (gguf_read(w->from, (first + at) * type->bytes, bytes, (size_t)some * type->bytes, e))
            return -1;
        for (uint64_t b = 0; b < some; b++, dst += coded_bytes(type->coded, type->block))
            type->recode(bytes + b * type->bytes, dst);
    }
    return 0;
}

/* Elements [at, at + n) as blocks of the format whose codes they are. */
static int read_blocks(const struct gguf_weight *w, uint64_t at, int64_t n, void *dst,
                       struct err *e)
{
    const struct ggml_type *type = w->from->type;
    uint8_t *block = dst;
    uint64_t first = at / type->block, n_block = (uint64_t)n / type->block;
    ASSERT(at % type->block == 0 && (uint64_t)n % type->block == 0);
    if (type->recode
            ? recode(w, first, n_block, block, e)
            : gguf_read(w->from, first * type->bytes, dst, (size_t)n_block * type->bytes, e))
        return -1;
    const int64_t size = coded_inputs(type->coded), bytes = coded_bytes(type->coded, size);
    for (int64_t i = 0; i < n; i += size, block += bytes)
        if (check_block(w, first + (uint64_t)(i / type->block), block, e))
            return -1;
    return 0;
}

/* How elements come: as numbers or as blocks, `some` of them in so many bytes. */
struct reading {
    int (*run)(const struct gguf_weight *w, uint64_t at, int64_t n, void *dst, struct err *e);
    int64_t some, bytes;
};

static int read_rows(const struct gguf_weight *w, const struct reading *r, int64_t row, int64_t col,
                     int64_t n, char *dst, struct err *e)
{
    int64_t rows = w->t.dim[0], len = st_tensor_count(&w->t) / rows;
    if (!w->d_head)
        return r->run(w, w->first + (uint64_t)(row * len + col), n, dst, e);
    for (int64_t here; n; row++, col = 0, n -= here) {
        here = len - col < n ? len - col : n;
        if (r->run(w, (uint64_t)(place_of(row, w->d_head) * len + col), here, dst, e))
            return -1;
        dst += here / r->some * r->bytes;
    }
    return 0;
}

int gguf_weight_read(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                     struct err *e)
{
    struct reading r = {read_run, 1, st_dtype_bits(w->t.dtype) / 8};
    return read_rows(w, &r, row, col, n, dst, e);
}

int gguf_weight_read_coded(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n,
                           void *dst, struct err *e)
{
    enum k_type coded = w->from->type->coded;
    int64_t size = coded_inputs(coded);
    struct reading r = {read_blocks, size, coded_bytes(coded, size)};
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

/* All of a tensor's numbers, or those of one of n that it stacks. */
static void shape_as(struct gguf_weight *w, int64_t n)
{
    uint64_t all = w->from->bytes / w->from->type->bytes * w->from->type->block;
    w->t.name = w->name;
    w->t.dim = w->from->dim + (n > 0 ? 1 : 0);
    w->t.rank = w->from->rank - (n > 0 ? 1 : 0);
    w->t.end = all / (uint64_t)(n > 0 ? n : 1) * (uint64_t)st_dtype_bits(w->t.dtype) / 8;
}

static int fill(struct gguf_weight *w, const struct gguf_tensor *from, const struct gguf_shape *s,
                struct err *e)
{
    bool is_router;
    *w = (struct gguf_weight){.from = from};
    name_router(w, s, &is_router);
    if (check_kind(from, e) || (!is_router && name_weight(w, s, e)) || find_dtype(w, e))
        return -1;
    if (w->d_head && (w->d_head % 2 || from->dim[0] % w->d_head))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %lld rows are no heads of %d",
                       gguf_tensor_file(from), from->name, (long long)from->dim[0], w->d_head);
    shape_as(w, 0);
    return 0;
}

/* ---- stacks of experts --------------------------------------------------------------------- */

/* The row of a stack; -1: it is none. */
static int stack_of(const struct gguf_tensor *t)
{
    const char *rest;
    int i = layer_of(t->name, &rest) < 0 ? N_STACK : 0;
    while (i < N_STACK && strcmp(rest, stack_row[i].there) != 0)
        i++;
    return i < N_STACK ? i : -1;
}

/* Each expert's matrix by its own name, w[0, *n). */
static int fill_stack(struct gguf_weight *w, const struct gguf_tensor *from,
                      const struct gguf_shape *s, int row, struct err *e)
{
    struct gguf_weight one = {.from = from};
    const char *rest, *part = s->is_permuted ? stack_row[row].block : stack_row[row].mlp;
    int layer = layer_of(from->name, &rest);
    if (check_kind(from, e) || find_dtype(&one, e))
        return -1;
    for (int64_t i = 0; i < from->dim[0]; i++) {
        w[i] = one;
        shape_as(&w[i], from->dim[0]);
        w[i].first = (uint64_t)i * (uint64_t)(from->dim[1] * from->dim[2]);
        snprintf(w[i].name, sizeof w[i].name, "model.layers.%d.%s.experts.%lld.%s.weight", layer,
                 mixture_name(s), (long long)i, part);
    }
    return 0;
}

/* How many weights a tensor is: one, none, or one for each expert. */
static int count_weights(const struct gguf_tensor *t, size_t *n, struct err *e)
{
    *n = gguf_is_rope_factors(t) ? 0 : 1;
    if (stack_of(t) < 0)
        return 0;
    if (t->rank != 3 || t->dim[0] < 1 || t->dim[0] > CONFIG_EXPERT_MAX)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: is no stack of 1 to %d matrices",
                       gguf_tensor_file(t), t->name, CONFIG_EXPERT_MAX);
    *n = (size_t)t->dim[0];
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
        if (count_weights(&g->tensor[i], &some, e))
            return NULL;
    struct gguf_weight *w = arena_try(&g->arena, all + 1, sizeof *w, e);
    for (size_t i = 0; w && i < g->n_tensor; i++) {
        const struct gguf_tensor *t = &g->tensor[i];
        int row = stack_of(t);
        if (count_weights(t, &some, e) ||
            (some && (row < 0 ? fill(&w[*n], t, &s, e) : fill_stack(&w[*n], t, &s, row, e))))
            return NULL;
        *n += some;
    }
    return w;
}
