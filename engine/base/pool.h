/* SPDX-License-Identifier: Apache-2.0
 *
 * The compute threads. One caller at a time hands them a job of n_unit units; they and the caller
 * claim pieces of at least `grain` units until none is left, and pool_run returns when the last
 * piece is done. Nothing depends on who ran which piece, so results do not depend on the number
 * of threads.
 *
 * Between jobs the threads spin for some microseconds and then sleep, so that the barrier between
 * two kernels of a step costs well under a microsecond and an idle server costs nothing.
 * With more threads than CPUs nobody spins.
 *
 * Thread: pool_run from whoever holds the gate (engine/base/gate.h), and never from inside a job.
 */
#ifndef ENGINE_BASE_POOL_H
#define ENGINE_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct pool;

/* fn(ctx, lo, hi, thread): units [lo, hi); thread in [0, pool_size). */
typedef void pool_fn(void *ctx, int64_t lo, int64_t hi, int thread);

/* n_thread counts the caller; 0 means machine_cores(). pin: each started thread keeps to a CPU of
 * its own and out of the caller's way, who stays free; without effect when the CPUs are fewer. */
struct pool *pool_new(int n_thread, bool pin, struct err *e);
void pool_free(struct pool *p);
int pool_size(const struct pool *p);
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t n_unit, int64_t grain);

#endif
