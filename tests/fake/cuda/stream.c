/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, marks and graphs: lists of work that runs when somebody waits for it.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/fake/cuda/work.h"

/* ---- work ---------------------------------------------------------------------------------- */

void work_add(struct work_list *l, void (*run)(void *), void *ctx, void (*drop)(void *))
{
    struct work *w = malloc(sizeof *w);
    *w = (struct work){.run = run, .ctx = ctx, .drop = drop};
    *(l->first ? l->end : &l->first) = w;
    l->end = &w->next;
}

static void work_free(struct work *w)
{
    if (w->drop)
        w->drop(w->ctx);
    free(w);
}

void work_drop_all(struct work_list *l)
{
    while (l->first) {
        struct work *w = l->first;
        l->first = w->next;
        work_free(w);
    }
}

void stream_run(cudaStream_t s, const struct CUevent_st *v, long at)
{
    while (s->work.first && !(v && v->done >= at)) {
        struct work *w = s->work.first;
        s->work.first = w->next;
        fake_memory_open();
        w->run(w->ctx);
        fake_memory_close();
        work_free(w);
    }
}

cudaError_t fake_cuda_submit(cudaStream_t s, void (*run)(void *), void *ctx, void (*drop)(void *))
{
    cudaError_t rc = fake_begin();
    if (rc) {
        if (s->capture)
            s->capture->is_bad = true;
        if (drop)
            drop(ctx);
        return fake_end(rc);
    }
    work_add(s->capture ? &s->capture->work : &s->work, run, ctx, drop);
    return fake_end(rc);
}

/* ---- streams ------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    cudaError_t rc = fake_begin();
    if (!rc) {
        *s = calloc(1, sizeof **s);
        fake_keep(1);
    }
    return fake_end(rc);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (rc)
        work_drop_all(&s->work);
    stream_run(s, NULL, 0);
    graph_unref(s->capture);
    free(s);
    fake_keep(-1);
    return fake_end(rc);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (s->capture) {
        s->capture->is_bad = true;
        rc = cudaErrorStreamCaptureUnsupported;
    }
    if (rc)
        work_drop_all(&s->work);
    stream_run(s, NULL, 0);
    return fake_end(rc);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    return fake_end(rc ? rc : s->work.first ? cudaErrorNotReady : cudaSuccess);
}

/* ---- marks --------------------------------------------------------------------------------- */

struct mark {
    struct CUevent_st *v; /* counted */
    long at;
};

static void event_unref(struct CUevent_st *v)
{
    if (--v->n_ref == 0)
        free(v);
}

static void mark_drop(void *ctx)
{
    struct mark *m = ctx;
    event_unref(m->v);
    free(m);
}

/* Work that is lost has passed its marks as well. */
static void record_drop(void *ctx)
{
    struct mark *m = ctx;
    m->v->done = m->at > m->v->done ? m->at : m->v->done;
    mark_drop(ctx);
}

static struct mark *mark_new(cudaEvent_t v)
{
    struct mark *m = malloc(sizeof *m);
    *m = (struct mark){.v = v, .at = v->at};
    v->n_ref++;
    return m;
}

static void run_record(void *ctx)
{
    struct mark *m = ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    m->v->done = m->at;
    m->v->done_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void run_wait(void *ctx)
{
    struct mark *m = ctx;
    if (m->v->done < m->at && m->v->on)
        stream_run(m->v->on, m->v, m->at);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *v, unsigned flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    if (!rc) {
        *v = calloc(1, sizeof **v);
        (*v)->n_ref = 1;
        fake_keep(1);
    }
    return fake_end(rc);
}

cudaError_t cudaEventDestroy(cudaEvent_t v)
{
    cudaError_t rc = fake_begin();
    event_unref(v);
    fake_keep(-1);
    return fake_end(rc);
}

/* A mark in a capture would become a part of the graph: this program never wants that. */
static cudaError_t refuse_capture(cudaStream_t s)
{
    if (!s->capture)
        return cudaSuccess;
    s->capture->is_bad = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaEventRecord(cudaEvent_t v, cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (!rc)
        rc = refuse_capture(s);
    if (!rc) {
        v->at++;
        v->on = s;
        work_add(&s->work, run_record, mark_new(v), record_drop);
    }
    return fake_end(rc);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t v, unsigned flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    if (!rc)
        rc = refuse_capture(s);
    if (!rc)
        work_add(&s->work, run_wait, mark_new(v), mark_drop);
    return fake_end(rc);
}

cudaError_t cudaEventSynchronize(cudaEvent_t v)
{
    cudaError_t rc = fake_begin();
    if (!rc && v->done < v->at)
        stream_run(v->on, v, v->at);
    return fake_end(rc);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t rc = fake_begin();
    if (!rc)
        *ms = (float)(to->done_ms - from->done_ms);
    return fake_end(rc);
}

/* ---- graphs -------------------------------------------------------------------------------- */

void graph_unref(struct CUgraph_st *g)
{
    if (!g || --g->n_ref > 0)
        return;
    work_drop_all(&g->work);
    free(g);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    cudaError_t rc = fake_begin();
    if (!rc) {
        s->capture = calloc(1, sizeof *s->capture);
        s->capture->n_ref = 1;
    }
    return fake_end(rc);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    cudaError_t rc = fake_begin();
    struct CUgraph_st *own = s->capture;
    s->capture = NULL;
    if (!rc && (!own || own->is_bad))
        rc = cudaErrorStreamCaptureInvalidated;
    *g = rc ? NULL : own;
    if (rc)
        graph_unref(own);
    else
        fake_keep(1);
    return fake_end(rc);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    cudaError_t rc = fake_begin();
    graph_unref(g);
    fake_keep(-1);
    return fake_end(rc);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    if (!rc) {
        *x = malloc(sizeof **x);
        **x = (struct CUgraphExec_st){.graph = g};
        g->n_ref++;
        fake_keep(1);
    }
    return fake_end(rc);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    cudaError_t rc = fake_begin();
    graph_unref(x->graph);
    free(x);
    fake_keep(-1);
    return fake_end(rc);
}

static void run_graph(void *ctx)
{
    const struct CUgraph_st *g = ctx;
    for (const struct work *w = g->work.first; w; w = w->next)
        w->run(w->ctx);
}

static void drop_graph(void *ctx)
{
    graph_unref(ctx);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (!rc) {
        x->graph->n_ref++;
        fake_count_graph();
        work_add(&s->work, run_graph, x->graph, drop_graph);
    }
    return fake_end(rc);
}
