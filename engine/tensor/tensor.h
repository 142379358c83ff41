/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor: up to four dimensions of elements in a storage, as rows. dim[0] counts the rows; the
 * other dimensions lie densely in a row; ld elements lie from the begin of a row to the next. That
 * is what kernels read, and enough for every view that is taken here: some rows, some columns of a
 * joined product, heads split off a row.
 *
 * A tensor is a value and borrows its storage: copy it freely, keep a reference to the storage for
 * as long as any view is used.
 *
 * Views that the program takes of shapes it made itself cannot fail (a slice outside its tensor is
 * a fault of ours). What comes from outside is checked by tensor_check and tensor_reshape, which
 * say what was expected.
 *
 * Thread: any.
 */
#ifndef ENGINE_TENSOR_TENSOR_H
#define ENGINE_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/tensor/storage.h"
#include "kernels/kernels.h"

/* The kernels' types, and the indexes beside them. */
enum tensor_type {
    TENSOR_F32 = K_F32,
    TENSOR_BF16 = K_BF16,
    TENSOR_I32 = K_TYPE_COUNT,
    TENSOR_TYPE_COUNT
};

enum { TENSOR_DIM_MAX = 4, TENSOR_TEXT_BYTES = 128 };

struct tensor {
    struct storage *storage; /* borrowed */
    size_t offset;           /* bytes from the storage's begin */
    enum tensor_type type;
    int n_dim;                   /* 1 to TENSOR_DIM_MAX */
    int64_t dim[TENSOR_DIM_MAX]; /* 1 behind n_dim */
    int64_t ld;                  /* elements; at least those of a row */
};

const char *tensor_type_name(enum tensor_type t); /* "f32" */
size_t tensor_type_bytes(enum tensor_type t);

/* A dense view of a storage from a byte on; -1 when it would end past the storage, a dimension is
 * negative, the offset is not a multiple of the type, or a product overflows. */
int tensor_view(struct tensor *t, struct storage *s, size_t offset, enum tensor_type type,
                int n_dim, const int64_t *dim, struct err *e);

int64_t tensor_rows(const struct tensor *t);
int64_t tensor_cols(const struct tensor *t); /* elements of a row */
int64_t tensor_count(const struct tensor *t);
bool tensor_is_dense(const struct tensor *t);
void *tensor_data(const struct tensor *t); /* the device's; borrowed */

struct tensor tensor_slice_rows(const struct tensor *t, int64_t lo, int64_t hi);
struct tensor tensor_slice_cols(const struct tensor *t, int64_t lo, int64_t hi); /* of dim[1] */

/* Same elements, other dimensions: of any shape when dense, else with the same rows. */
int tensor_reshape(struct tensor *out, const struct tensor *t, int n_dim, const int64_t *dim,
                   struct err *e);

/* Whether t is of this type and shape; -1 in dim fits any size. `what` begins the error. */
int tensor_check(const struct tensor *t, const char *what, enum tensor_type type, int n_dim,
                 const int64_t *dim, struct err *e);

char *tensor_text(const struct tensor *t, char text[TENSOR_TEXT_BYTES]); /* "bf16 [2, 576]" */

#endif
