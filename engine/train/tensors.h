/* SPDX-License-Identifier: Apache-2.0
 *
 * What is trained: a list of f32 tensors with their gradients and moments. All of them lie in flat
 * arrays, those with decay first, so that a checkpoint is a walk over names. The gradients of a
 * model's matrices do not: they are late (engine/op/param.h), and share a step's memory with the
 * values that are given back while they come.
 *
 * Made in two steps: tensors are added, then get memory, all zeros.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_TENSORS_H
#define ENGINE_TRAIN_TENSORS_H

#include "engine/base/vec.h"
#include "engine/device/device.h"
#include "engine/op/param.h"

struct train_tensor {
    char *name; /* owned */
    int64_t rows, cols;
    bool decays;
    struct param *param;    /* borrowed: packed again after a step; NULL: nobody's copy */
    int64_t at;             /* its place in the flat arrays */
    float *p, *g;           /* value, gradient: row-major, in the device's memory; g NULL: late */
    struct param_late late; /* param's, where it is a matrix */
};

struct train_tensors {
    struct device *device; /* borrowed */
    VEC(struct train_tensor) list;
    float *p, *m, *v; /* in block: [n_elem] each; gaps between tensors are zeros and stay so */
    float *g;         /* in block: [n_elem - n_late], those behind n_late */
    int64_t n_decay, n_elem; /* elements that decay; of all */
    int64_t n_late;          /* elements whose gradient is late: n_decay or none */
    void *block;             /* owned */
    size_t bytes;
};

void train_tensors_init(struct train_tensors *t, struct device *d);
void train_tensors_release(struct train_tensors *t);

/* The name is copied. */
void train_tensors_add(struct train_tensors *t, const char *name, int64_t rows, int64_t cols,
                       bool decays, struct param *param);
int train_tensors_alloc(struct train_tensors *t, struct err *e);

/* The gradient of one, late or not; NULL: it is late and there is none. */
float *train_tensor_grad(const struct train_tensor *x);

/* What train_tensors_alloc would take, and late gradients. */
size_t train_tensors_bytes(const struct train_tensors *t);

struct train_tensor *train_tensors_get(const struct train_tensors *t,
                                       const char *name); /* or NULL */

#endif
