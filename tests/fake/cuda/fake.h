/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the twin of CUDA's runtime, and its door for kernels: an emulated launch is work on a
 * stream like a copy.
 *
 *     FAKE_CUDA_FAIL=N     the N-th call fails, counted from 1 over the process
 *     FAKE_CUDA_HOW=       memory: it says that there is none. once: it fails, and nothing after.
 *                          stays: it fails, and so does each call behind it. stalls: it takes a
 *                          while, and is good. block, copy: not calls are counted but the
 *                          blocks of memory that are asked for, of which the N-th is not there, or
 *                          the copies to the GPU, of which the N-th fails
 *     FAKE_CUDA_MEMORY=N   bytes of the GPU; 1 GiB
 *     FAKE_CUDA_DEVICES=N  GPUs, which share that memory; 1
 *     FAKE_CUDA_TELL=FILE  at the end: "calls N kept M graphs G ahead A blocks B grown R copies C"
 *                          M things were not given back, graphs were launched G times, A times
 *                          somebody waited for a mark who had given more behind it already, B
 *                          blocks of memory were asked for, R times a pool took more from the
 *                          GPU, and C copies went there
 *     FAKE_CUDA_KERNELS=SO the kernels, instead of kernels/ref
 *
 * One lock is held over each call, and over work while it runs.
 */
#ifndef TESTS_FAKE_CUDA_FAKE_H
#define TESTS_FAKE_CUDA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts work on a stream: run(ctx) once for each time it comes, then drop(ctx) at last, which may
 * be NULL. The GPU's memory may be touched in run. The answer is as a launch's. */
cudaError_t fake_cuda_submit(cudaStream_t s, void (*run)(void *ctx), void *ctx,
                             void (*drop)(void *ctx));

/* ---- fault.c ---- */
cudaError_t fake_begin(void); /* of each call: takes the lock; what the call is to answer */
cudaError_t fake_look(void);  /* of a call that may be made any number of times: not counted */
cudaError_t fake_end(cudaError_t rc);
void fake_rest(void);            /* within a call: lets other threads call for a moment */
void fake_break(cudaError_t rc); /* every later call answers so */
void fake_count_graph(void);     /* one was launched */
void fake_count_ahead(void);     /* a wait with more given behind its mark */
bool fake_count_block(void);     /* one is asked for; false: it is to be refused */
bool fake_count_copy(void);      /* one to the GPU; false: it is to fail */
void fake_count_grown(void);     /* a pool had to take more of the GPU's memory */
void fake_keep(int change);      /* things that are to be given back */

/* ---- memory.c ---- */
void fake_memory_open(void); /* the host may touch it; counted */
void fake_memory_close(void);
struct CUmemPoolHandle_st {
    size_t taken, used; /* bytes: of the GPU's, and of these */
};
void *fake_memory_new(cudaMemPool_t pool, size_t bytes); /* NULL: there is none */
void fake_pool_end(cudaMemPool_t pool);
bool fake_memory_free(void *p);
bool fake_memory_has(const void *p, size_t bytes); /* all of it in one block */
bool fake_memory_is_near(const void *p);           /* in the GPU's range of addresses */
size_t fake_memory_all(void);
size_t fake_memory_taken(void); /* by pools */
bool fake_is_pinned(const void *p);

#ifdef __cplusplus
}
#endif

#endif
