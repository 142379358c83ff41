/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a model directory: model.safetensors, or the shards that
 * model.safetensors.index.json names, as one set of named tensors. Opening reads headers only, so
 * it is also how a model is sized without its data. Files stay open until weights_close; tensors
 * are borrowed from the set.
 *
 * A weight is read by rows (its first dimension), raw or as f32, into the caller's buffer: packing
 * a matrix reads some panels' rows at a time and never holds a second copy of it.
 *
 * The tensors of a GGUF file look the same: under the names, shapes and orders that a directory
 * has, read as the narrowest numbers that hold theirs exactly (gguf_weights.h).
 *
 * So does a matrix that stands in the files as codes and scales (packed_weight.h): it is found by
 * its own name, beside the parts that the files have.
 *
 * And so do experts of which a layer has one tensor (stacked_weight.h): each by its own name.
 *
 * Weights can also be drawn instead of read (weights_random), to measure a shape whose files would
 * not fit anywhere: whatever is wanted is then there.
 *
 * Thread: one opens; any number may look up and read. Random ones: one thread wants.
 */
#ifndef ENGINE_LOAD_WEIGHTS_H
#define ENGINE_LOAD_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/load/safetensors.h"

struct gguf_weight;
struct packed_weight;
struct packing;
struct stacked_weight;
struct weights;

struct weight {
    const struct st_tensor *t;          /* borrowed: name, dtype, shape */
    const struct st_file *file;         /* borrowed; NULL: of no safetensors file */
    const struct gguf_weight *gguf;     /* borrowed; NULL: of no GGUF file */
    const struct packed_weight *packed; /* borrowed; NULL: no matrix of packed codes */
    const struct stacked_weight *stack; /* borrowed; NULL: no expert's part of a layer's tensor */
    const uint16_t *drawn;              /* borrowed: numbers of which a drawn one is made */
};

struct weights *weights_open(const char *dir, struct err *e);
/* Where a config says how matrices are packed. */
struct weights *weights_open_packed(const char *dir, const struct packing *how, struct err *e);
/* A file in a folder of the directory: its tensors are called by the prefix and their names. */
struct weights_module {
    const char *folder, *prefix; /* borrowed */
};
struct weights *weights_open_with(const char *dir, const struct packing *how,
                                  const struct weights_module *module, size_t n, struct err *e);
struct weights *weights_open_file(const char *path, struct err *e); /* one file of any name */
struct weights *weights_open_gguf(const char *path, struct err *e); /* with its parts */
struct weights *weights_random(struct err *e);
void weights_close(struct weights *w);

size_t weights_count(const struct weights *w);    /* as the files have them: parts, no matrices */
bool weights_are_packed(const struct weights *w); /* some of them, in codes and scales */
const struct weight *weights_at(const struct weights *w, size_t i); /* by file, then by place */
const struct weight *weights_get(const struct weights *w, const char *name); /* NULL: none */
/* The matrices and vectors that a tensor of these stacks (stacked_weight.h), an expert's one behind
 * the other: [*n]; none: NULL. */
const struct weight *weights_stacked(const struct weights *w, const struct weight *of, size_t *n);
/* One whose numbers are less than a byte each; NULL: there is none. Nothing is written of these. */
const struct weight *weights_with_bits(const struct weights *w);
uint64_t weights_bytes(const struct weights *w); /* of all tensors' data */
void weights_prefetch(const struct weights *w);

/* The tensor of this name, which must have this shape and be F32, F16 or BF16. */
int weights_want(struct weights *w, const char *name, int rank, const int64_t *dim,
                 const struct weight **out, struct err *e);

/* Rows [row, row + n_row) of the first dimension; a scalar or a vector's elements are rows of one.
 * dst holds n_row * weight_row_bytes. */
int64_t weight_rows(const struct weight *w);
size_t weight_row_bytes(const struct weight *w);
int64_t weight_row_len(const struct weight *w);       /* elements */
int64_t weight_rows_together(const struct weight *w); /* that had better be read at once */
int weight_read(const struct weight *w, int64_t row, int64_t n_row, void *dst, struct err *e);
int weight_read_f32(const struct weight *w, int64_t row, int64_t n_row, float *dst, struct err *e);

/* n elements from column `col` of row `row` on. */
int weight_read_at(const struct weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                   struct err *e);

/* The format whose codes the file has for it (kernels/coded.h), so that they become a weight as
 * they are; K_F32: none. And n of them from column `col` of row `row` on, whole blocks. */
enum k_type weight_coded(const struct weight *w);
int64_t weight_coded_inputs(const struct weight *w); /* of a block; what is read is whole ones */
int weight_read_coded(const struct weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                      struct err *e);
/* The input of each code of a row, where codes come in another order than numbers; NULL: they do
 * not. */
const int32_t *weight_order(const struct weight *w);

const char *weight_file_name(const struct weight *w); /* for errors, and for what is written anew */

/* n bytes from byte `at` of [0, weight_stored_bytes) on, as the file has them, of one that is not
 * drawn. */
int weight_read_stored(const struct weight *w, uint64_t at, void *dst, size_t n, struct err *e);
uint64_t weight_stored_bytes(const struct weight *w);
enum k_type weight_k_type(const struct weight *w); /* of a weight that weights_want gave */

#endif
