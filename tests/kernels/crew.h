/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for measuring: they spin between jobs and are pinned, so that a figure holds the kernel
 * and not the waking of threads. One job at a time; the caller is thread 0. Pieces are claimed as
 * they come, so a thread that the machine holds up does not hold up the job.
 *
 * Thread: the one that made it.
 */
#ifndef TESTS_KERNELS_CREW_H
#define TESTS_KERNELS_CREW_H

#include <stdint.h>

struct crew;

typedef void crew_fn(void *ctx, int64_t lo, int64_t hi, int thread);

struct crew *crew_new(int n_thread); /* 0: one per CPU that the process may use */
void crew_free(struct crew *w);
int crew_size(const struct crew *w);
/* Units [0, n_unit) in pieces of `grain`. */
void crew_run(struct crew *w, crew_fn *fn, void *ctx, int64_t n_unit, int64_t grain);

#endif
