/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of the kernels of rows that draw. Pointers are borrowed for the call. Part of
 * kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_DRAWS_H
#define KERNELS_ARGS_DRAWS_H

#include <stdint.h>

/* y[i, j] = x[i, j] / (1 - p) where draw(seed, site, row_key[i], j) >= p, else 0; y may be x. A
 * row's draws follow its key, not its place in the batch. The backward is the same call on dy.
 * The draw of column j is word j % 64 / 16 of the Philox block whose counter is (j / 64 * 16 +
 * j % 16, site, row_key low, high) under the key seed: rng_at(seed, row_key, site << 32 | block).
 */
struct k_dropout {
    const float *x;
    float *y;
    const uint64_t *row_key; /* [m] */
    int64_t ld_x, ld_y, m, d;
    uint64_t seed;
    uint32_t site;
    float p;
};

/* y[i, j] = fma(r, u, x[i, j]), where r = alpha / sqrt(seq_len[seq_of[i]] * d) and u = -1 + 2^-23
 * times the upper 24 bits of the draw that k_dropout has there; y may be x. */
struct k_noise {
    const float *x;
    float *y;
    const uint64_t *row_key;         /* [m] */
    const int32_t *seq_of, *seq_len; /* [m]; [sequences] */
    int64_t ld_x, ld_y, m, d;
    uint64_t seed;
    uint32_t site;
    float alpha;
};

#endif
