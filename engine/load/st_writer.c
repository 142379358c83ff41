/* SPDX-License-Identifier: Apache-2.0
 *
 * See st_writer.h. The header that was composed is read back by the reader before it is written:
 * its list of tensors is the writer's own from then on, and no file leaves here that the reader
 * would refuse.
 */
#include "engine/load/st_writer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"

struct pair {
    char *key, *value; /* owned */
};

struct entry {
    char *name; /* owned */
    enum st_dtype dtype;
    int rank;
    int64_t dim[ST_MAX_RANK];
};

struct st_writer {
    VEC(struct entry) entry;
    VEC(struct pair) meta;
    struct st_header header; /* once open */
    bool is_open;
    struct aside out;
    size_t at;     /* tensor that comes next */
    uint64_t done; /* its bytes written */
    uint64_t file_bytes;
    atomic_uint_fast64_t put_bytes; /* by st_writer_put */
};

struct st_writer *st_writer_new(void)
{
    struct st_writer *w = xcalloc(1, sizeof *w);
    w->out.fd = -1;
    return w;
}

void st_writer_free(struct st_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->entry.n; i++)
        free(w->entry.at[i].name);
    for (size_t i = 0; i < w->meta.n; i++) {
        free(w->meta.at[i].key);
        free(w->meta.at[i].value);
    }
    vec_release(&w->entry);
    vec_release(&w->meta);
    if (w->is_open)
        st_header_release(&w->header);
    aside_release(&w->out);
    free(w);
}

int st_writer_add(struct st_writer *w, const char *name, enum st_dtype dtype, int rank,
                  const int64_t *dim, struct err *e)
{
    struct entry t = {.dtype = dtype, .rank = rank};
    ASSERT(!w->is_open && rank >= 0 && rank <= ST_MAX_RANK);
    if (w->entry.n == ST_MAX_TENSOR)
        return err_set(e, ERR_TOO_LARGE, "more than %d tensors in a file", ST_MAX_TENSOR);
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    t.name = xstrdup(name);
    vec_push(&w->entry, t);
    return 0;
}

int st_writer_meta(struct st_writer *w, const char *key, const char *value, struct err *e)
{
    ASSERT(!w->is_open);
    if (w->meta.n == ST_MAX_TENSOR)
        return err_set(e, ERR_TOO_LARGE, "more than %d entries of __metadata__", ST_MAX_TENSOR);
    struct pair p = {xstrdup(key), xstrdup(value)};
    vec_push(&w->meta, p);
    return 0;
}

static int by_dtype_and_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->dtype != y->dtype ? (int)y->dtype - (int)x->dtype : strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static void put_string(struct buf *b, const char *s)
{
    buf_char(b, '"');
    for (; *s; s++) {
        const char *short_form = strchr("\"\"\\\\\bb\ff\nn\rr\tt", *s);
        if (short_form && (short_form[1] == *s || (unsigned char)*s < 0x20))
            buf_printf(b, "\\%c", short_form[1]);
        else if ((unsigned char)*s < 0x20)
            buf_printf(b, "\\u%04x", (unsigned)*s);
        else
            buf_char(b, *s);
    }
    buf_char(b, '"');
}

static int put_entry(struct buf *b, const struct entry *t, uint64_t *at, struct err *e)
{
    uint64_t bits = (uint64_t)st_dtype_bits(t->dtype), begin = *at;
    put_string(b, t->name);
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0 || __builtin_mul_overflow(bits, (uint64_t)t->dim[i], &bits))
            return err_set(e, ERR_BAD_INPUT, "tensor %.200s: no file can hold its shape", t->name);
        buf_printf(b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    }
    if (__builtin_add_overflow(begin, bits / 8, at))
        return err_set(e, ERR_TOO_LARGE, "tensor %.200s: ends past 2^64 bytes", t->name);
    buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
               (unsigned long long)*at);
    return 0;
}

static int compose(struct st_writer *w, struct buf *b, uint64_t *data_bytes, struct err *e)
{
    *data_bytes = 0;
    if (w->entry.n)
        qsort(w->entry.at, w->entry.n, sizeof *w->entry.at, by_dtype_and_name);
    if (w->meta.n)
        qsort(w->meta.at, w->meta.n, sizeof *w->meta.at, by_key);
    buf_char(b, '{');
    for (size_t i = 0; i < w->meta.n; i++) {
        buf_str(b, i ? "," : "\"__metadata__\":{");
        put_string(b, w->meta.at[i].key);
        buf_char(b, ':');
        put_string(b, w->meta.at[i].value);
    }
    if (w->meta.n)
        buf_char(b, '}');
    for (size_t i = 0; i < w->entry.n; i++) {
        if (i || w->meta.n)
            buf_char(b, ',');
        if (put_entry(b, &w->entry.at[i], data_bytes, e))
            return -1;
    }
    buf_char(b, '}');
    while (b->len % 8)
        buf_char(b, ' ');
    return buf_check(b, "a safetensors header", e);
}

int st_writer_open(struct st_writer *w, const char *path, struct err *e)
{
    struct buf text;
    unsigned char len[8];
    int rc = -1;
    ASSERT(!w->is_open);
    buf_init(&text, ST_MAX_HEADER_BYTES);
    uint64_t data_bytes;
    if (compose(w, &text, &data_bytes, e) ||
        st_header_init(&w->header, text.data, text.len, data_bytes, path, e))
        goto out;
    w->is_open = true;
    w->file_bytes = 8 + text.len + data_bytes;
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)text.len >> 8 * i);
    if (aside_init(&w->out, path, e) || aside_reserve(&w->out, (int64_t)w->file_bytes, e) ||
        aside_write(&w->out, len, sizeof len, e) || aside_write(&w->out, text.data, text.len, e))
        goto out;
    rc = 0;
out:
    buf_release(&text);
    return rc;
}

uint64_t st_writer_bytes(const struct st_writer *w)
{
    return w->file_bytes;
}

/* Tensors without bytes need no write. */
const struct st_tensor *st_writer_next(const struct st_writer *w)
{
    size_t at = w->at;
    while (at < w->header.n_tensor && w->header.tensor[at]->begin == w->header.tensor[at]->end)
        at++;
    return at < w->header.n_tensor ? w->header.tensor[at] : NULL;
}

uint64_t st_writer_done(const struct st_writer *w)
{
    return w->done;
}

int st_writer_write(struct st_writer *w, const void *p, size_t n, struct err *e)
{
    const struct st_tensor *t = st_writer_next(w);
    ASSERT(w->is_open && t && n <= t->end - t->begin - w->done);
    if (aside_write(&w->out, p, n, e))
        return -1;
    w->done += n;
    if (w->done == t->end - t->begin) {
        while (w->header.tensor[w->at] != t)
            w->at++;
        w->at++;
        w->done = 0;
    }
    return 0;
}

const struct st_tensor *st_writer_get(const struct st_writer *w, const char *name)
{
    ASSERT(w->is_open);
    return st_header_get(&w->header, name);
}

int st_writer_put(struct st_writer *w, const struct st_tensor *t, uint64_t at, const void *p,
                  size_t n, struct err *e)
{
    uint64_t data = w->file_bytes - w->header.data_bytes;
    ASSERT(w->is_open && at <= t->end - t->begin && n <= t->end - t->begin - at);
    atomic_fetch_add(&w->put_bytes, n);
    return aside_write_at(&w->out, p, n, (int64_t)(data + t->begin + at), e);
}

int st_writer_commit(struct st_writer *w, struct err *e)
{
    ASSERT(w->is_open &&
           (!st_writer_next(w) || atomic_load(&w->put_bytes) == w->header.data_bytes));
    return aside_commit(&w->out, e);
}
