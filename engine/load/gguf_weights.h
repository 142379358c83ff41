/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a GGUF file as the model's parameters: under the names, shapes and orders of rows
 * that a Hugging Face directory has. Llama's queries and keys are turned back from the order in
 * which llama.cpp keeps the halves of a head.
 *
 * What a tensor's numbers are read as is the narrowest of BF16, F16 and F32 that holds each of them
 * exactly: of a quantised tensor the blocks are looked at until one says that it must be F32, which
 * real ones do at once.
 *
 * Thread: one makes it, any reads.
 */
#ifndef ENGINE_LOAD_GGUF_WEIGHTS_H
#define ENGINE_LOAD_GGUF_WEIGHTS_H

#include "engine/load/gguf.h"
#include "engine/load/gguf_names.h"
#include "engine/load/weights.h"

/* Where heads of the file stand in another order than ours. */
struct gguf_heads {
    enum gguf_order order;
    int64_t head, lo;      /* numbers of a head; where the first of them is */
    int64_t n_group, each; /* heads of keys; those of values to one of them */
};

struct gguf_weight {
    struct st_tensor t; /* as it is read: bytes [0, end) of its dtype */
    const struct gguf_tensor *from;
    struct gguf_heads heads;
    enum gguf_change change;
    enum k_type coded; /* the format whose codes it can be read as; K_F32: none */
    uint64_t first;    /* of the tensor's numbers: an expert's in a stack of all of them */
    int64_t dim[ST_MAX_RANK];
    char name[ST_MAX_NAME_BYTES];
};

/* By file, then by place, [*n], in g's arena; g is the caller's. */
struct gguf_weight *gguf_weights_new(struct gguf *g, size_t *n, struct err *e);

/* The row of a head of d that stands as row `row` of a file that permutes them. */
int64_t gguf_row_at(int64_t row, int32_t d);

/* n elements from column col of row `row` on, over as many rows as that takes, of t's dtype. */
int gguf_weight_read(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n, void *dst,
                     struct err *e);

/* The same, whole blocks of codes as they are (kernels/coded.h); of a kind that has some. */
int gguf_weight_read_coded(const struct gguf_weight *w, int64_t row, int64_t col, int64_t n,
                           void *dst, struct err *e);

#endif
