/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons, numbers, and running a call whole or in pieces. The generator is splitmix64: a
 * failure is repeated by its seed.
 */
#include "tests/kernels/check.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/gpu.h"

/* ---- numbers ---- */

static uint64_t next(uint64_t *rng)
{
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t check_u64(struct check *c)
{
    return next(&c->rng);
}

int64_t check_below(struct check *c, int64_t n)
{
    return n > 0 ? (int64_t)(check_u64(c) % (uint64_t)n) : 0;
}

static double unit(uint64_t *rng)
{
    return (double)(next(rng) >> 11) * 0x1p-53;
}

double check_unit(struct check *c)
{
    return unit(&c->rng);
}

/* A sum of four uniforms: cheap, of variance 1, never beyond 3.5. */
static double normal_like(uint64_t *rng)
{
    uint64_t a = next(rng), b = next(rng);
    uint64_t sum = (a >> 32) + (a & UINT32_MAX) + (b >> 32) + (b & UINT32_MAX);
    return ((double)sum * 0x1p-32 - 2) * 1.7320508075688772;
}

static float number(uint64_t *rng, enum check_kind kind)
{
    if (kind == CHECK_RANDOM || kind == CHECK_SMALL)
        return (float)((kind == CHECK_SMALL ? 0.05 : 1) * normal_like(rng));
    uint64_t u = next(rng);
    float sign = u & 1 ? -1.0f : 1.0f;
    switch (kind) {
    case CHECK_ZERO:
        return 0.0f * sign;
    case CHECK_DENORMAL:
        return u & 2 ? sign * 0.0f : sign * (float)(u >> 40 & 0xffffff) * 0x1p-149f;
    case CHECK_HUGE:
        return sign * (float)(unit(rng) * 1e17);
    default:
        return NAN;
    }
}

void check_fill(struct check *c, float *x, int64_t n, enum check_kind kind)
{
    static const uint32_t marked = 0x7fc0beefu;
    uint64_t rng = c->rng; /* where a store to x cannot be one to it */
    for (int64_t i = 0; i < n && kind == CHECK_NAN; i++)
        memcpy(x + i, &marked, sizeof marked);
    for (int64_t i = 0; i < n && kind != CHECK_NAN; i++)
        x[i] = number(&rng, kind);
    c->rng = rng;
}

const char *check_kind_name(enum check_kind kind)
{
    static const char *const text[] = {"random", "zero", "denormal", "huge", "", "small", "nan"};
    return text[kind];
}

const int64_t *check_sizes(int *n)
{
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 67, 256, 1001};
    *n = (int)(sizeof sizes / sizeof *sizes);
    return sizes;
}

/* ---- running ---- */

bool check_is_plain(const struct check *c)
{
    return c->table == c->ref;
}

void check_run_row(struct check *c, enum kernel_id id, const void *args)
{
    kernel_run(c->table, id, args, c->scratch);
}

void check_run_layout(struct check *c, enum kernel_id id, const void *args)
{
    kernel_run(c->is_gpu ? c->table : c->ref, id, args, c->scratch);
}

/* What a kernel may expect of its scratch is nothing. */
static void scratch_poison(void *scratch)
{
    memset(scratch, 0xcb, K_SCRATCH_BYTES);
}

void check_run(struct check *c, const void *args)
{
    scratch_poison(c->scratch);
    kernel_run(c->table, c->id, args, c->scratch);
}

void check_run_ref(struct check *c, const void *args)
{
    scratch_poison(c->scratch);
    kernel_run(c->ref, c->id, args, c->scratch);
}

static void run_piece(struct check *c, const void *args, int64_t lo, int64_t hi, void *scratch)
{
    struct k_slice s = {.lo = lo, .hi = hi, .scratch = scratch};
    c->table->fn[c->id](args, &s);
}

static void run_backwards(struct check *c, const void *args, int64_t n_unit)
{
    int64_t step = n_unit > 64 ? n_unit / 64 : 1;
    for (int64_t hi = n_unit; hi > 0; hi -= step)
        run_piece(c, args, hi > step ? hi - step : 0, hi, c->scratch);
}

static void run_random(struct check *c, const void *args, int64_t n_unit)
{
    for (int64_t lo = 0; lo < n_unit;) {
        int64_t hi = lo + 1 + check_below(c, n_unit - lo);
        run_piece(c, args, lo, hi, c->scratch);
        lo = hi;
    }
}

struct job {
    struct check *c;  /* borrowed */
    const void *args; /* borrowed */
    int64_t lo, hi;
    pthread_t thread;
    void *scratch; /* owned */
};

static void *job_main(void *p)
{
    struct job *j = p;
    run_piece(j->c, j->args, j->lo, j->hi, j->scratch);
    return NULL;
}

static void run_threads(struct check *c, const void *args, int64_t n_unit)
{
    enum { N = 3 };
    struct job job[N];
    for (int i = 0; i < N; i++) {
        job[i] =
            (struct job){.c = c, .args = args, .lo = n_unit * i / N, .hi = n_unit * (i + 1) / N};
        job[i].scratch = aligned_alloc(64, K_SCRATCH_BYTES);
        if (!job[i].scratch || pthread_create(&job[i].thread, NULL, job_main, &job[i]) != 0)
            abort();
    }
    for (int i = 0; i < N; i++) {
        pthread_join(job[i].thread, NULL);
        free(job[i].scratch);
    }
}

static void run_order_backward(struct check *c, const void *args, int64_t n_unit)
{
    gpu_order(1);
    run_piece(c, args, 0, n_unit, c->scratch);
    gpu_order(0);
}

static void run_order_random(struct check *c, const void *args, int64_t n_unit)
{
    gpu_order(2);
    run_piece(c, args, 0, n_unit, c->scratch);
    gpu_order(0);
}

struct way {
    void (*run)(struct check *c, const void *args, int64_t n_unit);
    const char *name;
};

static const struct way *ways_of(struct check *c, int *n)
{
    static const struct way cuts[] = {{run_random, "random pieces"},
                                      {run_backwards, "unit by unit"},
                                      {run_threads, "three threads"}};
    static const struct way orders[] = {{run_order_backward, "threads from the last to the first"},
                                        {run_order_random, "threads in random order"}};
    if (c->is_gpu && c->is_short) {
        *n = 1; /* now the one, now the other */
        return &orders[check_below(c, 2)];
    }
    *n = c->is_gpu ? 2 : check_is_plain(c) ? 1 : 3;
    return c->is_gpu ? orders : cuts;
}

void check_slices(struct check *c, const void *args, const struct check_out *out, int n_out)
{
    enum { MAX = 8 };
    void *before[MAX], *first[MAX];
    int64_t n_unit = kernel_shape(c->id, args).n_unit;
    int n_way;
    const struct way *ways = ways_of(c, &n_way);
    if (n_out > MAX)
        abort();
    for (int i = 0; i < n_out; i++)
        before[i] = check_dup(c, out[i].p, out[i].bytes, 4);
    check_run(c, args);
    for (int i = 0; i < n_out; i++)
        first[i] = check_dup(c, out[i].p, out[i].bytes, 4);
    for (int w = 0; w < n_way && n_unit > 0; w++) {
        for (int i = 0; i < n_out; i++)
            memcpy(out[i].p, before[i], out[i].bytes);
        scratch_poison(c->scratch);
        ways[w].run(c, args, n_unit);
        for (int i = 0; i < n_out; i++)
            check_bits(c, ways[w].name, out[i].p, first[i], out[i].bytes);
    }
    for (int i = 0; i < n_out; i++)
        memcpy(out[i].p, first[i], out[i].bytes);
}

/* ---- comparing ---- */

void check_case(struct check *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->what, sizeof c->what, fmt, ap);
    va_end(ap);
}

void check_true(struct check *c, bool ok, const char *fmt, ...)
{
    c->n_comparison++;
    if (ok)
        return;
    if (c->n_fail++ > 0)
        return;
    fflush(stdout);
    fprintf(stderr, "%s %s: %s: ", c->name, c->variant, c->what);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (seed %" PRIu64 ")\n", c->seed);
}

/* The share of its tolerance that a difference uses; above 1 is a fault. */
static double share(double got, double want, double tolerance)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    if (isinf(got) || isinf(want))
        return INFINITY;
    double diff = fabs(got - want);
    return tolerance > 0 ? diff / tolerance : INFINITY;
}

static void judge(struct check *c, const char *name, int64_t i, int64_t n, double got, double want,
                  double sh)
{
    if (sh > c->worst)
        c->worst = sh;
    check_true(c, sh <= 1, "%s[%" PRId64 " of %" PRId64 "]: got %.9g, want %.9g, %.3g tolerances",
               name, i, n, got, want, sh);
}

void check_near_scaled(struct check *c, const char *name, const float *got, const double *want,
                       const double *scale, int64_t n, double rel, double abs)
{
    int64_t at = 0;
    double most = -1;
    for (int64_t i = 0; i < n; i++) {
        double size = scale ? scale[i] : fabs(want[i]);
        double sh = share(got[i], want[i], rel * size + abs);
        if (sh > most)
            most = sh, at = i;
    }
    if (n > 0)
        judge(c, name, at, n, got[at], want[at], most);
}

void check_near_f64(struct check *c, const char *name, const float *got, const double *want,
                    int64_t n, double rel, double abs)
{
    check_near_scaled(c, name, got, want, NULL, n, rel, abs);
}

void check_near(struct check *c, const char *name, const float *got, const float *want, int64_t n,
                double rel, double abs)
{
    int64_t at = 0;
    double most = -1;
    for (int64_t i = 0; i < n; i++) {
        double sh = share(got[i], want[i], rel * fabs((double)want[i]) + abs);
        if (sh > most)
            most = sh, at = i;
    }
    if (n > 0)
        judge(c, name, at, n, got[at], want[at], most);
}

/* The five-point formula: its error is of fourth order, so h can stay far above rounding. */
static double difference(check_loss_fn *loss, const void *ctx, double *x, int64_t i)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1, -8, 8, -1};
    double x0 = x[i], h = 1e-3 * fmax(1, fabs(x0)), sum = 0;
    for (int t = 0; t < 4; t++) {
        x[i] = x0 + at[t] * h;
        sum += weight[t] * loss(ctx, x);
    }
    x[i] = x0;
    return sum / (12 * h);
}

void check_gradient(struct check *c, const char *name, const float *got, const float *x, int64_t n,
                    check_loss_fn *loss, const void *ctx, double rel)
{
    double *at = check_buf(c, (size_t)n * sizeof *at, 8), *want, most = 0;
    want = check_buf(c, (size_t)n * sizeof *want, 8);
    for (int64_t i = 0; i < n; i++)
        at[i] = x[i];
    for (int64_t i = 0; i < n; i++) {
        want[i] = difference(loss, ctx, at, i);
        most = fmax(most, fabs(want[i]));
    }
    check_near_f64(c, name, got, want, n, 0, rel * fmax(most, 0.2));
}

void check_bits(struct check *c, const char *name, const void *got, const void *want, size_t bytes)
{
    const unsigned char *g = got, *w = want;
    size_t at = 0;
    bool same = bytes == 0 || memcmp(g, w, bytes) == 0;
    while (!same && g[at] == w[at])
        at++;
    check_true(c, same, "%s: bits differ first at byte %zu of %zu", name, at, bytes);
}
