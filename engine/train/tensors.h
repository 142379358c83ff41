/* SPDX-License-Identifier: Apache-2.0
 *
 * What is trained: a list of f32 tensors with their gradients and moments, which lie in flat arrays
 * in the list's order.
 *
 * No value stands twice. An adapter's halves have theirs in a flat array. A parameter of the model
 * is its own value: a vector as it is, a matrix as it is packed for products; where that is bf16,
 * the halves that it lacks of f32 lie in a flat array (kernels/halves.h). Who wants to see numbers
 * asks engine/train/value.h.
 *
 * The gradients of a model's matrices are late (engine/op/param.h), and share a step's memory with
 * the values that are given back while they come.
 *
 * Moments may be kept as codes of 8 bits (kernels/moments.h) in place of f32: a quarter, and a
 * little, of 8 bytes for each element. Then tensors, and what ranks have of the moments, begin
 * between their blocks.
 *
 * Ranks. The list is the same at all ranks; of each tensor a rank has the part that its part of the
 * model needs. What products read of a part, and its gradients, are at every rank of its data
 * group; of the moments, and of low halves, each keeps those of a run of the flat arrays, [own_lo,
 * own_hi), and updates these values. Runs end between panels, so that a run of the model's
 * parameters is one of its memory, too.
 *
 * Made in two steps: tensors are added, then get memory, all zeros.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_TENSORS_H
#define ENGINE_TRAIN_TENSORS_H

#include "engine/base/vec.h"
#include "engine/device/device.h"
#include "engine/model/part.h"
#include "engine/train/ranks.h"

enum { TRAIN_ALIGN = 16 }; /* elements, between which tensors begin in the flat arrays */

/* What a tensor is of a parameter: it, or a half of its adapter, or that one's magnitudes, which
 * are counted among its halves. */
enum train_side { TRAIN_SELF, TRAIN_HALF_A, TRAIN_HALF_B, TRAIN_MAGNITUDE };

struct train_tensor {
    char *name;             /* owned */
    const struct param *of; /* borrowed: as all ranks have it */
    enum train_side side;
    int64_t rank;       /* of a half */
    int64_t rows, cols; /* here */
    bool decays;
    bool is_shared;         /* every rank of the model has all of it */
    bool sums_grad;         /* and a part of its gradient */
    struct param *param;    /* borrowed: whose value it is; NULL: a half's is its own */
    int64_t at;             /* its place in the flat arrays */
    float *p;               /* value, in the device's memory; NULL: a matrix, which is packed */
    float *g;               /* gradient, row-major; NULL: late */
    struct param_late late; /* param's, where it is a matrix */
};

enum train_array { TRAIN_VALUE, TRAIN_MOMENT1, TRAIN_MOMENT2, TRAIN_ARRAYS };

struct train_tensors {
    struct device *device;           /* borrowed */
    struct op_ranks model;           /* who shares the model, and which of them this is */
    const struct param_share *share; /* borrowed: by index; NULL: nobody */
    struct train_ranks ranks;
    VEC(struct train_tensor) list;
    float *p;       /* in block: [n_half] of halves, which stand first, else NULL; gaps between
                     * tensors are zeros and stay so, here and below */
    float *m, *v;   /* in block: [own_hi - own_lo], of the elements from own_lo on; NULL: */
    bool has_codes; /* set before alloc: they are codes */
    uint8_t *code[2], *power[2]; /* in block: of m, of v; a power for each K_MOMENT of them */
    uint16_t *low;               /* in block: as many; NULL: no value lacks any */
    float *g;                    /* in block: [n_elem - n_late], of those that are not late */
    int64_t n_elem, n_late;      /* of all; of those whose gradient is late */
    int64_t n_half;              /* of an adapter's halves; n_elem: there is nothing else */
    int64_t own_lo, own_hi;      /* this data rank's */
    void *block;                 /* owned */
    size_t bytes, moment_bytes;  /* of all, of moments */
};

void train_tensors_init(struct train_tensors *t, struct device *d);
void train_tensors_release(struct train_tensors *t);

/* Copies x, and its name; rows, cols and the rest follow. */
void train_tensors_add(struct train_tensors *t, const struct train_tensor *x);
int train_tensors_alloc(struct train_tensors *t, struct err *e);

/* What of a tensor rank `rank` of those that share the model has; a half's outputs are its rows. */
struct part train_tensor_part(const struct train_tensors *t, const struct train_tensor *x,
                              int rank);

/* Places of all tensors in the flat arrays of rank `rank` of the model; returns its n_elem. */
int64_t train_tensors_place(const struct train_tensors *t, int rank, int64_t *at);

/* Whether all values stand one behind the other. */
static inline bool train_tensors_is_flat(const struct train_tensors *t)
{
    return t->p && t->n_half == t->n_elem;
}

/* The first element of data rank d of rank `rank` of the model, whose tensors are placed so; behind
 * the last rank's, n_elem. */
int64_t train_tensors_cut(const struct train_tensors *t, int rank, const int64_t *at,
                          int64_t n_elem, int d);

/* Elements between which tensors begin here. */
int64_t train_tensors_align(const struct train_tensors *t);

/* Where the value begins of element i of the flat arrays, at which a rank's run begins or ends. */
void *train_tensors_value_at(const struct train_tensors *t, int64_t i);

/* Whether the low halves of its values are kept in train_tensors.low. */
bool train_tensor_has_low(const struct train_tensor *x);
/* The gradient of one, late or not; NULL: it is late and there is none. */
float *train_tensor_grad(const struct train_tensor *x);

struct train_tensor *train_tensors_get(const struct train_tensors *t,
                                       const char *name); /* or NULL */

#endif
