/* SPDX-License-Identifier: Apache-2.0
 *
 * A PEFT directory opened beside a model: which of its tensors are the halves of which product, all
 * of it checked by name and shape before a number is read. Serving makes an adapter of it, merging
 * other weights.
 *
 * Thread: one opens it, any reads.
 */
#ifndef ENGINE_MODEL_ADAPTER_FILES_H
#define ENGINE_MODEL_ADAPTER_FILES_H

#include "engine/load/peft.h"
#include "engine/load/weights.h"
#include "engine/model/model.h"

enum { ADAPTER_MODULE_BYTES = 512 };

/* A product's two tensors; NULL: not there. */
struct adapter_halves {
    const struct param *param;         /* borrowed from the model */
    const struct weight *a, *b;        /* borrowed from the file: [rank, k], [n, rank] */
    char module[ADAPTER_MODULE_BYTES]; /* with the prefix that the file has; "": not there */
};

struct adapter_files {
    const struct model *m; /* borrowed */
    struct peft config;
    struct base_id base;       /* what it says that it was trained over */
    struct weights *tensors;   /* owned */
    struct adapter_halves *at; /* owned: [n_lora] */
};

/* After a failure, too, adapter_files_release. */
int adapter_files_init(struct adapter_files *f, const struct model *m, const char *dir,
                       struct err *e);
void adapter_files_release(struct adapter_files *f);

double adapter_files_scale(const struct adapter_files *f, const struct adapter_halves *h);

/* A half as f32, all of it finite; mem_free() it. */
float *adapter_half_read(const struct weight *w, struct err *e);

#endif
