/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of logits to choose from, of the kinds that trouble who chooses, and a row's entries in the
 * order of choice.
 */
#ifndef TESTS_KERNELS_LOGITS_H
#define TESTS_KERNELS_LOGITS_H

#include "tests/kernels/check.h"

enum logit_shape {
    SHAPE_NORMAL,
    SHAPE_PEAKED,
    SHAPE_EQUAL,
    SHAPE_STEPS,
    SHAPE_MASKED,
    SHAPE_ODD,
    SHAPES
};

/* The j-th of a row of n. */
float logit(struct check *c, enum logit_shape shape, int64_t j, int64_t n);

struct entry {
    double w;
    float v;
    int32_t id;
};

/* For qsort: the largest first, of equals the one with the lowest id. */
int entry_order(const void *pa, const void *pb);

#endif
