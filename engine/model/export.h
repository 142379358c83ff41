/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory written anew: the same files, tensors, types and shards as the one that it
 * comes from, with other numbers in some of its parameters. What has the numbers changes them row
 * by row, as f32, in the order of the file; they are rounded once, to the nearest, to the type that
 * the file has. Tensors that nobody changes are copied byte for byte, as are the config, the
 * tokenizer and the other small files.
 *
 * The folder is written aside and takes its name whole and synced.
 *
 * Thread: any.
 */
#ifndef ENGINE_MODEL_EXPORT_H
#define ENGINE_MODEL_EXPORT_H

#include "engine/model/model.h"

struct export_change {
    bool (*has)(void *ctx, const struct param *p);
    /* x: rows [row, row + n_row) of the parameter as they are in the file, to be changed in place;
     * where is_transposed rows are inputs, [k, n], else outputs, [n, k]. */
    int (*fill)(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e);
    void *ctx; /* borrowed */
};

/* Whether such a directory can be written anew, before a training for it begins. */
int model_export_check(const struct model_dir *from, struct err *e);

/* m has the shape of `from`; its weights are not read. `to` must not be there, or be empty. */
int model_export(const struct model_dir *from, const struct model *m, const char *to,
                 const struct export_change *change, struct err *e);

/* n numbers as they are rounded to the type that a file has, in place. */
const void *model_export_narrow(float *x, int64_t n, enum k_type type);

/* What changes weights by an adapter of theirs: W + scale * B A, in f32. m is borrowed. */
struct model_merge;
struct model_merge *model_merge_new(const struct model *m, const char *adapter, struct err *e);
void model_merge_free(struct model_merge *g); /* NULL is fine */
struct export_change model_merge_change(struct model_merge *g);

/* The weights with an adapter of theirs in them: W + scale * B A, in f32. */
int model_export_merged(const struct model_dir *from, const struct model *m, const char *adapter,
                        const char *to, struct err *e);

#endif
