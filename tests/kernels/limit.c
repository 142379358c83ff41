/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of the machine's limits. A sample of memory reads the next piece of a buffer that is many
 * times the last cache, so that a piece has left the cache when its turn comes again; samples of
 * the caches read their own small piece repeatedly. Each thread has its own pieces and touched them
 * first.
 */
#include "tests/kernels/limit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/kernels.h"

enum { PIECE = 1 << 20, PER_SAMPLE = 64 }; /* a sample of memory: 64 MiB */

static const int stream_choices[] = {1, 2, 4, 8};
static const size_t ahead_choices[] = {0, 512, 2048, 8192};

struct limits {
    struct crew *crew; /* borrowed */
    char *buf;         /* owned */
    size_t bytes, at;  /* at: where the next sample of memory begins */
    size_t l2, l3;     /* sizes of the caches: one L2, the whole L3 */
    limit_read_fn *read;
    limit_dot_fn *dot[LIMIT_UNITS]; /* NULL: no such instructions; f32's is taken */
    int streams;
    size_t ahead;
    int64_t rounds[LIMIT_UNITS]; /* of about half a millisecond */
    char method[96];
    atomic_uint_fast64_t sink;
};

double limits_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The caches as the system describes them; common sizes when it does not. */
static size_t cache_bytes(int index, size_t otherwise)
{
    char path[96], unit = 0;
    size_t size = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%zu%c", &size, &unit) < 1)
            size = 0;
        fclose(f);
    }
    size *= unit == 'M' ? 1u << 20 : unit == 'K' ? 1u << 10 : 1;
    return size ? size : otherwise;
}

struct read_job {
    struct limits *l; /* borrowed */
    size_t at, each;  /* unit u: [at + u * each, ... + each), modulo the buffer */
    int repeat;
    size_t step; /* 0: units of memory; else each unit is a thread's own piece */
};

static void read_units(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct read_job *j = ctx;
    struct limits *l = j->l;
    uint64_t sum = 0;
    for (int64_t u = lo; u < hi; u++) {
        size_t at = j->step ? (size_t)thread * j->step : (j->at + (size_t)u * j->each) % l->bytes;
        for (int r = 0; r < j->repeat; r++)
            sum += l->read(l->buf + at, j->each, l->streams, l->ahead);
    }
    atomic_fetch_add(&l->sink, sum);
}

static double memory_sample(struct limits *l)
{
    struct read_job j = {.l = l, .at = l->at, .each = PIECE, .repeat = 1};
    double t = limits_now();
    crew_run(l->crew, read_units, &j, PER_SAMPLE, 1);
    t = limits_now() - t;
    l->at = (l->at + (size_t)PER_SAMPLE * PIECE) % l->bytes;
    return (double)PER_SAMPLE * PIECE / t;
}

/* Half of a cache, so that what else lives there stays too; one unit per thread and turn. */
static double cache_sample(struct limits *l, size_t each)
{
    int n = crew_size(l->crew);
    each = each / 8192 * 8192;
    int repeat = (int)((4u << 20) / each) + 1;
    struct read_job j = {.l = l, .each = each, .repeat = 1, .step = each};
    crew_run(l->crew, read_units, &j, 4 * n, 1);
    j.repeat = repeat;
    double t = limits_now();
    crew_run(l->crew, read_units, &j, 4 * n, 1);
    t = limits_now() - t;
    return (double)each * repeat * 4 * n / t;
}

static size_t l3_share(const struct limits *l)
{
    size_t share = l->l3 / 2 / (size_t)crew_size(l->crew);
    return share < (8u << 20) ? share : 8u << 20;
}

double limits_memory(struct limits *l, enum limit_level level)
{
    if (level == LIMIT_DRAM)
        return memory_sample(l);
    return cache_sample(l, level == LIMIT_L2 ? l->l2 / 2 : l3_share(l));
}

enum limit_level limits_level(const struct limits *l, double bytes)
{
    if (bytes <= 0.75 * (double)l->l2 * crew_size(l->crew))
        return LIMIT_L2;
    return bytes <= 0.75 * (double)l->l3 ? LIMIT_L3 : LIMIT_DRAM;
}

struct dot_job {
    limit_dot_fn *fn;
    int64_t rounds;
    atomic_int_fast64_t ops;
};

static void dot_units(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct dot_job *j = ctx;
    (void)thread;
    for (int64_t u = lo; u < hi; u++)
        atomic_fetch_add(&j->ops, (int64_t)j->fn(j->rounds));
}

double limits_peak(struct limits *l, enum limit_unit unit)
{
    if (!l->dot[unit])
        unit = LIMIT_F32;
    struct dot_job j = {.fn = l->dot[unit], .rounds = l->rounds[unit]};
    double t = limits_now();
    crew_run(l->crew, dot_units, &j, 4 * crew_size(l->crew), 1);
    t = limits_now() - t;
    return (double)j.ops / t;
}

const char *limits_method(const struct limits *l)
{
    return l->method;
}

static void touch_units(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct limits *l = ctx;
    (void)thread;
    memset(l->buf + lo * PIECE, 1, (size_t)(hi - lo) * PIECE);
}

static void buffer_make(struct limits *l)
{
    l->bytes = 8 * l->l3 < (256u << 20) ? 256u << 20 : 8 * l->l3;
    l->bytes = l->bytes < (1u << 30) ? l->bytes : 1u << 30;
    l->buf = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->buf == MAP_FAILED) {
        perror("memory to measure its speed");
        exit(1);
    }
    madvise(l->buf, l->bytes, MADV_HUGEPAGE);
    crew_run(l->crew, touch_units, l, (int64_t)(l->bytes / PIECE), 1);
}

/* The fastest of a few samples of each way; prints nothing. */
static void method_choose(struct limits *l)
{
    double best = 0;
    int streams = 1;
    size_t ahead = 0;
    for (size_t s = 0; s < sizeof stream_choices / sizeof *stream_choices; s++) {
        for (size_t a = 0; a < sizeof ahead_choices / sizeof *ahead_choices; a++) {
            l->streams = stream_choices[s];
            l->ahead = ahead_choices[a];
            for (int i = 0; i < 5; i++) {
                double rate = memory_sample(l);
                if (rate > best)
                    best = rate, streams = l->streams, ahead = l->ahead;
            }
        }
    }
    l->streams = streams;
    l->ahead = ahead;
    snprintf(l->method, sizeof l->method, "%d streams, prefetch %zu bytes ahead", streams, ahead);
}

static void rounds_choose(struct limits *l)
{
    for (int u = 0; u < LIMIT_UNITS; u++) {
        if (!l->dot[u])
            continue;
        double t = 0;
        for (l->rounds[u] = 1000; t < 2e-4; l->rounds[u] *= 2) {
            t = limits_now();
            l->dot[u](l->rounds[u]);
            t = limits_now() - t;
        }
    }
}

static void loops_choose(struct limits *l)
{
    l->read = limit_read_plain;
    l->dot[LIMIT_F32] = limit_f32_plain;
#if defined(__x86_64__)
    struct k_cpu cpu = kernel_cpu();
    if (cpu.avx2) {
        l->read = limit_read_avx2;
        l->dot[LIMIT_F32] = limit_f32_avx2;
    }
    if (cpu.avx512) {
        l->read = limit_read_avx512;
        l->dot[LIMIT_F32] = limit_f32_avx512;
    }
    if (cpu.avx512_bf16)
        l->dot[LIMIT_BF16] = limit_bf16_avx512;
    if (cpu.avx512 && __builtin_cpu_supports("avx512vnni"))
        l->dot[LIMIT_INT8] = limit_int8_avx512;
#endif
}

struct limits *limits_new(struct crew *w)
{
    struct limits *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->crew = w;
    l->l2 = cache_bytes(2, 1u << 20);
    l->l3 = cache_bytes(3, 32u << 20);
    loops_choose(l);
    rounds_choose(l);
    buffer_make(l);
    method_choose(l);
    return l;
}

void limits_free(struct limits *l)
{
    munmap(l->buf, l->bytes);
    free(l);
}
