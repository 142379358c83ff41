/* SPDX-License-Identifier: Apache-2.0
 *
 * See st_header.h.
 */
#include "engine/load/st_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/json.h"

#define MAX_ARENA_BYTES ((size_t)512 << 20)
#define MAX_OFFSET      (INT64_C(1) << 53)

static const struct json_rules rules = {.max_bytes = ST_MAX_HEADER_BYTES,
                                        .max_nodes = ST_MAX_HEADER_BYTES,
                                        .max_depth = 16,
                                        .unique_keys = true,
                                        .naturals_only = true};

static int add_meta(struct st_header *h, const struct json *m, struct err *e)
{
    struct json c;
    if (json_absent(m))
        return 0;
    if (json_want(m, JSON_OBJECT, e))
        return -1;
    json_each(c, *m)
    {
        const char *value;
        if (json_as_str(&c, &value, e))
            return -1;
        size_t n_key = strlen(json_key(&c)) + 1, n_value = strlen(value) + 1;
        char *copy = arena_try(&h->arena, n_key + n_value, 1, e);
        if (!copy)
            return err_wrap(e, "%s", m->file);
        memcpy(copy, json_key(&c), n_key);
        memcpy(copy + n_key, value, n_value);
        struct st_meta pair = {copy, copy + n_key};
        if (buf_add(&h->meta_buf, &pair, sizeof pair))
            return buf_check(&h->meta_buf, m->file, e);
    }
    return 0;
}

static int read_shape(const struct json *m, int64_t *dim, int *rank, struct err *e)
{
    struct json shape, d;
    if (json_get(m, "shape", JSON_ARRAY, &shape, e))
        return -1;
    *rank = 0;
    json_each(d, shape)
    {
        if (*rank == ST_MAX_RANK)
            return json_err(&shape, e, ERR_TOO_LARGE, "more than %d dimensions", ST_MAX_RANK);
        if (json_as_int(&d, 0, MAX_OFFSET, &dim[(*rank)++], e))
            return -1;
    }
    return 0;
}

static int read_offsets(const struct json *m, struct st_tensor *t, struct err *e)
{
    struct json pair;
    int64_t at[2];
    int n = 0;
    if (json_get(m, "data_offsets", JSON_ARRAY, &pair, e))
        return -1;
    if (json_count(&pair) != 2)
        return json_err(&pair, e, ERR_BAD_INPUT, "expected two offsets, found %zu",
                        json_count(&pair));
    struct json c;
    json_each(c, pair) if (json_as_int(&c, 0, MAX_OFFSET, &at[n++], e)) return -1;
    t->begin = (uint64_t)at[0];
    t->end = (uint64_t)at[1];
    return at[0] <= at[1] ? 0 : json_err(&pair, e, ERR_BAD_INPUT, "ends before it begins");
}

/* The shape's bytes must be those of the offsets. */
static int check_size(const struct json *m, const struct st_tensor *t, struct err *e)
{
    uint64_t bits = (uint64_t)st_dtype_bits(t->dtype);
    char text[160];
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)t->dim[i], &bits))
            return json_err(m, e, ERR_BAD_INPUT, "%s has too many elements",
                            st_tensor_text(t, text, sizeof text));
    if (bits % 8)
        return json_err(m, e, ERR_BAD_INPUT, "%s does not end at a byte",
                        st_tensor_text(t, text, sizeof text));
    if (t->end - t->begin != bits / 8)
        return json_err(m, e, ERR_BAD_INPUT, "%s takes %llu bytes, its data_offsets hold %llu",
                        st_tensor_text(t, text, sizeof text), (unsigned long long)(bits / 8),
                        (unsigned long long)(t->end - t->begin));
    return 0;
}

static struct st_tensor *keep_tensor(struct st_header *h, const char *name, size_t n_name,
                                     const struct st_tensor *t, struct err *e)
{
    size_t n_dim = (size_t)t->rank * sizeof(int64_t);
    char *p = arena_try(&h->arena, sizeof *t + n_dim + n_name + 1, 1, e);
    if (!p)
        return NULL;
    struct st_tensor *kept = (void *)p;
    int64_t *dim = (void *)(p + sizeof *t);
    *kept = *t;
    kept->dim = n_dim ? memcpy(dim, t->dim, n_dim) : dim;
    kept->name = memcpy(p + sizeof *t + n_dim, name, n_name + 1);
    return kept;
}

/* Names are shown and logged; nothing real has a control character in them. */
static int check_name(const struct json *m, size_t len, struct err *e)
{
    if (len > ST_MAX_NAME_BYTES)
        return err_set(e, ERR_TOO_LARGE, "%s: a tensor's name of %zu bytes, more than %d", m->file,
                       len, ST_MAX_NAME_BYTES);
    for (const char *p = json_key(m); *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return json_err(m, e, ERR_BAD_INPUT, "a tensor's name with a control character");
    return 0;
}

static int add_tensor(struct st_header *h, const struct json *m, struct err *e)
{
    const char *name = json_key(m), *dtype;
    size_t n_name = strlen(name);
    int64_t dim[ST_MAX_RANK];
    struct st_tensor t = {.dim = dim};
    if (check_name(m, n_name, e))
        return -1;
    if (h->list.len / sizeof(void *) == ST_MAX_TENSOR)
        return err_set(e, ERR_TOO_LARGE, "%s: more than %d tensors", m->file, ST_MAX_TENSOR);
    if (json_want(m, JSON_OBJECT, e) || json_get_str(m, "dtype", &dtype, e))
        return -1;
    if (!st_dtype_parse(dtype, &t.dtype))
        return json_err(m, e, ERR_BAD_INPUT, "dtype '%.40s' is not one that safetensors has",
                        dtype);
    if (read_shape(m, dim, &t.rank, e) || read_offsets(m, &t, e) || check_size(m, &t, e))
        return -1;
    struct st_tensor *kept = keep_tensor(h, name, n_name, &t, e);
    if (!kept)
        return err_wrap(e, "%s", m->file);
    if (map_put(&h->by_name, name, n_name, kept))
        return json_err(m, e, ERR_BAD_INPUT, "the name stands twice");
    if (buf_add(&h->list, &kept, sizeof(void *)))
        return buf_check(&h->list, m->file, e);
    return 0;
}

struct walk {
    struct st_header *h;
    bool has_meta;
};

static int add_member(void *ctx, const struct json *m, struct err *e)
{
    struct walk *w = ctx;
    if (strcmp(json_key(m), "__metadata__") != 0)
        return add_tensor(w->h, m, e);
    if (w->has_meta)
        return json_err(m, e, ERR_BAD_INPUT, "stands twice");
    w->has_meta = true;
    return add_meta(w->h, m, e);
}

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = *(struct st_tensor *const *)a, *y = *(struct st_tensor *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* In order of place each tensor must begin where the one before ended, and the last must end with
 * the file. */
static int check_cover(const struct st_header *h, const char *name, struct err *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < h->n_tensor; i++) {
        const struct st_tensor *t = h->tensor[i];
        if (t->begin != at)
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s: begins at byte %llu, expected %llu",
                           name, t->name,
                           t->begin < at ? "overlaps another tensor" : "a gap lies before it",
                           (unsigned long long)t->begin, (unsigned long long)at);
        at = t->end;
    }
    if (at == h->data_bytes)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "%s: its tensors take %llu bytes, but %llu follow the header: %s", name,
                   (unsigned long long)at, (unsigned long long)h->data_bytes,
                   at > h->data_bytes ? "the file is cut short" : "bytes belong to no tensor");
}

int st_header_init(struct st_header *h, const char *text, size_t len, uint64_t data_bytes,
                   const char *name, struct err *e)
{
    struct walk w = {.h = h};
    *h = (struct st_header){.data_bytes = data_bytes};
    arena_init(&h->arena, MAX_ARENA_BYTES);
    map_init(&h->by_name);
    buf_init(&h->list, ST_MAX_TENSOR * sizeof(void *));
    buf_init(&h->meta_buf, MAX_ARENA_BYTES);
    if (len == 0 || text[0] != '{') {
        err_set(e, ERR_BAD_INPUT, "%s: the header does not begin with '{'", name);
        goto fail;
    }
    if (json_stream(text, len, name, &rules, add_member, &w, e))
        goto fail;
    h->tensor = (void *)h->list.data;
    h->n_tensor = h->list.len / sizeof(void *);
    h->meta = (const void *)h->meta_buf.data;
    h->n_meta = h->meta_buf.len / sizeof *h->meta;
    if (h->n_tensor)
        qsort(h->tensor, h->n_tensor, sizeof(void *), by_place);
    if (check_cover(h, name, e))
        goto fail;
    return 0;
fail:
    st_header_release(h);
    return -1;
}

void st_header_release(struct st_header *h)
{
    map_release(&h->by_name);
    buf_release(&h->list);
    buf_release(&h->meta_buf);
    arena_release(&h->arena);
    h->tensor = NULL;
    h->meta = NULL;
    h->n_tensor = h->n_meta = 0;
}

const struct st_tensor *st_header_get(const struct st_header *h, const char *name)
{
    return map_get_str(&h->by_name, name);
}

const char *st_header_meta(const struct st_header *h, const char *key)
{
    for (size_t i = 0; i < h->n_meta; i++)
        if (strcmp(h->meta[i].key, key) == 0)
            return h->meta[i].value;
    return NULL;
}

const char *st_tensor_text(const struct st_tensor *t, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "%s [", st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    if (n < size)
        snprintf(buf + n, size - n, "]");
    return buf;
}

int64_t st_tensor_count(const struct st_tensor *t)
{
    return (int64_t)((t->end - t->begin) * 8 / (uint64_t)st_dtype_bits(t->dtype));
}

void st_header_prefix(struct st_header *h, const char *prefix)
{
    for (size_t i = 0; i < h->n_tensor; i++) {
        struct st_tensor *t = h->tensor[i];
        t->name = arena_printf(&h->arena, "%s%s", prefix, t->name);
        map_put_str(&h->by_name, t->name, t);
    }
}
