/* SPDX-License-Identifier: Apache-2.0
 *
 * The peers by dlopen, so that nothing links with them. oneDNN's weights are reordered once into
 * the format that its product asks for, as an engine that loads once would do.
 */
#include "tests/kernels/peer.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

#if __has_include(<dnnl.h>)
#include <dnnl.h>
#define HAS_DNNL_HEADER 1
#else
#define HAS_DNNL_HEADER 0
#endif

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct peer {
    int64_t m, n, k;
    void (*run)(struct peer *p);
    void *lib;
    float *x, *w, *y; /* owned */
    sgemm_fn *sgemm;
    void *dnnl; /* owned: struct dnnl_parts */
};

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

static float *numbers(int64_t n)
{
    float *x = xcalloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 2654435761u % 2048) / 1024 - 1;
    return x;
}

static struct peer *peer_new(int64_t m, int64_t n, int64_t k, const char *const *lib)
{
    void *handle = NULL;
    for (; *lib && !handle; lib++)
        handle = dlopen(*lib, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return NULL;
    struct peer *p = xcalloc(1, sizeof *p);
    *p = (struct peer){.m = m, .n = n, .k = k, .lib = handle};
    p->x = numbers(m * k);
    p->w = numbers(n * k);
    p->y = numbers(m * n);
    return p;
}

/* A function of the library, NULL when it lacks it; data and function pointers are of one size on
 * every system that has dlsym. */
static void find(const struct peer *p, const char *name, void *fn)
{
    void *at = dlsym(p->lib, name);
    memcpy(fn, &at, sizeof at);
}

static void run_sgemm(struct peer *p)
{
    p->sgemm(ROW_MAJOR, NO_TRANS, TRANS, (int)p->m, (int)p->n, (int)p->k, 1, p->x, (int)p->k, p->w,
             (int)p->k, 0, p->y, (int)p->n);
}

struct peer *peer_openblas_new(int64_t m, int64_t n, int64_t k)
{
    static const char *const libs[] = {"libopenblas.so.0", NULL};
    void (*set_threads)(int) = NULL;
    struct peer *p = peer_new(m, n, k, libs);
    if (!p)
        return NULL;
    find(p, "cblas_sgemm", &p->sgemm);
    find(p, "openblas_set_num_threads", &set_threads);
    p->run = run_sgemm;
    if (p->sgemm && set_threads) {
        set_threads(1);
        return p;
    }
    peer_free(p);
    return NULL;
}

void peer_run(void *peer)
{
    struct peer *p = peer;
    p->run(p);
}

#if HAS_DNNL_HEADER && DNNL_VERSION_MAJOR == 2

struct dnnl_parts {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t product;
    dnnl_memory_t src, weights, dst;
    __typeof__(dnnl_engine_create) *engine_create;
    __typeof__(dnnl_stream_create) *stream_create;
    __typeof__(dnnl_stream_wait) *stream_wait;
    __typeof__(dnnl_memory_desc_init_by_tag) *desc_by_tag;
    __typeof__(dnnl_matmul_desc_init) *matmul_desc;
    __typeof__(dnnl_primitive_desc_create) *pd_create;
    __typeof__(dnnl_primitive_desc_query_md) *pd_query;
    __typeof__(dnnl_primitive_desc_destroy) *pd_destroy;
    __typeof__(dnnl_reorder_primitive_desc_create) *reorder_create;
    __typeof__(dnnl_primitive_create) *create;
    __typeof__(dnnl_primitive_destroy) *destroy;
    __typeof__(dnnl_primitive_execute) *execute;
    __typeof__(dnnl_memory_create) *memory_create;
    __typeof__(dnnl_memory_destroy) *memory_destroy;
};

static bool find_dnnl(struct peer *p, struct dnnl_parts *d)
{
    find(p, "dnnl_engine_create", &d->engine_create);
    find(p, "dnnl_stream_create", &d->stream_create);
    find(p, "dnnl_stream_wait", &d->stream_wait);
    find(p, "dnnl_memory_desc_init_by_tag", &d->desc_by_tag);
    find(p, "dnnl_matmul_desc_init", &d->matmul_desc);
    find(p, "dnnl_primitive_desc_create", &d->pd_create);
    find(p, "dnnl_primitive_desc_query_md", &d->pd_query);
    find(p, "dnnl_primitive_desc_destroy", &d->pd_destroy);
    find(p, "dnnl_reorder_primitive_desc_create", &d->reorder_create);
    find(p, "dnnl_primitive_create", &d->create);
    find(p, "dnnl_primitive_destroy", &d->destroy);
    find(p, "dnnl_primitive_execute", &d->execute);
    find(p, "dnnl_memory_create", &d->memory_create);
    find(p, "dnnl_memory_destroy", &d->memory_destroy);
    return d->engine_create && d->stream_create && d->stream_wait && d->desc_by_tag &&
           d->matmul_desc && d->pd_create && d->pd_query && d->pd_destroy && d->reorder_create &&
           d->create && d->destroy && d->execute && d->memory_create && d->memory_destroy;
}

/* from -> to, once; `to` has the format that it was made with. */
static bool reorder(struct dnnl_parts *d, const dnnl_memory_desc_t *from_md, dnnl_memory_t from,
                    const dnnl_memory_desc_t *to_md, dnnl_memory_t to)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t r = NULL;
    dnnl_exec_arg_t arg[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool good = !d->reorder_create(&pd, from_md, d->engine, to_md, d->engine, NULL) &&
                !d->create(&r, pd) && !d->execute(r, d->stream, 2, arg) &&
                !d->stream_wait(d->stream);
    if (r)
        d->destroy(r);
    if (pd)
        d->pd_destroy(pd);
    return good;
}

/* A memory in format md, filled from f32 rows that lie in format tag. */
static bool fill(struct dnnl_parts *d, dnnl_memory_t *out, const dnnl_memory_desc_t *md,
                 const dnnl_dims_t dims, dnnl_format_tag_t tag, float *x)
{
    dnnl_memory_desc_t plain;
    dnnl_memory_t from = NULL;
    bool good = !d->desc_by_tag(&plain, 2, dims, dnnl_f32, tag) &&
                !d->memory_create(&from, &plain, d->engine, x) &&
                !d->memory_create(out, md, d->engine, DNNL_MEMORY_ALLOCATE) &&
                reorder(d, &plain, from, md, *out);
    if (from)
        d->memory_destroy(from);
    return good;
}

static bool make_dnnl(struct peer *p, struct dnnl_parts *d)
{
    dnnl_dims_t xs = {p->m, p->k}, ws = {p->k, p->n}, ys = {p->m, p->n};
    dnnl_memory_desc_t x, w, y;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    bool good = !d->engine_create(&d->engine, dnnl_cpu, 0) &&
                !d->stream_create(&d->stream, d->engine, dnnl_stream_default_flags) &&
                !d->desc_by_tag(&x, 2, xs, dnnl_bf16, dnnl_format_tag_any) &&
                !d->desc_by_tag(&w, 2, ws, dnnl_bf16, dnnl_format_tag_any) &&
                !d->desc_by_tag(&y, 2, ys, dnnl_f32, dnnl_ab) &&
                !d->matmul_desc(&desc, &x, &w, NULL, &y) &&
                !d->pd_create(&pd, &desc, NULL, d->engine, NULL) && !d->create(&d->product, pd);
    good = good && fill(d, &d->src, d->pd_query(pd, dnnl_query_src_md, 0), xs, dnnl_ab, p->x) &&
           fill(d, &d->weights, d->pd_query(pd, dnnl_query_weights_md, 0), ws, dnnl_ba, p->w) &&
           !d->memory_create(&d->dst, &y, d->engine, p->y);
    if (pd)
        d->pd_destroy(pd);
    return good;
}

static void run_dnnl(struct peer *p)
{
    struct dnnl_parts *d = p->dnnl;
    dnnl_exec_arg_t arg[3] = {
        {DNNL_ARG_SRC, d->src}, {DNNL_ARG_WEIGHTS, d->weights}, {DNNL_ARG_DST, d->dst}};
    d->execute(d->product, d->stream, 3, arg);
    d->stream_wait(d->stream);
}

static void free_dnnl(struct peer *p)
{
    struct dnnl_parts *d = p->dnnl;
    dnnl_memory_t memory[] = {d->src, d->weights, d->dst};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            d->memory_destroy(memory[i]);
    if (d->product)
        d->destroy(d->product);
    free(d); /* engine and stream go with the process: the library keeps threads behind them */
}

struct peer *peer_onednn_new(int64_t m, int64_t n, int64_t k)
{
    static const char *const libs[] = {"libdnnl.so.2", NULL};
    setenv("OMP_NUM_THREADS", "1", 1); /* read when the library is widened */
    struct peer *p = peer_new(m, n, k, libs);
    if (!p)
        return NULL;
    p->dnnl = xcalloc(1, sizeof(struct dnnl_parts));
    p->run = run_dnnl;
    if (find_dnnl(p, p->dnnl) && make_dnnl(p, p->dnnl))
        return p;
    peer_free(p);
    return NULL;
}

#else

static void free_dnnl(struct peer *p)
{
    free(p->dnnl);
}

struct peer *peer_onednn_new(int64_t m, int64_t n, int64_t k)
{
    (void)m, (void)n, (void)k;
    return NULL;
}

#endif

void peer_free(struct peer *p)
{
    if (!p)
        return;
    if (p->dnnl)
        free_dnnl(p);
    free(p->x);
    free(p->w);
    free(p->y);
    free(p); /* the library stays open: its threads may still run */
}
