/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as lists of work, and what stands in them. Everything is counted: work that waits for a
 * mark, or a graph that is launched, outlives the name that the caller had for it.
 */
#ifndef TESTS_FAKE_CUDA_WORK_H
#define TESTS_FAKE_CUDA_WORK_H

#include "tests/fake/cuda/fake.h"

struct work {
    bool (*is_ready)(void *ctx); /* NULL: at once; else asked until it says so */
    void (*run)(void *ctx);      /* NULL: nothing but to be ready */
    void (*lose)(void *ctx);     /* where it never runs; NULL: nobody minds */
    void *ctx;
    void (*drop)(void *ctx);
    struct work *next;
};

struct work_list {
    struct work *first, **end; /* end: NULL where it is empty */
};

struct CUgraph_st {
    struct work_list work;
    bool is_bad;
    int n_ref;
};

struct CUgraphExec_st {
    struct CUgraph_st *graph; /* counted */
};

struct CUstream_st {
    struct work_list work;
    struct CUgraph_st *capture; /* counted; NULL: not captured */
    bool is_busy;               /* is asked whether it is ready, or runs */
    bool is_gone;               /* who counts it finds no work in it any more */
    int n_ref;
};

/* A place in a stream. Once the stream is gone it has been passed. */
struct mark {
    cudaStream_t on;
    bool is_done;
    double at_ms;
    int n_ref;
};

struct CUevent_st {
    struct mark *last; /* counted; NULL: it was never recorded */
};

void work_add(struct work_list *l, void (*run)(void *), void *ctx, void (*drop)(void *));
void work_add_when(struct work_list *l, const struct work *w);
void work_drop_all(struct work_list *l);

/* Runs the next of what the stream was given; false: there is none that is ready. */
bool stream_step(cudaStream_t s);

/* Runs what the stream was given, up to the mark; NULL: all. Waits for what is not ready. */
void stream_run(cudaStream_t s, const struct mark *m);

void stream_unref(cudaStream_t s);

/* Whether a mark of another stream stands in it that it is to wait for. */
bool stream_awaits(cudaStream_t s);

void graph_unref(struct CUgraph_st *g);

#endif
