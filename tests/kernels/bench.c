/* SPDX-License-Identifier: Apache-2.0
 *
 * `bench`: the machine first, then each kernel beside the limit that binds it. A figure is the
 * median of several samples; between two samples of the kernel one of the limit is taken, and the
 * fraction is the ratio of the two medians, so a machine that slows down slows both.
 *
 * The limit of a call is the larger of its bytes over the bandwidth of the level of memory where
 * its working set lies, and its operations over the peak.
 */
#include "tests/kernels/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/kernels/tool.h"

enum { N_SAMPLE = 9, MAX_MAP = 64 };

static bench_fn *const families[] = {
    bench_linear,
    bench_linear_grad,
    bench_lora,
    bench_experts,
    bench_delta,
    bench_rows,
    bench_heads,
    bench_attn_decode,
    bench_attn_decode_short,
    bench_attn_decode_long,
    bench_attn_prompt,
    bench_attn_bwd,
};

struct bench {
    struct tool_args args;
    struct kernel_table table;
    struct crew *crew;     /* owned */
    struct limits *limits; /* owned */
    void *scratch;         /* owned; K_SCRATCH_BYTES a thread */
    struct {
        void *p;
        size_t bytes;
    } map[MAX_MAP]; /* owned; of the present family */
    int n_map;
    uint64_t rng;
};

static double median(double *x, int n)
{
    for (int i = 1; i < n; i++) {
        double v = x[i];
        int j = i;
        for (; j > 0 && x[j - 1] > v; j--)
            x[j] = x[j - 1];
        x[j] = v;
    }
    return x[n / 2];
}

/* ---- what families use ---- */

bool bench_wants(const struct bench *b, enum kernel_id id)
{
    return b->table.fn[id] && tool_args_match(&b->args, kernel_name(id));
}

bool bench_wants_rows(const struct bench *b, int64_t rows)
{
    return b->args.rows == 0 || b->args.rows == rows;
}

int bench_threads(const struct bench *b)
{
    return crew_size(b->crew);
}

void *bench_alloc(struct bench *b, size_t bytes)
{
    void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || b->n_map == MAX_MAP) {
        fprintf(stderr, "tandem-kernels: no memory for a bench of %zu bytes\n", bytes);
        exit(1);
    }
    madvise(p, bytes + 1, MADV_HUGEPAGE);
    b->map[b->n_map].p = p;
    b->map[b->n_map++].bytes = bytes + 1;
    memset(p, 0, bytes);
    return p;
}

float *bench_floats(struct bench *b, int64_t n)
{
    float *x = bench_alloc(b, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        b->rng = b->rng * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(int64_t)b->rng * (1.7 / 0x1p63));
    }
    return x;
}

void bench_release(struct bench *b)
{
    while (b->n_map > 0) {
        b->n_map--;
        munmap(b->map[b->n_map].p, b->map[b->n_map].bytes);
    }
}

/* ---- one measurement ---- */

struct call {
    struct bench *b; /* borrowed */
    kernel_fn *fn;
    const void *args; /* borrowed */
    int64_t n_unit, n_piece;
};

/* Pieces are alike to a unit, as the engine's threads have them. */
static void call_pieces(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct call *c = ctx;
    char *scratch = c->b->scratch;
    struct k_slice s = {.lo = c->n_unit * lo / c->n_piece,
                        .hi = c->n_unit * hi / c->n_piece,
                        .scratch = scratch + (size_t)thread * K_SCRATCH_BYTES};
    c->fn(c->args, &s);
}

static void call_run(void *ctx)
{
    struct call *c = ctx;
    crew_run(c->b->crew, call_pieces, c, c->n_piece, 1);
}

static struct call call_make(struct bench *b, enum kernel_id id, const void *args)
{
    struct k_shape shape = kernel_shape(id, args);
    int64_t pieces = crew_size(b->crew) == 1 ? 1 : 8 * crew_size(b->crew);
    struct call c = {.b = b, .fn = b->table.fn[id], .args = args, .n_unit = shape.n_unit};
    c.n_piece = shape.n_unit < pieces ? shape.n_unit : pieces;
    return c;
}

void bench_prepare(struct bench *b, enum kernel_id id, const void *args)
{
    struct call c = call_make(b, id, args);
    call_run(&c);
}

struct figure {
    double ns, limit_ns;
    bool is_memory;
};

/* How often to call within a sample: about a millisecond, and twice at least to hide the clock. */
static int calls_per_sample(void (*run)(void *), void *ctx)
{
    double t = 0;
    int n = 1;
    run(ctx);
    for (; n < 1 << 20; n *= 2) {
        t = limits_now();
        for (int i = 0; i < n; i++)
            run(ctx);
        t = limits_now() - t;
        if (t > 1e-3)
            break;
    }
    return n;
}

static double sample(void (*run)(void *), void *ctx, int n)
{
    double t = limits_now();
    for (int i = 0; i < n; i++)
        run(ctx);
    return (limits_now() - t) / n * 1e9;
}

static struct figure measure(struct bench *b, const struct bench_peer *k, double footprint)
{
    enum limit_level level = limits_level(b->limits, footprint);
    double ns[N_SAMPLE], rate[N_SAMPLE], peak[N_SAMPLE];
    int n = calls_per_sample(k->run, k->ctx);
    for (int i = 0; i < N_SAMPLE; i++) {
        ns[i] = sample(k->run, k->ctx, n);
        rate[i] = limits_memory(b->limits, level);
        peak[i] = limits_peak(b->limits, k->unit);
    }
    double by_memory = k->bytes / median(rate, N_SAMPLE) * 1e9;
    double by_compute = k->flops / median(peak, N_SAMPLE) * 1e9;
    bool is_memory = by_memory >= by_compute;
    return (struct figure){median(ns, N_SAMPLE), is_memory ? by_memory : by_compute, is_memory};
}

static void figure_print(const struct bench *b, const struct bench_peer *k, const struct figure *f)
{
    double gbps = k->bytes / f->ns, gflops = k->flops / f->ns, fraction = f->limit_ns / f->ns;
    const char *bound = f->is_memory ? "memory" : "compute";
    if (b->args.json) {
        printf("{\"kernel\":\"%s\",\"variant\":\"%s\",\"shape\":\"%s\",\"rows\":%" PRId64
               ",\"threads\":%d,\"ns\":%.0f,\"gbps\":%.2f,\"gflops\":%.2f,\"bound\":\"%s\","
               "\"fraction\":%.3f}\n",
               k->kernel, k->variant, k->shape, k->rows, k->n_thread, f->ns, gbps, gflops, bound,
               fraction);
    } else {
        printf("%-16s %-7s %-14s rows %5" PRId64 " threads %d %12.0f ns %8.2f GB/s %9.2f GFLOP/s "
               "%5.1f%% of %s\n",
               k->kernel, k->variant, k->shape, k->rows, k->n_thread, f->ns, gbps, gflops,
               100 * fraction, bound);
    }
    fflush(stdout);
}

void bench_run_peer(struct bench *b, const struct bench_peer *k)
{
    struct figure f = measure(b, k, k->bytes);
    figure_print(b, k, &f);
}

void bench_run(struct bench *b, const struct bench_case *k)
{
    if (!bench_wants(b, k->id) || !bench_wants_rows(b, k->rows))
        return;
    struct call call = call_make(b, k->id, k->args);
    struct k_shape shape = kernel_shape(k->id, k->args);
    struct bench_peer p = {.kernel = kernel_name(k->id),
                           .variant = b->table.variant[k->id],
                           .shape = k->shape,
                           .rows = k->rows,
                           .unit = k->unit,
                           .bytes = shape.bytes,
                           .flops = shape.flops,
                           .run = call_run,
                           .ctx = &call,
                           .n_thread = crew_size(b->crew)};
    struct figure f = measure(b, &p, k->footprint > 0 ? k->footprint : shape.bytes);
    figure_print(b, &p, &f);
}

/* ---- the machine ---- */

static void machine_line(const struct bench *b, const char *what, double rate, const char *unit)
{
    if (b->args.json)
        printf("{\"machine\":\"%s\",\"threads\":%d,\"%s\":%.1f}\n", what, crew_size(b->crew), unit,
               rate / 1e9);
    else
        printf("machine: %-24s threads %d %10.1f %s\n", what, crew_size(b->crew), rate / 1e9, unit);
}

static double level_median(struct bench *b, enum limit_level level)
{
    double x[N_SAMPLE];
    for (int i = 0; i < N_SAMPLE; i++)
        x[i] = limits_memory(b->limits, level);
    return median(x, N_SAMPLE);
}

static double peak_median(struct bench *b, enum limit_unit unit)
{
    double x[N_SAMPLE];
    for (int i = 0; i < N_SAMPLE; i++)
        x[i] = limits_peak(b->limits, unit);
    return median(x, N_SAMPLE);
}

static void machine_measure(struct bench *b)
{
    static const char *const levels[] = {"read memory", "read last cache", "read second cache"};
    static const char *const units[] = {"f32 products", "bf16 dot products", "int8 dot products"};
    for (int l = 0; l < LIMIT_LEVELS; l++)
        machine_line(b, levels[l], level_median(b, (enum limit_level)l), "gbps");
    for (int u = 0; u < LIMIT_UNITS; u++)
        machine_line(b, units[u], peak_median(b, (enum limit_unit)u), "gflops");
    if (!b->args.json)
        printf("machine: %s; read with %s\n", kernel_cpu().name, limits_method(b->limits));
    fflush(stdout);
}

static void crew_begin(struct bench *b, int n_thread)
{
    b->crew = crew_new(n_thread);
    b->limits = limits_new(b->crew);
    b->scratch = aligned_alloc(64, (size_t)K_SCRATCH_BYTES * (size_t)crew_size(b->crew));
    if (!b->scratch)
        abort();
    memset(b->scratch, 0, (size_t)K_SCRATCH_BYTES * (size_t)crew_size(b->crew));
}

static void crew_end(struct bench *b)
{
    free(b->scratch);
    limits_free(b->limits);
    crew_free(b->crew);
}

int tool_bench(int argc, char **argv)
{
    struct bench b = {.rng = 1};
    if (tool_args_parse(&b.args, argc, argv) < 0)
        return 2;
    if (kernel_table_init(&b.table, b.args.variant) < 0) {
        fprintf(stderr, "tandem-kernels: this CPU has no variant %s\n", b.args.variant);
        return 2;
    }
    if (b.args.n_thread != 1) { /* the machine with one thread, for comparison */
        crew_begin(&b, 1);
        machine_measure(&b);
        crew_end(&b);
    }
    crew_begin(&b, b.args.n_thread);
    machine_measure(&b);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        families[i](&b);
        bench_release(&b);
    }
    crew_end(&b);
    return 0;
}
