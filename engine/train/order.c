/* SPDX-License-Identifier: Apache-2.0
 *
 * Fisher and Yates, drawing from a counter.
 */
#include "engine/train/order.h"

#include "engine/base/rng.h"

enum { RNG_ORDER = 1 << 21 /* the stream of orders, beside those of first values and steps */ };

void train_order(uint64_t seed, int64_t epoch, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k =
            (int64_t)rng_below(seed, RNG_ORDER + (uint64_t)epoch, (uint64_t)i, (uint64_t)(i + 1));
        int64_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}
