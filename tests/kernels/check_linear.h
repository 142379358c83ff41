/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checks of packed linear algebra share: a packed weight or packed rows, in a fenced
 * buffer of exact size, beside the same numbers as doubles. Packed by the reference, so a fault of
 * a packing kernel shows in its own check and not here.
 */
#ifndef TESTS_KERNELS_CHECK_LINEAR_H
#define TESTS_KERNELS_CHECK_LINEAR_H

#include "tests/kernels/check.h"

struct linear_weight {
    struct k_weight w;
    const float *value; /* [n, k] as stored: rounded, or code times scale */
};

/* k, or as many inputs more as whole blocks of the format need. */
int64_t linear_inputs(enum k_type type, int64_t k);

/* n inputs in codes (kernels/coded.h), any of them, with small scales. */
const uint8_t *linear_codes_make(struct check *c, enum k_type type, int64_t n);

/* k: as linear_inputs gives it. */
struct linear_weight linear_weight_make(struct check *c, enum k_type type, int64_t n, int64_t k);

struct linear_rows {
    const void *rows;
    const float *value; /* [m, k] as rounded */
};

/* Packs x[m, k]. */
struct linear_rows linear_rows_make(struct check *c, enum k_type type, const float *x, int64_t m,
                                    int64_t k);

/* y[m, n] in f64, and the sums of the absolute values of their terms. */
struct linear_want {
    double *y, *size;
};

struct linear_want linear_want_make(struct check *c, int64_t m, int64_t n);

enum k_type linear_type(const struct check *c); /* of the row that is being checked */

#endif
