/* SPDX-License-Identifier: Apache-2.0
 *
 * Other libraries' products, widened at run time where they are installed: OpenBLAS (f32) and
 * oneDNN (bf16). They stand beside ours in the same run; the product never uses them.
 *
 * Thread: main.
 */
#ifndef TESTS_KERNELS_PEER_H
#define TESTS_KERNELS_PEER_H

#include <stdint.h>

struct peer;

/* y[m, n] = x[m, k] w[n, k]^T of random numbers, on one thread, everything packed before the first
 * run. NULL: the library is not here or has no such product. */
struct peer *peer_openblas_new(int64_t m, int64_t n, int64_t k);
struct peer *peer_onednn_new(int64_t m, int64_t n, int64_t k);
void peer_free(struct peer *p);
void peer_run(void *peer);

#endif
