/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device. A launch runs at once: the kernel's shape says what the call costs, a small
 * call runs on the thread that makes it, a larger one is cut into pieces that are each worth the
 * claim and handed to the pool; units that had better stay together do so where there are enough
 * of them for the threads. How a call is cut changes no bit of its result (kernels/kernels.h).
 *
 * Each compute thread lends kernels a scratch of its own. All of it is one block whose pages exist
 * only once a thread has touched them.
 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"
#include "engine/device/driver.h"

/* A thread's rates, out of memory and on bf16 as on f32: they tell a short call from a long one. */
#define BYTES_PER_NS 30.0
#define FLOPS_PER_NS 100.0

enum {
    /* Below this a call is done before others could help: they must see it, fetch what the caller
     * has just written, and be waited for. Two threads ran the calls of a model of 260,000
     * parameters at two thirds of the speed of one when this was a third. */
    INLINE_NS = 6000,
    GRAIN_NS = 1000,
    TOGETHER_LEAST = 8, /* for each thread, of what stays together, before it does */
    TELLING_NS = 50000 /* a piece that was to take so long says how well the rates fit its kernel */
};

struct cpu_device {
    struct device base;
    struct pool *pool; /* borrowed */
    char *scratch;     /* owned; [pool_size, K_SCRATCH_BYTES] */
};

struct cpu_stream {
    struct stream base;
    double slow[KERNEL_COUNT]; /* how much longer than by the rates; 0: not known */
};

struct cpu_event {
    struct event base;
    int64_t at_ns;
};

/* One launch, as the threads of the pool see it. */
struct cpu_call {
    kernel_fn *fn;
    const void *args;
    char *scratch;
    int64_t first; /* unit that the pool's 0 stands for */
    int64_t each;  /* units that the pool's one stands for */
};

static struct cpu_device *cpu_of(const struct stream *s)
{
    return (struct cpu_device *)s->device;
}

static void run_piece(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct cpu_call *c = ctx;
    c->fn(c->args, &(struct k_slice){.lo = c->first + lo * c->each,
                                     .hi = c->first + hi * c->each,
                                     .scratch = c->scratch + (size_t)thread * K_SCRATCH_BYTES});
}

/* Units [lo, hi) of a call whose units take unit_ns each. */
static void run(struct cpu_device *d, const struct cpu_call *c, int64_t lo, int64_t hi,
                double unit_ns)
{
    struct cpu_call part = *c;
    int64_t n = (hi - lo) / c->each;
    part.first = lo;
    if (lo % c->each || n * c->each < hi - lo || n < (int64_t)pool_size(d->pool) * TOGETHER_LEAST) {
        part.each = 1;
        n = hi - lo;
    }
    if ((double)(hi - lo) * unit_ns < INLINE_NS)
        run_piece(&part, 0, n, 0);
    else
        pool_run(d->pool, run_piece, &part, n,
                 (int64_t)(GRAIN_NS / (unit_ns * (double)part.each)) + 1);
}

static void saw_piece(double *slow, double by_rates_ns, int64_t took_ns)
{
    double now = (double)took_ns / by_rates_ns;
    if (by_rates_ns >= TELLING_NS)
        *slow += (now - *slow) * (*slow > 0 ? 0.2 : 1);
}

/* As many units at a time as the one who is between them wants to wait for. */
static void run_in_pieces(struct cpu_stream *s, enum kernel_id k, const struct cpu_call *c,
                          int64_t n_unit, double unit_ns)
{
    struct cpu_device *d = cpu_of(&s->base);
    double each_ns = unit_ns / pool_size(d->pool), *slow = &s->slow[k];
    for (int64_t lo = 0, hi; lo < n_unit && s->base.piece_ns >= 0; lo = hi) {
        double n = (double)s->base.piece_ns / (each_ns * (*slow > 0 ? *slow : 1));
        hi = n < (double)(n_unit - lo) ? lo + (int64_t)n + (n < 1) : n_unit;
        int64_t begin = clock_ns();
        run(d, c, lo, hi, unit_ns);
        saw_piece(slow, (double)(hi - lo) * each_ns, clock_ns() - begin);
        s->base.piece_ns = s->base.between(s->base.between_ctx);
    }
}

static void cpu_launch(struct stream *s, enum kernel_id k, const void *args, size_t bytes)
{
    (void)bytes;
    struct k_shape shape = kernel_shape(k, args);
    if (shape.n_unit <= 0)
        return;
    int64_t begin = s->trace ? clock_ns() : 0;
    struct cpu_device *d = cpu_of(s);
    struct cpu_call c = {.fn = d->base.kernels.fn[k],
                         .args = args,
                         .scratch = d->scratch,
                         .each = shape.n_together > 0 ? shape.n_together : 1};
    double unit_ns =
        (shape.bytes / BYTES_PER_NS + shape.flops / FLOPS_PER_NS) / (double)shape.n_unit;
    if (s->between)
        run_in_pieces((struct cpu_stream *)s, k, &c, shape.n_unit, unit_ns);
    else
        run(d, &c, 0, shape.n_unit, unit_ns);
    if (s->trace)
        s->trace(s->trace_ctx, k, shape, clock_ns() - begin);
}

static void cpu_copy(struct stream *s, void *to, const void *from, size_t bytes,
                     enum copy_kind kind)
{
    (void)s, (void)kind;
    memcpy(to, from, bytes);
}

static int cpu_sync(struct stream *s, struct err *e)
{
    (void)s, (void)e;
    return 0;
}

static void *cpu_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
    (void)d;
    return try_alloc(1, bytes, what, e);
}

static void *cpu_alloc_lazy(struct device *d, size_t bytes, const char *what, struct err *e)
{
    (void)d;
    return try_lazy(1, bytes, what, e);
}

static void cpu_mem_free(struct device *d, void *p)
{
    (void)d;
    mem_free(p);
}

static void cpu_memory(const struct device *d, size_t *total_bytes, size_t *free_bytes)
{
    (void)d;
    machine_memory(total_bytes, free_bytes);
}

static struct stream *cpu_stream_new(struct device *d, bool yields, struct err *e)
{
    (void)yields;
    struct cpu_stream *s = try_alloc(1, sizeof *s, "stream", e);
    if (!s)
        return NULL;
    s->base.device = d;
    return &s->base;
}

static void cpu_stream_free(struct stream *s)
{
    mem_free(s);
}

static struct event *cpu_event_new(struct device *d, struct err *e)
{
    struct cpu_event *v = try_alloc(1, sizeof *v, "event", e);
    if (!v)
        return NULL;
    v->base.device = d;
    return &v->base;
}

static void cpu_event_free(struct event *v)
{
    mem_free(v);
}

static void cpu_event_record(struct event *v, struct stream *s)
{
    (void)s;
    ((struct cpu_event *)v)->at_ns = clock_ns();
}

static void cpu_event_wait(struct event *v, struct stream *s)
{
    (void)v, (void)s; /* what came before it was done before the mark was made */
}

static int cpu_event_sync(struct event *v, struct err *e)
{
    (void)v, (void)e;
    return 0;
}

static int64_t cpu_event_ns(const struct event *from, const struct event *to)
{
    return ((const struct cpu_event *)to)->at_ns - ((const struct cpu_event *)from)->at_ns;
}

static void cpu_free(struct device *base)
{
    struct cpu_device *d = (struct cpu_device *)base;
    mem_free(d->scratch);
    mem_free(d);
}

static const struct device_driver cpu_driver = {
    .kind = DEVICE_CPU,
    .reads_host = true,
    .free = cpu_free,
    .memory = cpu_memory,
    .alloc = cpu_alloc,
    .alloc_lazy = cpu_alloc_lazy,
    .mem_free = cpu_mem_free,
    .host_alloc = cpu_alloc,
    .host_free = cpu_mem_free,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_sync = cpu_event_sync,
    .event_ns = cpu_event_ns,
};

struct device *device_cpu_new(struct pool *pool, const char *kernels, struct err *e)
{
    struct cpu_device *d = try_alloc(1, sizeof *d, "device", e);
    if (!d)
        return NULL;
    d->base.driver = &cpu_driver;
    d->pool = pool;
    d->base.n_lane = pool_size(pool);
    struct k_cpu cpu = kernel_cpu();
    memcpy(d->base.name, cpu.name, sizeof cpu.name);
    if (kernel_table_init(&d->base.kernels, kernels)) {
        err_set(e, ERR_UNSUPPORTED,
                "kernels %s: unknown, or more than this CPU has (%s); ref, avx2, avx512 and "
                "avx512_bf16 exist",
                kernels,
                cpu.avx512_bf16 ? "avx512_bf16"
                : cpu.avx512    ? "avx512"
                : cpu.avx2      ? "avx2"
                                : "ref");
        goto fail;
    }
    d->scratch = try_lazy((size_t)pool_size(pool), K_SCRATCH_BYTES, "kernel scratch", e);
    if (!d->scratch)
        goto fail;
    return &d->base;
fail:
    cpu_free(&d->base);
    return NULL;
}
