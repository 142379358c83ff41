/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops that measure the machine, for a CPU of which nothing is known.
 */
#include <string.h>

#include "tests/kernels/limit.h"

uint64_t limit_read_plain(const void *p, size_t n, int streams, size_t ahead)
{
    const char *c = p;
    uint64_t sum = 0;
    (void)streams, (void)ahead;
    for (size_t i = 0; i + 32 <= n; i += 32) {
        uint64_t v[4];
        memcpy(v, c + i, sizeof v);
        sum += v[0] ^ v[1] ^ v[2] ^ v[3];
    }
    return sum;
}

double limit_f32_plain(int64_t rounds)
{
    enum { N = 8 };
    volatile float seed = 0.999f;
    float sum[N] = {0}, a = seed;
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < N; i++)
            sum[i] = sum[i] * a + 0.001f;
    }
    for (int i = 0; i < N; i++)
        seed = sum[i];
    return (double)rounds * N * 2;
}
