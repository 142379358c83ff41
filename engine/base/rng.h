/* SPDX-License-Identifier: Apache-2.0
 *
 * A counter-based generator (Philox 4x32-10): the n-th number of stream s under seed k is a pure
 * function of (k, s, n). A step of training or of sampling can therefore be replayed from its
 * cursor alone, on any number of threads, in any order.
 *
 * Thread: any; there is no state.
 */
#ifndef ENGINE_BASE_RNG_H
#define ENGINE_BASE_RNG_H

#include <stdint.h>

struct rng_block {
    uint32_t v[4];
};

struct rng_block rng_at(uint64_t seed, uint64_t stream, uint64_t n);
double rng_unit(uint64_t seed, uint64_t stream, uint64_t n);  /* uniform in [0, 1), 53 bits */
float rng_normal(uint64_t seed, uint64_t stream, uint64_t n); /* standard normal (Box-Muller) */
uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t n, uint64_t bound); /* [0, bound) */

#endif
