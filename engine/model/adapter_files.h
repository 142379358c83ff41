/* SPDX-License-Identifier: Apache-2.0
 *
 * A PEFT directory opened beside a model: which of its tensors are the halves of which product, all
 * of it checked by name and shape before a number is read. Serving makes an adapter of it, merging
 * other weights.
 *
 * Of a layer's experts there are two layouts. PEFT's target_parameters have all of them in a pair
 * of tensors: A [experts * rank, k], and B [outputs, rank * experts], in which the experts come by
 * turns; gate and up are one there. A module that holds two adapted parameters wraps them one
 * around the other, and names the inner one, gate and up, base_layer. Older ones have a pair for
 * each expert's gate, up and down; then gate and up become one of both ranks together.
 *
 * A matrix that the config's modules_to_save name is in the file under its module's own name. Where
 * it says use_dora a product has a magnitude for each of its outputs beside its halves.
 *
 * Thread: one opens it, any reads.
 */
#ifndef ENGINE_MODEL_ADAPTER_FILES_H
#define ENGINE_MODEL_ADAPTER_FILES_H

#include "engine/load/peft.h"
#include "engine/load/weights.h"
#include "engine/model/model.h"

enum { ADAPTER_MODULE_BYTES = 512 };

/* A module's tensors; NULL: not there. */
struct adapter_pair {
    const struct weight *a, *b;        /* borrowed from the file: [rank, k], [n, rank] */
    const struct weight *magnitude;    /* [n], where the config says use_dora */
    char module[ADAPTER_MODULE_BYTES]; /* with the prefix that the file has; "": not there */
};

/* A product's. */
struct adapter_halves {
    const struct param *param; /* borrowed from the model */
    struct adapter_pair all;
    struct adapter_pair *each; /* owned: [n_half] of gate, of up; or of down; NULL: none is there */
};

struct adapter_files {
    const struct model *m; /* borrowed */
    struct peft config;
    struct base_id base;                     /* what it says that it was trained over */
    struct weights *tensors;                 /* owned */
    struct adapter_halves *at;               /* owned: [n_lora] */
    const struct weight *saved[SAVED_COUNT]; /* borrowed from the file; NULL: not there */
};

/* After a failure, too, adapter_files_release. */
int adapter_files_init(struct adapter_files *f, const struct model *m, const char *dir,
                       struct err *e);
void adapter_files_release(struct adapter_files *f);

bool adapter_halves_are_there(const struct adapter_halves *h);
bool adapter_halves_are_bf16(const struct adapter_halves *h);
int64_t adapter_halves_rank(const struct adapter_files *f, const struct adapter_halves *h);
double adapter_files_scale(const struct adapter_files *f, const struct adapter_halves *h);

/* A half as f32, all of it finite, as engine/op/param.h has it; mem_free() it. */
float *adapter_half_read(const struct adapter_files *f, const struct adapter_halves *h, bool is_b,
                         struct err *e);

/* Magnitudes as f32, [n], all of them finite, where the config says use_dora; mem_free() them. */
float *adapter_magnitude_read(const struct adapter_halves *h, struct err *e);

/* Rows [row, row + n_row) of a matrix that is whole in the file, all of them finite. */
int adapter_saved_read(const struct adapter_files *f, enum saved s, int64_t row, int64_t n_row,
                       float *x, struct err *e);

/* Where PEFT's B of a layer's experts, [lora_n, rank * n_half], has what is weight (expert, output,
 * r) here. */
int64_t adapter_stack_at(const struct model *m, const struct param *p, int64_t rank, int64_t expert,
                         int64_t output, int64_t r);

/* The product that a parameter is a part of, and which of its lora_n / n * n_half parts; NULL: it
 * takes no adapter. */
const struct param *adapter_product_of(const struct model *m, const struct param *p, int64_t *at);

#endif
