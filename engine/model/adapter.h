/* SPDX-License-Identifier: Apache-2.0
 *
 * A LoRA adapter: for some of a model's products two thin matrices, A [rank, k] and B [n, rank],
 * and the factor of their product. Loaded from a PEFT directory, checked name by name and shape by
 * shape against the base model, and then constant: a new version of an adapter is another struct
 * adapter with another version number, and whoever began with the old one keeps it.
 *
 * It may have whole matrices besides (engine/model/saved.h), packed as the model's are, where one
 * rank has the model and kernels read the host's memory; and, where one rank has it, a gain for
 * each output of a product (engine/model/dora.h).
 *
 * Where ranks share the model each has its part of the halves: A's columns and B's rows as the
 * product's inputs and outputs are shared.
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

/* What is known of a product's halves before their numbers: the same at every rank. */
struct adapter_product {
    int64_t rank; /* 0: this product has none */
    float scale;  /* of the product of the halves */
    bool is_bf16; /* f32 else */
    bool is_dora; /* outputs have gains */
};

/* What the rank that reads an adapter has to tell the others with which it shares the model. */
enum adapter_news_kind {
    ADAPTER_NEW,    /* `at` says what comes */
    ADAPTER_HALVES, /* of one product, whole: every rank takes its part of them */
    ADAPTER_READY,  /* fails where any rank could not take it */
    ADAPTER_GONE    /* nobody uses this version any more; told by any thread, and cannot fail */
};

struct adapter_news {
    enum adapter_news_kind kind;
    uint64_t version;
    int32_t product;
    const struct adapter_product *at; /* borrowed for the call: [n_lora] of all; of that product */
    const float *a, *b; /* borrowed for the call: [rank, k], [n, rank], of each expert if any */
};

typedef int adapter_news_fn(void *ctx, const struct adapter_news *n, struct err *e);

struct adapter_options {
    const char *name;              /* at most ADAPTER_NAME_BYTES - 1; what clients call it */
    uint64_t version;              /* above 0; what tells it apart from all others of the process */
    int64_t rank_max;              /* larger ones are refused: what a step has room for */
    struct adapter_budget *budget; /* borrowed: outlives the adapter */
    bool *lacks_room;              /* set where the budget has no room for it; NULL: nobody asks */
    adapter_news_fn *on_news;      /* NULL: nobody shares the model, or the others are told */
    void *news_ctx;                /* borrowed: outlives the adapter */
};

/* Reads adapter_config.json and adapter_model.safetensors of a directory. The caller holds one
 * reference. The model outlives it. */
struct adapter *adapter_load(const struct model *m, const char *dir,
                             const struct adapter_options *o, struct err *e);

/* The same in two steps, from numbers that come from elsewhere: room for this rank's part of each
 * product that `at` has ([n_lora]), and then a product's halves as f32, whole. */
struct adapter *adapter_new(const struct model *m, const struct adapter_product *at,
                            const struct adapter_options *o, struct err *e);
int adapter_fill(struct adapter *a, int32_t product, const float *half_a, const float *half_b,
                 struct err *e);

struct adapter *adapter_ref(struct adapter *a); /* returns a */
void adapter_unref(struct adapter *a);          /* NULL is fine */

bool adapter_is_idle(const struct adapter *a); /* who asks has the only reference */

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
