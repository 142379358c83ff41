/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling: every node's forward runs once against a sink that keeps its launches instead of
 * running them.
 */
#include "engine/graph/plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/kept.h"
#include "engine/graph/memory.h"
#include "engine/op/collective.h"

/* A kernel's launch, or a collective. */
struct call {
    enum kernel_id kernel;   /* KERNEL_COUNT: a collective */
    uint32_t args_at, bytes; /* in plan.args */
};

struct patch {
    uint32_t at; /* in plan.args */
    struct op_count count;
};

struct plan {
    struct device *device; /* borrowed */
    char *block;           /* owned: device memory of all values */
    size_t block_bytes;
    VEC(struct call) call;
    VEC(struct patch) patch;
    VEC(_Alignas(16) char) args;
    VEC(struct op_view) output;
    int64_t cap[DIM_COUNT], n[DIM_COUNT]; /* n: what is patched in */
    bool may_be_kept;                     /* nothing in it that meets others on the host */
    struct kept kept;
};

struct sink {
    struct op_sink s; /* first */
    struct plan *p;
};

enum { ARGS_ALIGN = 16 };

static size_t keep_args(struct plan *p, enum kernel_id k, const void *args, size_t bytes)
{
    size_t at = (p->args.n + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN;
    vec_reserve(&p->args, at + bytes);
    memcpy(p->args.at + at, args, bytes);
    p->args.n = at + bytes;
    vec_push(&p->call,
             (struct call){.kernel = k, .args_at = (uint32_t)at, .bytes = (uint32_t)bytes});
    return at;
}

static void keep_launch(struct op_sink *s, enum kernel_id k, const void *args, size_t bytes,
                        const struct op_count *count, int n_count)
{
    struct plan *p = ((struct sink *)(void *)s)->p;
    size_t at = keep_args(p, k, args, bytes);
    for (int i = 0; i < n_count; i++)
        vec_push(&p->patch, (struct patch){(uint32_t)(at + count[i].offset), count[i]});
}

static void keep_collective(struct op_sink *s, const struct op_collective *a, enum dim dim)
{
    struct plan *p = ((struct sink *)(void *)s)->p;
    size_t at = keep_args(p, KERNEL_COUNT, a, sizeof *a) + offsetof(struct op_collective, m);
    vec_push(&p->patch, (struct patch){(uint32_t)at, {.dim = dim}});
    p->may_be_kept = p->may_be_kept && op_collective_may_be_kept(a);
}

static struct op_view view_of(const struct plan *p, const struct graph *g,
                              const struct graph_memory *m, const struct graph_place *place,
                              int32_t v)
{
    return (struct op_view){.shape = g->value.at[v].shape,
                            .p = (float *)(void *)(p->block + m->value_at[v]),
                            .ld = g->value.at[place[v].root].shape.cols};
}

static void compile(struct plan *p, const struct graph *g, const struct graph_memory *m,
                    const struct batch *batch)
{
    struct sink sink = {.s = {.launch = keep_launch, .collective = keep_collective}, .p = p};
    struct graph_place *place = graph_places(g);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        struct op_ctx c = {.node = n, .batch = batch, .cap = p->cap, .sink = &sink.s};
        if (op_get(n->op)->view)
            continue;
        for (int j = 0; j < n->n_in; j++)
            c.in[j] = view_of(p, g, m, place, n->in[j]);
        for (int o = 0; o < n->n_out; o++)
            c.out[o] = view_of(p, g, m, place, n->out[o]);
        c.work = p->block + m->work_at[i];
        op_get(n->op)->forward(&c);
    }
    for (size_t i = 0; i < g->output.n; i++)
        vec_push(&p->output, view_of(p, g, m, place, g->output.at[i]));
    free(place);
}

struct plan *plan_new(const struct graph *g, const struct batch *batch, const int64_t *cap,
                      struct device *d, struct err *e)
{
    struct plan *p = xcalloc(1, sizeof *p);
    struct graph_memory m = {0};
    p->device = d;
    p->may_be_kept = true;
    memcpy(p->cap, cap, sizeof p->cap);
    for (int i = 0; i < DIM_COUNT; i++)
        p->n[i] = -1;
    if (graph_memory_init(&m, g, cap, e))
        goto fail;
    p->block_bytes = m.bytes;
    p->block = device_alloc(d, m.bytes, "the activations of a step", e);
    if (!p->block)
        goto fail;
    compile(p, g, &m, batch);
    graph_memory_release(&m);
    return p;
fail:
    graph_memory_release(&m);
    plan_free(p);
    return NULL;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    kept_release(&p->kept);
    device_mem_free(p->device, p->block);
    vec_release(&p->call);
    vec_release(&p->patch);
    vec_release(&p->args);
    vec_release(&p->output);
    free(p);
}

static void patch_counts(struct plan *p, const int64_t *n)
{
    if (memcmp(p->n, n, sizeof p->n) == 0)
        return;
    memcpy(p->n, n, sizeof p->n);
    for (int i = 0; i < DIM_COUNT; i++)
        ASSERT(p->n[i] >= 0 && p->n[i] <= p->cap[i]);
    for (size_t i = 0; i < p->patch.n; i++) {
        int64_t count = op_count_of(&p->patch.at[i].count, p->n);
        memcpy(p->args.at + p->patch.at[i].at, &count, sizeof count);
    }
}

static void launch_all(struct plan *p, struct stream *s)
{
    for (size_t i = 0; i < p->call.n; i++) {
        const struct call *c = &p->call.at[i];
        const void *args = p->args.at + c->args_at;
        if (c->kernel == KERNEL_COUNT)
            op_collective_run(args, s);
        else
            stream_launch(s, c->kernel, args, c->bytes);
    }
}

/* Keeps the launches of the counts that are patched in; one that cannot be kept is given as ever.
 */
static void keep_step(struct plan *p, struct kept_step *k, struct stream *s)
{
    struct err e = ERR_INIT;
    k->is_refused = true;
    if (replay_begin(s, &e))
        return;
    launch_all(p, s);
    k->replay = replay_end(s, &e);
    k->is_refused = !k->replay;
}

static bool is_worth_keeping(const struct plan *p, const struct stream *s)
{
    return stream_keeps_launches(s) && p->may_be_kept && p->n[DIM_TOK] == p->n[DIM_SEQ];
}

void plan_run(struct plan *p, const struct batch *batch, struct stream *s)
{
    struct kept_step *k = NULL;
    bool is_new = true;
    patch_counts(p, batch->n);
    if (is_worth_keeping(p, s))
        k = kept_get(&p->kept, p->n, &is_new);
    if (k && !is_new && !k->replay && !k->is_refused)
        keep_step(p, k, s);
    if (k && k->replay)
        replay_run(k->replay, s);
    else
        launch_all(p, s);
}

struct op_view plan_output(const struct plan *p, int i)
{
    ASSERT(i >= 0 && (size_t)i < p->output.n);
    return p->output.at[i];
}

size_t plan_bytes(const struct plan *p)
{
    return p->block_bytes;
}

size_t plan_n_call(const struct plan *p)
{
    return p->call.n;
}
