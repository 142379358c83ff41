/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes and views. All products of outside numbers are checked where a view is made; from then on
 * a tensor's elements are known to lie in its storage, and the rest is plain arithmetic.
 */
#include "engine/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "kernels/format.h"

const char *tensor_type_name(enum tensor_type t)
{
    return t == TENSOR_I32 ? "i32" : k_format((enum k_type)t)->name;
}

size_t tensor_type_bytes(enum tensor_type t)
{
    return t == TENSOR_I32 ? sizeof(int32_t) : k_type_bytes((enum k_type)t);
}

static char *shape_text(char text[TENSOR_TEXT_BYTES], int n_dim, const int64_t *dim)
{
    int at = snprintf(text, TENSOR_TEXT_BYTES, "[");
    for (int i = 0; i < n_dim && i < TENSOR_DIM_MAX; i++) {
        if (dim[i] == -1)
            at += snprintf(text + at, TENSOR_TEXT_BYTES - (size_t)at, "%s*", i ? ", " : "");
        else
            at += snprintf(text + at, TENSOR_TEXT_BYTES - (size_t)at, "%s%" PRId64, i ? ", " : "",
                           dim[i]);
    }
    snprintf(text + at, TENSOR_TEXT_BYTES - (size_t)at, "]");
    return text;
}

char *tensor_text(const struct tensor *t, char text[TENSOR_TEXT_BYTES])
{
    char shape[TENSOR_TEXT_BYTES];
    snprintf(text, TENSOR_TEXT_BYTES, "%s %.100s", tensor_type_name(t->type),
             shape_text(shape, t->n_dim, t->dim));
    return text;
}

/* Checks dimensions, fills those behind the last, and multiplies them. */
static int take_dims(struct tensor *t, int n_dim, const int64_t *dim, int64_t *count, struct err *e)
{
    if (n_dim < 1 || n_dim > TENSOR_DIM_MAX)
        return err_set(e, ERR_BAD_INPUT, "%d dimensions: 1 to %d are possible", n_dim,
                       TENSOR_DIM_MAX);
    char text[TENSOR_TEXT_BYTES];
    int64_t cols = 1;
    t->n_dim = n_dim;
    for (int i = 0; i < TENSOR_DIM_MAX; i++) {
        t->dim[i] = i < n_dim ? dim[i] : 1;
        if (t->dim[i] < 0)
            return err_set(e, ERR_BAD_INPUT, "shape %s: a negative dimension",
                           shape_text(text, n_dim, dim));
        if (i && __builtin_mul_overflow(cols, t->dim[i], &cols))
            return err_set(e, ERR_TOO_LARGE, "shape %s: too large", shape_text(text, n_dim, dim));
    }
    if (__builtin_mul_overflow(cols, t->dim[0], count))
        return err_set(e, ERR_TOO_LARGE, "shape %s: too large", shape_text(text, n_dim, dim));
    t->ld = cols;
    return 0;
}

int tensor_view(struct tensor *t, struct storage *s, size_t offset, enum tensor_type type,
                int n_dim, const int64_t *dim, struct err *e)
{
    int64_t count;
    size_t bytes, end;
    struct tensor v = {.storage = s, .offset = offset, .type = type};
    if (take_dims(&v, n_dim, dim, &count, e))
        return -1;
    char text[TENSOR_TEXT_BYTES];
    if (offset % tensor_type_bytes(type))
        return err_set(e, ERR_BAD_INPUT, "%s at byte %zu: not a multiple of the element",
                       tensor_text(&v, text), offset);
    if (__builtin_mul_overflow((size_t)count, tensor_type_bytes(type), &bytes) ||
        __builtin_add_overflow(offset, bytes, &end) || end > storage_bytes(s))
        return err_set(e, ERR_BAD_INPUT, "%s at byte %zu: ends past the %zu bytes there are",
                       tensor_text(&v, text), offset, storage_bytes(s));
    *t = v;
    return 0;
}

int64_t tensor_rows(const struct tensor *t)
{
    return t->dim[0];
}

int64_t tensor_cols(const struct tensor *t)
{
    return t->dim[1] * t->dim[2] * t->dim[3];
}

int64_t tensor_count(const struct tensor *t)
{
    return tensor_rows(t) * tensor_cols(t);
}

bool tensor_is_dense(const struct tensor *t)
{
    return t->ld == tensor_cols(t) || t->dim[0] <= 1;
}

void *tensor_data(const struct tensor *t)
{
    return (char *)storage_data(t->storage) + t->offset;
}

struct tensor tensor_slice_rows(const struct tensor *t, int64_t lo, int64_t hi)
{
    ASSERT(0 <= lo && lo <= hi && hi <= t->dim[0]);
    struct tensor v = *t;
    v.offset += (size_t)(lo * t->ld) * tensor_type_bytes(t->type);
    v.dim[0] = hi - lo;
    return v;
}

struct tensor tensor_slice_cols(const struct tensor *t, int64_t lo, int64_t hi)
{
    ASSERT(t->n_dim > 1 && 0 <= lo && lo <= hi && hi <= t->dim[1]);
    struct tensor v = *t;
    v.offset += (size_t)(lo * t->dim[2] * t->dim[3]) * tensor_type_bytes(t->type);
    v.dim[1] = hi - lo;
    return v;
}

int tensor_reshape(struct tensor *out, const struct tensor *t, int n_dim, const int64_t *dim,
                   struct err *e)
{
    int64_t count;
    struct tensor v = *t;
    char from[TENSOR_TEXT_BYTES], to[TENSOR_TEXT_BYTES];
    if (take_dims(&v, n_dim, dim, &count, e))
        return -1;
    if (count != tensor_count(t))
        return err_set(e, ERR_BAD_INPUT, "%s cannot become %s: other number of elements",
                       tensor_text(t, from), shape_text(to, n_dim, dim));
    if (!tensor_is_dense(t)) {
        if (v.dim[0] != t->dim[0])
            return err_set(e, ERR_BAD_INPUT, "%s cannot become %s: its rows do not lie together",
                           tensor_text(t, from), shape_text(to, n_dim, dim));
        v.ld = t->ld;
    }
    *out = v;
    return 0;
}

int tensor_check(const struct tensor *t, const char *what, enum tensor_type type, int n_dim,
                 const int64_t *dim, struct err *e)
{
    bool fits = t->type == type && t->n_dim == n_dim;
    for (int i = 0; fits && i < n_dim; i++)
        fits = dim[i] == -1 || dim[i] == t->dim[i];
    if (fits)
        return 0;
    char have[TENSOR_TEXT_BYTES], want[TENSOR_TEXT_BYTES];
    return err_set(e, ERR_BAD_INPUT, "%s: expected %s %s, found %s", what, tensor_type_name(type),
                   shape_text(want, n_dim, dim), tensor_text(t, have));
}
