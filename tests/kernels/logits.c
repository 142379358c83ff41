/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of logits to choose from: see logits.h. Masked and odd rows hold what no logit should be, so
 * that a kernel which compares carelessly takes it.
 */
#include "tests/kernels/logits.h"

#include <math.h>

float logit(struct check *c, enum logit_shape shape, int64_t j, int64_t n)
{
    double u = check_unit(c) + check_unit(c) + check_unit(c) + check_unit(c) - 2;
    switch (shape) {
    case SHAPE_PEAKED: /* as a trained model's: few likely, most hopeless */
        return (float)(4 * u - 12 * pow(check_unit(c), 0.02));
    case SHAPE_EQUAL:
        return j % 3 ? -0.0f : 0.0f;
    case SHAPE_STEPS: /* many ties */
        return (float)(j % 7 - 3) * 0.5f;
    case SHAPE_MASKED:
        return j % 5 == 1 ? (float)(3 * u) : -INFINITY;
    case SHAPE_ODD:
        if (j % 11 == 0)
            return NAN;
        return j % 13 == 0 ? -INFINITY : j == n / 2 ? 1e30f : (float)(u * 1e-40);
    default:
        return (float)(2 * u);
    }
}

int entry_order(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    if (a->v != b->v)
        return a->v > b->v ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}
