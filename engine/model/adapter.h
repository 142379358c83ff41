/* SPDX-License-Identifier: Apache-2.0
 *
 * A LoRA adapter: for some of a model's products two thin matrices, A [rank, k] and B [n, rank],
 * and the factor of their product. Loaded from a PEFT directory, checked name by name and shape by
 * shape against the base model, and then constant: a new version of an adapter is another struct
 * adapter with another version number, and whoever began with the old one keeps it.
 *
 * Adapters are never merged into the weights: a step runs rows of any number of adapters, and rows
 * without one, over the same packed model (op `lora`).
 *
 * Thread: constant; references are counted atomically, so from any.
 */
#ifndef ENGINE_MODEL_ADAPTER_H
#define ENGINE_MODEL_ADAPTER_H

#include <stdatomic.h>

#include "engine/model/model.h"
#include "engine/op/batch.h"

enum { ADAPTER_NAME_BYTES = 256 };

struct adapter;

/* Device memory that adapters share: those that are alive never hold more than bytes_max. */
struct adapter_budget {
    size_t bytes_max;
    atomic_size_t bytes;
};

struct adapter_options {
    const char *name;              /* at most ADAPTER_NAME_BYTES - 1; what clients call it */
    uint64_t version;              /* above 0; what tells it apart from all others of the process */
    int64_t rank_max;              /* larger ones are refused: what a step has room for */
    struct adapter_budget *budget; /* borrowed: outlives the adapter */
};

/* Reads adapter_config.json and adapter_model.safetensors of a directory. The caller holds one
 * reference. The model outlives it. */
struct adapter *adapter_load(const struct model *m, const char *dir,
                             const struct adapter_options *o, struct err *e);

struct adapter *adapter_ref(struct adapter *a); /* returns a */
void adapter_unref(struct adapter *a);          /* NULL is fine */

const char *adapter_name(const struct adapter *a);
uint64_t adapter_version(const struct adapter *a);
int64_t adapter_rank(const struct adapter *a);    /* the largest of its products */
int64_t adapter_created(const struct adapter *a); /* seconds since 1970 */
size_t adapter_bytes(const struct adapter *a);    /* device memory */

/* Rows [row_lo, row_hi) of the batch run with the adapter (NULL: the model alone), as group number
 * `group`. A batch's groups ascend in rows, and batch.n[DIM_GROUP] counts them; it may be 0 where
 * no row has an adapter. */
void adapter_group(const struct model *m, const struct adapter *a, int64_t row_lo, int64_t row_hi,
                   struct batch *b, int64_t group);

#endif
