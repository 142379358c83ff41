/* SPDX-License-Identifier: Apache-2.0
 *
 * What is trained: a list of f32 tensors with their gradients and moments. All of them lie in flat
 * arrays, those with decay first, so that a checkpoint is a walk over names. The gradients of a
 * model's matrices do not: they are late (engine/op/param.h), and share a step's memory with the
 * values that are given back while they come.
 *
 * Ranks. The list is the same at all ranks; of each tensor a rank has the part that its part of the
 * model needs. Values and gradients of a part are at every rank of its data group; of the moments
 * each keeps those of a run of the flat arrays, [own_lo, own_hi), and updates these values.
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

/* What a tensor is of a parameter: it, or a half of its adapter. */
enum train_side { TRAIN_SELF, TRAIN_HALF_A, TRAIN_HALF_B };

struct train_tensor {
    char *name;             /* owned */
    const struct param *of; /* borrowed: as all ranks have it */
    enum train_side side;
    int64_t rank;       /* of a half */
    int64_t rows, cols; /* here */
    bool decays;
    bool is_shared;         /* every rank of the model has all of it */
    bool sums_grad;         /* and a part of its gradient */
    struct param *param;    /* borrowed: packed again after a step; NULL: nobody's copy */
    int64_t at;             /* its place in the flat arrays */
    float *p, *g;           /* value, gradient: row-major, in the device's memory; g NULL: late */
    struct param_late late; /* param's, where it is a matrix */
};

enum train_array { TRAIN_VALUE, TRAIN_MOMENT1, TRAIN_MOMENT2, TRAIN_ARRAYS };

struct train_tensors {
    struct device *device;           /* borrowed */
    struct op_ranks model;           /* who shares the model, and which of them this is */
    const struct param_share *share; /* borrowed: by index; NULL: nobody */
    struct train_ranks ranks;
    VEC(struct train_tensor) list;
    float *p;                /* in block: [n_elem], and room for as much of each data rank; gaps
                              * between tensors are zeros and stay so */
    float *m, *v;            /* in block: [own_hi - own_lo], of the elements from own_lo on */
    float *g;                /* in block: [n_elem - n_late], those behind n_late */
    int64_t n_decay, n_elem; /* elements that decay; of all */
    int64_t n_late;          /* elements whose gradient is late: n_decay or none */
    int64_t n_own, own_lo, own_hi; /* of a data rank; this one's */
    void *block;                   /* owned */
    size_t bytes;
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

/* Of n_elem elements those of a data rank. */
int64_t train_own_elems(const struct train_tensors *t, int64_t n_elem);

/* The gradient of one, late or not; NULL: it is late and there is none. */
float *train_tensor_grad(const struct train_tensor *x);

/* It has a new value, which its parameter gets. */
void train_tensor_changed(const struct train_tensor *x, struct stream *s);

struct train_tensor *train_tensors_get(const struct train_tensors *t,
                                       const char *name); /* or NULL */

#endif
