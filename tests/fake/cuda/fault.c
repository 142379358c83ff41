/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls are counted, and one of them fails as the environment says.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake/cuda/fake.h"

enum { STALL_MS = 300, REST_NS = 50000 };

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long n_call, fail_at, n_kept, n_graph, n_ahead, n_block, n_grown, n_copy;
static const char *how;
static cudaError_t broken;

static void tell(void)
{
    const char *path = getenv("FAKE_CUDA_TELL");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld kept %ld graphs %ld ahead %ld blocks %ld grown %ld copies %ld\n", n_call,
            n_kept, n_graph, n_ahead, n_block, n_grown, n_copy);
    fclose(f);
}

static void start(void)
{
    const char *at = getenv("FAKE_CUDA_FAIL"), *way = getenv("FAKE_CUDA_HOW");
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
    fail_at = at ? strtol(at, NULL, 10) : 0;
    how = way ? way : "once";
    atexit(tell);
}

static cudaError_t fault(void)
{
    if (strcmp(how, "stalls") == 0) {
        nanosleep(&(struct timespec){.tv_nsec = STALL_MS * 1000000L}, NULL);
        return cudaSuccess;
    }
    if (strcmp(how, "memory") == 0)
        return cudaErrorMemoryAllocation;
    if (strcmp(how, "stays") == 0)
        broken = cudaErrorIllegalAddress;
    return broken ? broken : cudaErrorUnknown;
}

cudaError_t fake_begin(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    if (++n_call == fail_at && strcmp(how, "block") != 0 && strcmp(how, "copy") != 0)
        return fault();
    return broken;
}

cudaError_t fake_look(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    return broken;
}

void fake_rest(void)
{
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    pthread_mutex_lock(&lock);
}

cudaError_t fake_end(cudaError_t rc)
{
    pthread_mutex_unlock(&lock);
    return rc;
}

void fake_break(cudaError_t rc)
{
    broken = rc;
}

void fake_count_ahead(void)
{
    n_ahead++;
}

bool fake_count_block(void)
{
    return ++n_block != fail_at || strcmp(how, "block") != 0;
}

bool fake_count_copy(void)
{
    return ++n_copy != fail_at || strcmp(how, "copy") != 0;
}

void fake_count_grown(void)
{
    n_grown++;
}

void fake_count_graph(void)
{
    n_graph++;
}

void fake_keep(int change)
{
    n_kept += change;
}
