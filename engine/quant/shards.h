/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of weights of a directory that is written: those of the model that it comes from, under
 * their names, with codes, scales and a shape in place of each matrix that becomes codes. All are
 * open at once, for matrices come in the order of layers and not of files, and their disk space is
 * taken before anything is computed.
 *
 * Thread: one at a time; shards_put_rows from any.
 */
#ifndef ENGINE_QUANT_SHARDS_H
#define ENGINE_QUANT_SHARDS_H

#include "engine/load/st_writer.h"
#include "engine/quant/plan.h"

struct shard {
    struct st_writer *out; /* owned */
    const char *name;      /* borrowed: of the file */
    size_t lo, hi;         /* tensors of the source */
};

struct shards {
    const struct quant_plan *plan; /* borrowed */
    const struct weights *from;    /* borrowed */
    VEC(struct shard) at;
};

/* Opens all files in dir, asides of their names. */
int shards_open(struct shards *s, const struct quant_plan *plan, const struct model_dir *from,
                const char *dir, struct err *e);
void shards_release(struct shards *s); /* what was not committed goes */

/* Every tensor that stays as it is. */
int shards_copy(struct shards *s, struct err *e);

/* n rows of a matrix from `row` on. */
int shards_put_rows(struct shards *s, const struct quant_entry *t, int64_t row, int64_t n,
                    const uint32_t *word, const float *scale, struct err *e);

/* All files under their names in dir, with the index where there are several; how many bytes their
 * tensors have. */
int shards_commit(struct shards *s, const char *dir, uint64_t *bytes, struct err *e);

#endif
