/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of no file: bf16 numbers out of one table, at a place that follows from the tensor's
 * name, so that reading is copying. Matrices have a deviation of 1/64, whatever their width, and
 * vectors are ones: enough for a shape to be measured with numbers like those of a model.
 *
 * Thread: any; a table and what was drawn are constant.
 */
#ifndef ENGINE_LOAD_DRAWN_H
#define ENGINE_LOAD_DRAWN_H

#include "engine/load/weights.h"

struct drawn {
    struct weight weight; /* of t */
    struct st_tensor t;
    int64_t dim[ST_MAX_RANK];
    char name[ST_MAX_NAME_BYTES];
};

uint16_t *drawn_numbers_new(struct err *e); /* mem_free */

/* `numbers` is borrowed; free() ends it. */
struct drawn *drawn_new(const uint16_t *numbers, const char *name, int rank, const int64_t *dim);

/* Elements [at, at + n); 0, as reads of a file answer. */
int drawn_read(const struct weight *w, int64_t at, int64_t n, void *dst);

#endif
