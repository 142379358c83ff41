/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_header.h. Layout, all little-endian: "GGUF", u32 version, u64 tensors, u64 keys; per key
 * its string, u32 type, value; per tensor its string, u32 rank, u64 dimensions (the fastest first),
 * u32 kind, u64 offset; padding to the alignment; data. A string is u64 bytes and those; an array
 * u32 type, u64 elements and those.
 *
 * No count is believed: what it announces needs at least so many bytes, and those must be left.
 */
#include "engine/load/gguf_header.h"

#include <stdlib.h>
#include <string.h>

#include "engine/load/gguf_file.h"
#include "engine/load/st_header.h"

enum {
    MAX_KEY_BYTES = 1 << 16,
    KEY_BYTES_MIN = 8 + 4 + 1,
    TENSOR_BYTES_MIN = 8 + 4 + 8 + 4 + 8,
    ALIGN_DEFAULT = 32,
};

static const uint8_t type_bytes[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

struct header {
    struct gguf *g;
    struct gguf_file *f;
    struct gguf_header *out;
    struct err *e;
};

static int fail(const struct header *h, enum err_code code, const char *what, const char *why)
{
    return err_set(h->e, code, "%s: %.200s: %s", h->f->disk.name, what, why);
}

static int take_u32(struct header *h, const char *what, uint32_t *out)
{
    return gguf_file_take(h->f, out, sizeof *out, what, h->e);
}

static int take_u64(struct header *h, const char *what, uint64_t *out)
{
    return gguf_file_take(h->f, out, sizeof *out, what, h->e);
}

/* How many things of at least `min` bytes follow. */
static int take_count(struct header *h, const char *what, size_t min, uint64_t most, uint64_t *n)
{
    if (take_u64(h, what, n))
        return -1;
    if (*n > gguf_file_left(h->f) / min)
        return err_set(h->e, ERR_BAD_INPUT,
                       "%s: %.200s: %llu do not fit in the %llu bytes that are left",
                       h->f->disk.name, what, (unsigned long long)*n,
                       (unsigned long long)gguf_file_left(h->f));
    if (*n > most)
        return err_set(h->e, ERR_TOO_LARGE, "%s: %.200s: %llu are more than %llu", h->f->disk.name,
                       what, (unsigned long long)*n, (unsigned long long)most);
    return 0;
}

static void *keep(struct header *h, size_t n, size_t size)
{
    void *p = arena_try(&h->g->arena, n, size, h->e);
    if (!p)
        err_wrap(h->e, "%s", h->f->disk.name);
    return p;
}

static int take_string(struct header *h, const char *what, uint64_t most, struct gguf_str *s)
{
    uint64_t n;
    if (take_count(h, what, 1, most, &n))
        return -1;
    char *p = keep(h, (size_t)n + 1, 1);
    if (!p || gguf_file_take(h->f, p, (size_t)n, what, h->e))
        return -1;
    *s = (struct gguf_str){p, (size_t)n};
    return 0;
}

/* Keys and names are shown and logged. */
static int take_name(struct header *h, const char *what, uint64_t most, const char **name)
{
    struct gguf_str s;
    if (take_string(h, what, most, &s))
        return -1;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return fail(h, ERR_BAD_INPUT, what, "a name with a control character");
    *name = s.p;
    return s.n ? 0 : fail(h, ERR_BAD_INPUT, what, "an empty name");
}

/* ---- metadata ------------------------------------------------------------------------------ */

static int take_scalar(struct header *h, struct gguf_value *v)
{
    uint8_t b[8] = {0};
    size_t n = type_bytes[v->type];
    float f;
    if (gguf_file_take(h->f, b, n, v->key, h->e))
        return -1;
    memcpy(&v->u, b, sizeof v->u);
    if (v->type == GGUF_BOOL && v->u > 1)
        return fail(h, ERR_BAD_INPUT, v->key, "a bool that is neither 0 nor 1");
    if (v->type == GGUF_I8)
        v->i = (int8_t)b[0];
    if (v->type == GGUF_I16)
        v->i = (int16_t)(b[0] | b[1] << 8);
    if (v->type == GGUF_I32)
        v->i = (int32_t)(uint32_t)v->u;
    if (v->type == GGUF_F32) {
        memcpy(&f, b, sizeof f);
        v->f = (double)f;
    }
    return 0;
}

static int take_strings(struct header *h, struct gguf_value *v)
{
    struct gguf_str *s = keep(h, v->n ? v->n : 1, sizeof *s);
    if (!s)
        return -1;
    for (size_t i = 0; i < v->n; i++)
        if (take_string(h, v->key, UINT32_MAX, &s[i]))
            return -1;
    v->strings = s;
    return 0;
}

static int take_array(struct header *h, struct gguf_value *v)
{
    uint32_t of;
    uint64_t n;
    if (take_u32(h, v->key, &of))
        return -1;
    if (of >= GGUF_TYPE_COUNT)
        return fail(h, ERR_BAD_INPUT, v->key, "an array of an unknown type");
    if (of == GGUF_ARRAY)
        return fail(h, ERR_UNSUPPORTED, v->key, "arrays of arrays are not supported");
    size_t size = of == GGUF_STRING ? 8 : type_bytes[of];
    if (take_count(h, v->key, size, UINT32_MAX, &n))
        return -1;
    v->of = (enum gguf_type)of;
    v->n = (size_t)n;
    if (of == GGUF_STRING)
        return take_strings(h, v);
    uint8_t *p = keep(h, v->n ? v->n : 1, size);
    v->bytes = p;
    return p ? gguf_file_take(h->f, p, v->n * size, v->key, h->e) : -1;
}

static int take_value(struct header *h)
{
    struct gguf_value *v = keep(h, 1, sizeof *v);
    uint32_t type;
    if (!v || take_name(h, "a key", MAX_KEY_BYTES, &v->key) || take_u32(h, v->key, &type))
        return -1;
    if (type >= GGUF_TYPE_COUNT)
        return fail(h, ERR_BAD_INPUT, v->key, "a value of an unknown type");
    v->type = (enum gguf_type)type;
    int rc = type == GGUF_STRING  ? take_string(h, v->key, UINT32_MAX, &v->s)
             : type == GGUF_ARRAY ? take_array(h, v)
                                  : take_scalar(h, v);
    if (rc)
        return -1;
    if (map_put_str(&h->out->by_key, v->key, v))
        return fail(h, ERR_BAD_INPUT, v->key, "the key stands twice");
    return 0;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int take_dims(struct header *h, struct gguf_tensor *t, uint64_t *n)
{
    uint32_t rank;
    *n = 1;
    if (take_u32(h, t->name, &rank))
        return -1;
    if (rank < 1 || rank > GGUF_MAX_RANK)
        return fail(h, ERR_BAD_INPUT, t->name, "expected 1 to 4 dimensions");
    t->rank = (int)rank;
    for (int i = t->rank - 1; i >= 0; i--) {
        uint64_t d;
        if (take_u64(h, t->name, &d))
            return -1;
        if (d < 1 || d > INT64_MAX || __builtin_mul_overflow(*n, d, n))
            return fail(h, ERR_BAD_INPUT, t->name, "a dimension of 0, or more than there can be");
        t->dim[i] = (int64_t)d;
    }
    return 0;
}

static int take_tensor(struct header *h, struct gguf_tensor *t)
{
    uint32_t kind;
    uint64_t n;
    t->file = h->f;
    if (take_name(h, "a tensor", ST_MAX_NAME_BYTES, &t->name) || take_dims(h, t, &n) ||
        take_u32(h, t->name, &kind) || take_u64(h, t->name, &t->begin))
        return -1;
    t->type = ggml_type_get(kind);
    if (!t->type)
        return err_set(h->e, ERR_UNSUPPORTED, "%s: %.200s: numbers of kind %u are not known",
                       h->f->disk.name, t->name, kind);
    if ((uint64_t)t->dim[t->rank - 1] % t->type->block)
        return err_set(h->e, ERR_BAD_INPUT, "%s: %.200s: rows of %lld are no whole blocks of %s",
                       h->f->disk.name, t->name, (long long)t->dim[t->rank - 1], t->type->name);
    if (__builtin_mul_overflow(n / t->type->block, (uint64_t)t->type->bytes, &t->bytes))
        return fail(h, ERR_BAD_INPUT, t->name, "more bytes than there can be");
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* In order of place each begins aligned where the one before ended, and ends within the file. */
static int check_places(struct header *h, uint64_t align)
{
    uint64_t room = h->f->disk.bytes > h->f->data ? h->f->disk.bytes - h->f->data : 0, at = 0;
    for (size_t i = 0; i < h->out->n_tensor; i++) {
        const struct gguf_tensor *t = &h->out->tensor[i];
        if (t->begin % align)
            return err_set(h->e, ERR_BAD_INPUT,
                           "%s: %.200s: begins at byte %llu of the data, not aligned to %llu",
                           h->f->disk.name, t->name, (unsigned long long)t->begin,
                           (unsigned long long)align);
        if (t->begin != at)
            return err_set(h->e, ERR_BAD_INPUT,
                           "%s: %.200s: %s: begins at byte %llu, expected %llu", h->f->disk.name,
                           t->name,
                           t->begin < at ? "overlaps another tensor" : "a gap lies before it",
                           (unsigned long long)t->begin, (unsigned long long)at);
        if (t->begin > room || t->bytes > room - t->begin)
            return err_set(h->e, ERR_BAD_INPUT,
                           "%s: %.200s: ends past the file, whose data has %llu bytes: the file is "
                           "cut short, or lies",
                           h->f->disk.name, t->name, (unsigned long long)room);
        at = (t->begin + t->bytes + align - 1) / align * align;
    }
    return 0;
}

static int take_align(const struct header *h, uint64_t *align)
{
    const struct gguf_value *v = map_get_str(&h->out->by_key, "general.alignment");
    *align = ALIGN_DEFAULT;
    if (!v)
        return 0;
    if (v->type != GGUF_U32 || v->u < 1 || v->u > GGUF_MAX_ALIGN || (v->u & (v->u - 1)))
        return fail(h, ERR_BAD_INPUT, v->key, "expected a power of two up to 65536, as a u32");
    *align = v->u;
    return 0;
}

static int take_version(struct header *h)
{
    char magic[4];
    uint32_t version;
    if (gguf_file_take(h->f, magic, sizeof magic, "the header", h->e) ||
        take_u32(h, "the header", &version))
        return -1;
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return err_set(h->e, ERR_BAD_INPUT, "%s: does not begin with GGUF", h->f->disk.name);
    if (version == 2 || version == 3)
        return 0;
    if (version == UINT32_C(2) << 24 || version == UINT32_C(3) << 24)
        return err_set(h->e, ERR_UNSUPPORTED, "%s: a big-endian file; little-endian ones are read",
                       h->f->disk.name);
    return err_set(h->e, ERR_UNSUPPORTED, "%s: version %u is not supported; 2 and 3 are",
                   h->f->disk.name, version);
}

int gguf_header_read(struct gguf *g, struct gguf_file *f, struct gguf_header *out, struct err *e)
{
    struct header h = {.g = g, .f = f, .out = out, .e = e};
    uint64_t n_tensor, n_key, align;
    if (take_version(&h) || take_count(&h, "tensors", TENSOR_BYTES_MIN, ST_MAX_TENSOR, &n_tensor) ||
        take_count(&h, "keys", KEY_BYTES_MIN, GGUF_MAX_KEYS, &n_key))
        return -1;
    for (uint64_t i = 0; i < n_key; i++)
        if (take_value(&h))
            return -1;
    out->n_tensor = (size_t)n_tensor;
    out->tensor = keep(&h, out->n_tensor ? out->n_tensor : 1, sizeof *out->tensor);
    if (!out->tensor || take_align(&h, &align))
        return -1;
    for (size_t i = 0; i < out->n_tensor; i++)
        if (take_tensor(&h, &out->tensor[i]))
            return -1;
    f->data = (f->at + align - 1) / align * align;
    qsort(out->tensor, out->n_tensor, sizeof *out->tensor, by_place);
    gguf_file_header_done(f);
    return check_places(&h, align);
}
