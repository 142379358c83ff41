/* SPDX-License-Identifier: Apache-2.0
 *
 * H = R R^T with R upper triangular, of the sums H of a product's inputs: the error of outputs that
 * an error d of a row of weights makes is then |d R|^2, a sum over inputs of which the i-th term
 * knows the first i errors alone.
 *
 * Thread: one for a matrix; the pool's threads help.
 */
#ifndef ENGINE_QUANT_FACTOR_H
#define ENGINE_QUANT_FACTOR_H

#include "engine/base/pool.h"

/* h, [k, k], symmetric, becomes R in its upper half; diagonal, [k], becomes what it was. What
 * inputs lack is added to the diagonal, more of it until the matrix has a factor. -1: it has none.
 */
int quant_factor(float *h, float *diagonal, int64_t k, struct pool *pool);

#endif
