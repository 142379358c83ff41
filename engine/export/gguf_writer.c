/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_writer.h. Every machine that this is built for is little-endian, as the format is.
 */
#include "engine/export/gguf_writer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"

enum { VERSION = 3, ALIGN = 32 };

#define KEYS_BYTES_MAX ((size_t)512 << 20)

struct gguf_writer {
    struct buf keys, tensors;
    uint64_t n_key, n_tensor;
    VEC(uint64_t) bytes; /* of each tensor */
    uint64_t data_bytes; /* of all that were declared, with what aligns them */
    struct aside out;
    bool is_open;
    size_t at;     /* tensor that comes next */
    uint64_t done; /* its bytes written */
    uint64_t file_bytes;
};

struct gguf_writer *gguf_writer_new(void)
{
    struct gguf_writer *w = xcalloc(1, sizeof *w);
    buf_init(&w->keys, KEYS_BYTES_MAX);
    buf_init(&w->tensors, KEYS_BYTES_MAX);
    w->out.fd = -1;
    return w;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w)
        return;
    buf_release(&w->keys);
    buf_release(&w->tensors);
    vec_release(&w->bytes);
    aside_release(&w->out);
    free(w);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void put_u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof v);
}

static void put_str(struct buf *b, const char *s, size_t n)
{
    put_u64(b, n);
    buf_add(b, s, n);
}

static void begin(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    w->n_key++;
    put_str(&w->keys, key, strlen(key));
    put_u32(&w->keys, type);
}

void gguf_writer_str(struct gguf_writer *w, const char *key, const char *s)
{
    begin(w, key, GGUF_STRING);
    put_str(&w->keys, s, strlen(s));
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    begin(w, key, GGUF_U32);
    put_u32(&w->keys, v);
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float v)
{
    begin(w, key, GGUF_F32);
    gguf_writer_put_f32(w, v);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool v)
{
    begin(w, key, GGUF_BOOL);
    buf_char(&w->keys, v ? 1 : 0);
}

void gguf_writer_array(struct gguf_writer *w, const char *key, enum gguf_type of, uint64_t n)
{
    begin(w, key, GGUF_ARRAY);
    put_u32(&w->keys, of);
    put_u64(&w->keys, n);
}

void gguf_writer_put_str(struct gguf_writer *w, const char *s, size_t n)
{
    put_str(&w->keys, s, n);
}

void gguf_writer_put_i32(struct gguf_writer *w, int32_t v)
{
    buf_add(&w->keys, &v, sizeof v);
}

void gguf_writer_put_f32(struct gguf_writer *w, float v)
{
    buf_add(&w->keys, &v, sizeof v);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

void gguf_writer_add(struct gguf_writer *w, const char *name, uint32_t kind, int rank,
                     const int64_t *dim)
{
    const struct ggml_type *type = ggml_type_get(kind);
    uint64_t n = 1;
    ASSERT(!w->is_open && type && rank >= 1 && rank <= GGUF_MAX_RANK);
    put_str(&w->tensors, name, strlen(name));
    put_u32(&w->tensors, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--) {
        put_u64(&w->tensors, (uint64_t)dim[i]);
        n *= (uint64_t)dim[i];
    }
    put_u32(&w->tensors, kind);
    put_u64(&w->tensors, w->data_bytes);
    vec_push(&w->bytes, n / type->block * type->bytes);
    w->data_bytes += aligned(n / type->block * type->bytes);
    w->n_tensor++;
}

static int pad(struct gguf_writer *w, uint64_t n, struct err *e)
{
    static const char zeros[ALIGN];
    return aside_write(&w->out, zeros, aligned(n) - n, e);
}

int gguf_writer_open(struct gguf_writer *w, const char *path, struct err *e)
{
    struct buf head;
    if (buf_check(&w->keys, "the keys of a GGUF file", e) ||
        buf_check(&w->tensors, "the tensors of a GGUF file", e))
        return -1;
    buf_init(&head, ALIGN);
    buf_str(&head, "GGUF");
    put_u32(&head, VERSION);
    put_u64(&head, w->n_tensor);
    put_u64(&head, w->n_key);
    uint64_t n = head.len + w->keys.len + w->tensors.len;
    w->file_bytes = aligned(n) + w->data_bytes;
    w->is_open = true;
    int rc = aside_init(&w->out, path, e) || aside_reserve(&w->out, (int64_t)w->file_bytes, e) ||
                     aside_write(&w->out, head.data, head.len, e) ||
                     aside_write(&w->out, w->keys.data, w->keys.len, e) ||
                     aside_write(&w->out, w->tensors.data, w->tensors.len, e) || pad(w, n, e)
                 ? -1
                 : 0;
    buf_release(&head);
    return rc;
}

uint64_t gguf_writer_bytes(const struct gguf_writer *w)
{
    return w->file_bytes;
}

int gguf_writer_write(struct gguf_writer *w, const void *p, size_t n, struct err *e)
{
    ASSERT(w->is_open && w->at < w->bytes.n && n <= w->bytes.at[w->at] - w->done);
    if (aside_write(&w->out, p, n, e))
        return -1;
    w->done += n;
    if (w->done < w->bytes.at[w->at])
        return 0;
    w->done = 0;
    return pad(w, w->bytes.at[w->at++], e);
}

int gguf_writer_commit(struct gguf_writer *w, struct err *e)
{
    ASSERT(w->is_open && w->at == w->bytes.n);
    return aside_commit(&w->out, e);
}
