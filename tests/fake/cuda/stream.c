/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, marks and graphs: lists of work that runs when somebody waits for it.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/fake/cuda/work.h"

/* ---- work ---------------------------------------------------------------------------------- */

void work_add_when(struct work_list *l, const struct work *w)
{
    struct work *own = malloc(sizeof *own);
    *own = *w;
    own->next = NULL;
    *(l->first ? l->end : &l->first) = own;
    l->end = &own->next;
}

void work_add(struct work_list *l, void (*run)(void *), void *ctx, void (*drop)(void *))
{
    work_add_when(l, &(struct work){.run = run, .ctx = ctx, .drop = drop});
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
        if (w->lose)
            w->lose(w->ctx);
        work_free(w);
    }
}

bool stream_step(cudaStream_t s)
{
    struct work *w = s->work.first;
    if (!w || s->is_busy)
        return false;
    s->is_busy = true;
    bool is_ready = !w->is_ready || w->is_ready(w->ctx);
    s->is_busy = false;
    if (!is_ready)
        return false;
    s->work.first = w->next;
    fake_memory_open();
    if (w->run)
        w->run(w->ctx);
    fake_memory_close();
    work_free(w);
    return true;
}

/* The rights to the memory are changed once for many. */
static bool run_ready(cudaStream_t s, const struct mark *m)
{
    bool is_any = stream_step(s);
    if (is_any)
        fake_memory_open();
    while (is_any && !(m && m->is_done) && stream_step(s))
        ;
    if (is_any)
        fake_memory_close();
    return is_any;
}

void stream_run(cudaStream_t s, const struct mark *m)
{
    while (s->work.first && !(m && m->is_done))
        if (!run_ready(s, m))
            fake_rest();
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
        (*s)->n_ref = 1;
        fake_keep(1);
    }
    return fake_end(rc);
}

void stream_unref(cudaStream_t s)
{
    if (s && --s->n_ref == 0)
        free(s);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (rc)
        work_drop_all(&s->work);
    stream_run(s, NULL);
    graph_unref(s->capture);
    s->capture = NULL;
    s->is_gone = true;
    stream_unref(s);
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
    stream_run(s, NULL);
    return fake_end(rc);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    cudaError_t rc = fake_look();
    if (!rc)
        run_ready(s, NULL);
    return fake_end(rc ? rc : s->work.first ? cudaErrorNotReady : cudaSuccess);
}

/* ---- marks --------------------------------------------------------------------------------- */

static void mark_unref(void *ctx)
{
    struct mark *m = ctx;
    if (m && --m->n_ref == 0)
        free(m);
}

static void run_record(void *ctx)
{
    struct mark *m = ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    m->is_done = true;
    m->at_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Work that is lost has passed its marks as well. */
static void record_drop(void *ctx)
{
    ((struct mark *)ctx)->is_done = true;
    mark_unref(ctx);
}

/* What stands before the mark runs when somebody behind it waits. */
static bool is_passed(void *ctx)
{
    const struct mark *m = ctx;
    while (!m->is_done && stream_step(m->on))
        ;
    return m->is_done;
}

bool stream_awaits(cudaStream_t s)
{
    for (const struct work *w = s->work.first; w; w = w->next)
        if (w->is_ready == is_passed)
            return true;
    return false;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *v, unsigned flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    if (!rc) {
        *v = calloc(1, sizeof **v);
        fake_keep(1);
    }
    return fake_end(rc);
}

cudaError_t cudaEventDestroy(cudaEvent_t v)
{
    cudaError_t rc = fake_begin();
    mark_unref(v->last);
    free(v);
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
        mark_unref(v->last);
        v->last = calloc(1, sizeof *v->last);
        *v->last = (struct mark){.on = s, .n_ref = 2};
        work_add(&s->work, run_record, v->last, record_drop);
    }
    return fake_end(rc);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t v, unsigned flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    if (!rc)
        rc = refuse_capture(s);
    if (!rc && v->last) {
        v->last->n_ref++;
        work_add_when(&s->work,
                      &(struct work){.is_ready = is_passed, .ctx = v->last, .drop = mark_unref});
    }
    return fake_end(rc);
}

cudaError_t cudaEventSynchronize(cudaEvent_t v)
{
    cudaError_t rc = fake_begin();
    if (!rc && v->last && !v->last->is_done) {
        stream_run(v->last->on, v->last);
        if (v->last->on->work.first)
            fake_count_ahead();
    }
    return fake_end(rc);
}

cudaError_t cudaEventQuery(cudaEvent_t v)
{
    cudaError_t rc = fake_look();
    if (!rc && v->last && !v->last->is_done)
        run_ready(v->last->on, v->last);
    return fake_end(rc ? rc : !v->last || v->last->is_done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t rc = fake_begin();
    if (!rc)
        *ms = (float)(to->last->at_ms - from->last->at_ms);
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
        for (const struct work *w = x->graph->work.first; w; w = w->next)
            work_add_when(&s->work, &(struct work){.is_ready = w->is_ready,
                                                   .run = w->run,
                                                   .lose = w->lose,
                                                   .ctx = w->ctx});
        work_add(&s->work, NULL, x->graph, drop_graph);
    }
    return fake_end(rc);
}
