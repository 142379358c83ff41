/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, 2011): ten rounds of two wide multiplications
 * under a key that steps by two odd constants. The counter is (n, stream), the key is the seed.
 */
#include "engine/base/rng.h"

#include <math.h>

struct rng_block rng_at(uint64_t seed, uint64_t stream, uint64_t n)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)n, c1 = (uint32_t)(n >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xd2511f53 * c0, b = (uint64_t)0xcd9e8d57 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    return (struct rng_block){{c0, c1, c2, c3}};
}

static uint64_t word(struct rng_block b, int i)
{
    return (uint64_t)b.v[2 * i + 1] << 32 | b.v[2 * i];
}

static double unit(uint64_t x)
{
    return (double)(x >> 11) * 0x1p-53;
}

double rng_unit(uint64_t seed, uint64_t stream, uint64_t n)
{
    return unit(word(rng_at(seed, stream, n), 0));
}

float rng_normal(uint64_t seed, uint64_t stream, uint64_t n)
{
    struct rng_block b = rng_at(seed, stream, n);
    double u = 1 - unit(word(b, 0)); /* (0, 1]: its logarithm is finite */
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * unit(word(b, 1))));
}

/* The high word of a product. A number is off its fair share by at most bound / 2^64. */
uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t n, uint64_t bound)
{
    return (uint64_t)((unsigned __int128)word(rng_at(seed, stream, n), 0) * bound >> 64);
}
