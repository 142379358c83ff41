/* SPDX-License-Identifier: Apache-2.0
 *
 * See weights.h. Tensors of all shards stand in one array and one map; a name in two shards, a
 * shard that the index names but the folder lacks, and a tensor that is not where the index says
 * are errors. A GGUF file's are there under their new names.
 */
#include "engine/load/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/load/drawn.h"
#include "engine/load/gguf_weights.h"
#include "engine/load/json.h"
#include "engine/load/packed_weight.h"
#include "engine/load/path.h"
#include "engine/load/stacked_weight.h"
#include "kernels/coded.h"
#include "kernels/float16.h"
#include "kernels/format.h"

#define MAX_SHARD   4096
#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"

struct weights {
    char *dir;                  /* owned */
    VEC(struct st_file *) file; /* owned */
    struct map file_by_name;    /* of struct st_file */
    struct weight *at;          /* owned, [n] */
    size_t n;
    struct map by_name;           /* of struct weight */
    struct packing how;           /* they are packed */
    struct packed_weight *packed; /* owned, [n_packed]: matrices of packed codes */
    struct weight *of_packed;     /* owned, [n_packed] */
    size_t n_packed;
    struct stacked_weight *stack; /* owned, [n_stack]: of experts that share a tensor */
    struct weight *of_stack;      /* owned, [n_stack] */
    size_t n_stack;
    bool has_codes;             /* some of those are codes */
    struct gguf *gguf;          /* owned; NULL: weights of other files */
    uint16_t *drawn;            /* owned; NULL: weights of files */
    VEC(struct drawn *) wanted; /* owned: those that were drawn */
};

static const struct json_rules index_rules = {
    .max_bytes = ST_MAX_HEADER_BYTES, .max_nodes = 4 << 20, .max_depth = 16, .unique_keys = true};

static int open_file(struct weights *w, const char *name, struct err *e)
{
    char *path = path_join(w->dir, name);
    struct st_file *f = st_open(path, name, e);
    free(path);
    if (!f)
        return -1;
    vec_push(&w->file, f);
    map_put_str(&w->file_by_name, name, f);
    return 0;
}

/* A shard lies beside its index: a plain name that ends as it must. */
static int check_shard_name(const struct json *v, const char *name, struct err *e)
{
    size_t n = strlen(name);
    if (n > 12 && n < 256 && name[0] != '.' && !strchr(name, '/') &&
        strcmp(name + n - 12, ".safetensors") == 0)
        return 0;
    return json_err(v, e, ERR_BAD_INPUT, "'%.100s' is not the plain name of a safetensors file",
                    name);
}

static int open_shards(struct weights *w, const struct json *weight_map, struct err *e)
{
    struct json c;
    json_each(c, *weight_map)
    {
        const char *name;
        if (json_as_str(&c, &name, e))
            return -1;
        if (map_get_str(&w->file_by_name, name))
            continue;
        if (check_shard_name(&c, name, e))
            return -1;
        if (w->file.n == MAX_SHARD)
            return json_err(weight_map, e, ERR_TOO_LARGE, "more than %d files", MAX_SHARD);
        if (open_file(w, name, e))
            return err_wrap(e, "%s names a shard", INDEX_NAME);
    }
    return 0;
}

static int check_index(const struct weights *w, const struct json *weight_map, struct err *e)
{
    struct json c;
    json_each(c, *weight_map)
    {
        const char *file;
        if (json_as_str(&c, &file, e))
            return -1;
        const struct weight *have = map_get_str(&w->by_name, json_key(&c));
        if (!have || strcmp(st_file_name(have->file), file) != 0)
            return json_err(&c, e, ERR_BAD_INPUT, "%s does not hold this tensor", file);
    }
    return 0;
}

static int add_packed(struct weights *w, const struct weight *codes, struct err *e)
{
    struct packed_weight *p = &w->packed[w->n_packed];
    struct weight *t = &w->of_packed[w->n_packed++];
    if (packed_weight_init(p, w, codes, &w->how, e))
        return -1;
    *t = (struct weight){.t = &p->t, .file = codes->file, .packed = p};
    const struct weight *other = map_put_str(&w->by_name, p->name, t);
    if (other && other != codes)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s is there packed and as it is",
                       st_file_name(t->file), p->name);
    return 0;
}

/* Matrices that stand in the files as codes and scales. */
static int gather_packed(struct weights *w, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += packed_weight_is(w->at[i].t);
    if (!n)
        return 0;
    w->packed = try_alloc(n, sizeof *w->packed, "the list of packed matrices", e);
    w->of_packed =
        w->packed ? try_alloc(n, sizeof *w->of_packed, "the list of packed matrices", e) : NULL;
    if (!w->of_packed)
        return -1;
    for (size_t i = 0; i < w->n; i++)
        if (packed_weight_is(w->at[i].t) && add_packed(w, &w->at[i], e))
            return -1;
    return 0;
}

static int add_stack(struct weights *w, const struct weight *from, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        struct stacked_weight *s = &w->stack[w->n_stack];
        struct weight *t = &w->of_stack[w->n_stack++];
        if (stacked_weight_init(s, w, from, i, e))
            return -1;
        *t = (struct weight){.t = &s->t, .file = from->file, .stack = s};
        w->has_codes |= s->scale != NULL;
        if (map_put_str(&w->by_name, s->name, t))
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s is there stacked and as it is",
                           st_file_name(t->file), s->name);
    }
    return 0;
}

/* Experts of which a layer has one tensor. */
static int gather_stacks(struct weights *w, struct err *e)
{
    static const char what[] = "the list of stacked matrices";
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += stacked_weight_count(w, w->at[i].t);
    if (!n)
        return 0;
    w->stack = try_alloc(n, sizeof *w->stack, what, e);
    w->of_stack = w->stack ? try_alloc(n, sizeof *w->of_stack, what, e) : NULL;
    if (!w->of_stack)
        return -1;
    for (size_t i = 0; i < w->n; i++)
        if (add_stack(w, &w->at[i], stacked_weight_count(w, w->at[i].t), e))
            return -1;
    return 0;
}

/* Fills the array and the map from the open files. */
static int gather(struct weights *w, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < w->file.n; i++)
        n += st_file_header(w->file.at[i])->n_tensor;
    w->at = try_alloc(n, sizeof *w->at, "the list of tensors", e);
    if (!w->at)
        return -1;
    for (size_t i = 0; i < w->file.n; i++) {
        const struct st_header *h = st_file_header(w->file.at[i]);
        for (size_t j = 0; j < h->n_tensor; j++) {
            struct weight *t = &w->at[w->n++], *other;
            *t = (struct weight){.t = h->tensor[j], .file = w->file.at[i]};
            if ((other = map_put_str(&w->by_name, t->t->name, t)))
                return err_set(e, ERR_BAD_INPUT, "%s: %.200s is in %s too", st_file_name(t->file),
                               t->t->name, st_file_name(other->file));
        }
    }
    return gather_packed(w, e) || gather_stacks(w, e) ? -1 : 0;
}

static int open_sharded(struct weights *w, struct err *e)
{
    struct json root, weight_map;
    int rc = -1;
    char *path = path_join(w->dir, INDEX_NAME);
    struct json_doc *doc = json_read(path, INDEX_NAME, &index_rules, e);
    free(path);
    if (!doc)
        return -1;
    root = json_root(doc);
    if (json_get(&root, "weight_map", JSON_OBJECT, &weight_map, e) == 0 &&
        open_shards(w, &weight_map, e) == 0 && gather(w, e) == 0 &&
        check_index(w, &weight_map, e) == 0)
        rc = 0;
    json_free(doc);
    return rc;
}

static struct weights *weights_new(const char *dir, size_t n_dir)
{
    struct weights *w = xcalloc(1, sizeof *w);
    w->dir = xstrndup(dir, n_dir);
    map_init(&w->file_by_name);
    map_init(&w->by_name);
    return w;
}

struct weights *weights_open(const char *dir, struct err *e)
{
    return weights_open_packed(dir, &(struct packing){.method = PACKING_NONE}, e);
}

struct weights *weights_open_packed(const char *dir, const struct packing *how, struct err *e)
{
    return weights_open_with(dir, how, NULL, 0, e);
}

static int open_modules(struct weights *w, const struct weights_module *module, size_t n,
                        struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        char name[300];
        snprintf(name, sizeof name, "%.200s/%s", module[i].folder, SINGLE_NAME);
        if (open_file(w, name, e))
            return -1;
        st_prefix(w->file.at[w->file.n - 1], module[i].prefix);
    }
    return 0;
}

struct weights *weights_open_with(const char *dir, const struct packing *how,
                                  const struct weights_module *module, size_t n, struct err *e)
{
    struct weights *w = weights_new(dir, strlen(dir));
    int rc;
    w->how = *how;
    if (open_modules(w, module, n, e))
        rc = -1;
    else if (path_exists(dir, SINGLE_NAME))
        rc = open_file(w, SINGLE_NAME, e) || gather(w, e);
    else if (path_exists(dir, INDEX_NAME))
        rc = open_sharded(w, e);
    else
        rc = err_set(e, ERR_NOT_FOUND, "neither %s nor %s is there%s", SINGLE_NAME, INDEX_NAME,
                     path_exists(dir, "pytorch_model.bin") ||
                             path_exists(dir, "pytorch_model.bin.index.json")
                         ? " (pytorch_model.bin can run code and is not read: save the model with "
                           "safe_serialization)"
                         : "");
    if (rc == 0)
        return w;
    weights_close(w);
    return NULL;
}

struct weights *weights_open_file(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    struct weights *w = slash ? weights_new(path, (size_t)(slash - path)) : weights_new(".", 1);
    if (open_file(w, slash ? slash + 1 : path, e) == 0 && gather(w, e) == 0)
        return w;
    weights_close(w);
    return NULL;
}

static int gather_gguf(struct weights *w, struct err *e)
{
    size_t n;
    const struct gguf_weight *from = gguf_weights_new(w->gguf, &n, e);
    w->at = from ? try_alloc(n + 1, sizeof *w->at, "the list of tensors", e) : NULL;
    if (!w->at)
        return -1;
    for (size_t i = 0; i < n; i++) {
        w->at[i] = (struct weight){.t = &from[i].t, .gguf = &from[i]};
        if (map_put_str(&w->by_name, from[i].t.name, &w->at[w->n++]))
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: a layer's tensor under two names",
                           w->gguf->name, from[i].from->name);
    }
    return 0;
}

struct weights *weights_open_gguf(const char *path, struct err *e)
{
    struct weights *w = weights_new("", 0);
    w->gguf = gguf_open(path, e);
    if (w->gguf && gather_gguf(w, e) == 0)
        return w;
    weights_close(w);
    return NULL;
}

struct weights *weights_random(struct err *e)
{
    struct weights *w = weights_new("", 0);
    w->drawn = drawn_numbers_new(e);
    if (w->drawn)
        return w;
    weights_close(w);
    return NULL;
}

void weights_close(struct weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->wanted.n; i++)
        free(w->wanted.at[i]);
    vec_release(&w->wanted);
    mem_free(w->drawn);
    for (size_t i = 0; i < w->file.n; i++)
        st_close(w->file.at[i]);
    vec_release(&w->file);
    map_release(&w->file_by_name);
    map_release(&w->by_name);
    mem_free(w->at);
    for (size_t i = 0; i < w->n_packed; i++)
        packed_weight_release(&w->packed[i]);
    for (size_t i = 0; i < w->n_stack; i++)
        stacked_weight_release(&w->stack[i]);
    mem_free(w->of_stack);
    mem_free(w->stack);
    mem_free(w->of_packed);
    mem_free(w->packed);
    gguf_close(w->gguf);
    free(w->dir);
    free(w);
}

size_t weights_count(const struct weights *w)
{
    return w->n;
}

bool weights_are_packed(const struct weights *w)
{
    return w->n_packed > 0 || w->has_codes;
}

const struct weight *weights_stacked(const struct weights *w, const struct weight *of, size_t *n)
{
    const struct weight *first = NULL;
    *n = 0;
    for (size_t i = 0; i < w->n_stack; i++) {
        if (w->of_stack[i].stack->from != of)
            continue;
        first = first ? first : &w->of_stack[i];
        ++*n;
    }
    return first;
}

const struct weight *weights_with_bits(const struct weights *w)
{
    for (size_t i = 0; i < weights_count(w); i++)
        if (st_dtype_bits(weights_at(w, i)->t->dtype) < 8)
            return weights_at(w, i);
    return NULL;
}

const struct weight *weights_at(const struct weights *w, size_t i)
{
    ASSERT(i < w->n);
    return &w->at[i];
}

const struct weight *weights_get(const struct weights *w, const char *name)
{
    return map_get_str(&w->by_name, name);
}

uint64_t weights_bytes(const struct weights *w)
{
    uint64_t sum = w->gguf ? gguf_bytes(w->gguf) : 0;
    for (size_t i = 0; i < w->file.n; i++)
        sum += st_file_header(w->file.at[i])->data_bytes;
    for (size_t i = 0; i < w->wanted.n; i++)
        sum += w->wanted.at[i]->t.end;
    return sum;
}

void weights_prefetch(const struct weights *w)
{
    for (size_t i = 0; i < w->file.n; i++)
        st_prefetch(w->file.at[i]);
    if (w->gguf)
        gguf_prefetch(w->gguf);
}

static int err_shape(const struct weight *w, int rank, const int64_t *dim, struct err *e)
{
    char found[160], want[160] = "", *p = want;
    for (int i = 0; i < rank; i++)
        p += snprintf(p, (size_t)(want + sizeof want - p), "%s%lld", i ? ", " : "",
                      (long long)dim[i]);
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: expected [%s], found %s", weight_file_name(w),
                   w->t->name, want, st_tensor_text(w->t, found, sizeof found));
}

/* A tensor as it is wanted. */
static const struct weight *draw(struct weights *w, const char *name, int rank, const int64_t *dim)
{
    struct drawn *d = drawn_new(w->drawn, name, rank, dim);
    vec_push(&w->wanted, d);
    map_put_str(&w->by_name, d->t.name, &d->weight);
    return &d->weight;
}

int weights_want(struct weights *w, const char *name, int rank, const int64_t *dim,
                 const struct weight **out, struct err *e)
{
    enum k_type type;
    const struct weight *have = weights_get(w, name);
    ASSERT(rank <= ST_MAX_RANK);
    if (!have && w->drawn)
        have = draw(w, name, rank, dim);
    if (!have)
        return err_set(e, ERR_NOT_FOUND, "%s: the tensor %s is missing",
                       w->gguf ? w->gguf->name
                       : w->file.n == 1 || path_exists(w->dir, SINGLE_NAME)
                           ? st_file_name(w->file.at[w->file.n - 1])
                           : INDEX_NAME,
                       name);
    if (have->t->rank != rank || (rank && memcmp(have->t->dim, dim, (size_t)rank * sizeof *dim)))
        return err_shape(have, rank, dim, e);
    if (!st_dtype_k_type(have->t->dtype, &type))
        return err_set(e, ERR_UNSUPPORTED, "%s: %s: expected F32, F16 or BF16, found %s",
                       weight_file_name(have), name, st_dtype_name(have->t->dtype));
    *out = have;
    return 0;
}

const char *weight_file_name(const struct weight *w)
{
    return w->file ? st_file_name(w->file) : w->gguf ? gguf_tensor_file(w->gguf->from) : "";
}

uint64_t weight_stored_bytes(const struct weight *w)
{
    return w->gguf ? w->gguf->from->bytes : w->t->end - w->t->begin;
}

int weight_read_stored(const struct weight *w, uint64_t at, void *dst, size_t n, struct err *e)
{
    return w->gguf ? gguf_read(w->gguf->from, at, dst, n, e)
                   : st_read(w->file, w->t, at, dst, n, e);
}

int64_t weight_rows(const struct weight *w)
{
    return w->t->rank ? w->t->dim[0] : 1;
}

int64_t weight_row_len(const struct weight *w)
{
    int64_t rows = weight_rows(w);
    return rows ? st_tensor_count(w->t) / rows : 0;
}

size_t weight_row_bytes(const struct weight *w)
{
    int64_t rows = weight_rows(w);
    return rows ? (size_t)((w->t->end - w->t->begin) / (uint64_t)rows) : 0;
}

enum k_type weight_k_type(const struct weight *w)
{
    enum k_type type;
    if (!st_dtype_k_type(w->t->dtype, &type))
        BUG("%s is no weight", w->t->name);
    return type;
}

int64_t weight_rows_together(const struct weight *w)
{
    return w->packed  ? packed_weight_rows_together(w->packed)
           : w->stack ? stacked_weight_rows_together(w->stack)
                      : 1;
}

int weight_read(const struct weight *w, int64_t row, int64_t n_row, void *dst, struct err *e)
{
    size_t row_bytes = weight_row_bytes(w);
    ASSERT(row >= 0 && n_row >= 0 && row <= weight_rows(w) && n_row <= weight_rows(w) - row);
    if (w->drawn)
        return drawn_read(w, row * weight_row_len(w), n_row * weight_row_len(w), dst);
    if (w->packed)
        return packed_weight_read(w->packed, row, 0, n_row * weight_row_len(w), dst, e);
    if (w->stack)
        return stacked_weight_read(w->stack, row, 0, n_row * weight_row_len(w), dst, e);
    if (w->gguf)
        return gguf_weight_read(w->gguf, row, 0, n_row * weight_row_len(w), dst, e);
    return st_read(w->file, w->t, (uint64_t)row * row_bytes, dst, (size_t)n_row * row_bytes, e);
}

int weight_read_at(const struct weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                   struct err *e)
{
    int64_t len = weight_row_len(w);
    size_t size = len ? weight_row_bytes(w) / (size_t)len : 0;
    ASSERT(row >= 0 && row < weight_rows(w) && col >= 0 && n >= 0 &&
           n <= (weight_rows(w) - row) * len - col);
    if (w->drawn)
        return drawn_read(w, row * len + col, n, dst);
    if (w->packed)
        return packed_weight_read(w->packed, row, col, n, dst, e);
    if (w->stack)
        return stacked_weight_read(w->stack, row, col, n, dst, e);
    if (w->gguf)
        return gguf_weight_read(w->gguf, row, col, n, dst, e);
    return st_read(w->file, w->t, (uint64_t)(row * len + col) * size, dst, (size_t)n * size, e);
}

enum k_type weight_coded(const struct weight *w)
{
    return w->packed  ? w->packed->coded
           : w->stack ? stacked_weight_coded(w->stack)
           : w->gguf  ? w->gguf->coded
                      : K_F32;
}

int64_t weight_coded_inputs(const struct weight *w)
{
    if (w->packed)
        return coded_inputs(w->packed->coded);
    if (w->stack)
        return w->stack->scale ? coded_inputs(K_MXFP4) : 1;
    if (!w->gguf)
        return 1;
    int64_t block = w->gguf->from->type->block, whole = format_stream(w->gguf->coded, 0).inputs;
    return block > whole ? block : whole;
}

const int32_t *weight_order(const struct weight *w)
{
    return w->packed ? w->packed->order : NULL;
}

int weight_read_coded(const struct weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                      struct err *e)
{
    ASSERT(weight_coded(w) != K_F32 && row >= 0 && row < weight_rows(w) && col >= 0 && n >= 0 &&
           n <= (weight_rows(w) - row) * weight_row_len(w) - col);
    return w->packed  ? packed_weight_read_coded(w->packed, row, col, n, dst, e)
           : w->stack ? stacked_weight_read_coded(w->stack, row, col, n, dst, e)
                      : gguf_weight_read_coded(w->gguf, row, col, n, dst, e);
}

int weight_read_f32(const struct weight *w, int64_t row, int64_t n_row, float *dst, struct err *e)
{
    enum k_type type = weight_k_type(w);
    size_t n = (size_t)(n_row * weight_row_len(w));
    if (type == K_F32)
        return weight_read(w, row, n_row, dst, e);
    /* The halves are read into the upper part of dst and widened upwards from its beginning, which
     * never overtakes what is still to be read. */
    uint16_t *half = (uint16_t *)(void *)dst + n;
    if (weight_read(w, row, n_row, half, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = half[i];
        dst[i] = type == K_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
    }
    return 0;
}
