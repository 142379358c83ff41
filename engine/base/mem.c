/* SPDX-License-Identifier: Apache-2.0
 *
 * try_alloc puts a header of one cache line before each block: where the block came from and how
 * large it is, so that mem_free can count it off. From MAP_MIN bytes on, blocks are mapped at a
 * 2 MiB boundary and advised to be huge pages: a pass over a model's weights is then not bound by
 * the walks of the page table, and a zeroed block need not be written to be zero. Lazy blocks are
 * mapped from lazy_min bytes on, in small pages, which is what they are for. Under the address
 * sanitizer every block comes from malloc, which guards both its ends.
 *
 * The counters are the process's, like the memory they count.
 */
#include "engine/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEAD_BYTES = 64, HUGE_BYTES = 2 << 20 };

#ifdef __SANITIZE_ADDRESS__
static const size_t map_min = SIZE_MAX, lazy_min = SIZE_MAX;
#else
static const size_t map_min = 4 << 20, lazy_min = 128 << 10;
#endif

/* What a paranoid build writes where nobody should read: all ones is a NaN in f32, bf16, f16. */
enum { FILL_FRESH = 0xa5, FILL_FREED = 0xff };

struct header {
    size_t bytes;     /* as asked for */
    size_t map_bytes; /* 0: of malloc */
};

static struct {
    _Atomic size_t now, peak, n_block;
    _Atomic unsigned long n_call; /* of try_alloc and try_resize, counted when paranoid */
} stat_;

static __attribute__((noreturn)) void out_of_memory(size_t bytes)
{
    fprintf(stderr, "tandem: the machine has no %zu bytes of memory left\n", bytes);
    abort();
}

static void paranoid_fill(void *p, int byte, size_t n)
{
#ifdef TANDEM_PARANOID
    memset(p, byte, n);
#else
    (void)p, (void)byte, (void)n;
#endif
}

static int paranoid_refuses(void)
{
#ifdef TANDEM_PARANOID
    const char *at = getenv("TANDEM_FAIL_ALLOC");
    unsigned long n = 1 + atomic_fetch_add(&stat_.n_call, 1);
    return at && n == strtoul(at, NULL, 10);
#else
    return 0;
#endif
}

void *xmalloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    paranoid_fill(p, FILL_FRESH, bytes);
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        out_of_memory(n * size);
    return p;
}

void *xrealloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, SIZE_MAX);
}

char *xstrndup(const char *s, size_t n)
{
    size_t len = n == SIZE_MAX ? strlen(s) : strnlen(s, n);
    char *copy = xmalloc(len + 1);
    memcpy(copy, s, len);
    copy[len] = 0;
    return copy;
}

/* Maps a little more than is needed and cuts off what lies before the boundary and behind. */
static void *map_huge(size_t bytes, size_t *map_bytes)
{
    size_t page = 4096, need = (bytes + page - 1) & ~(page - 1);
    char *raw =
        mmap(NULL, need + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)raw & (HUGE_BYTES - 1);
    if (before)
        munmap(raw, before);
    if (before < HUGE_BYTES)
        munmap(raw + before + need, HUGE_BYTES - before);
    madvise(raw + before, need, MADV_HUGEPAGE); /* an advice: without huge pages all still works */
    *map_bytes = need;
    return raw + before;
}

static void *map_lazy(size_t bytes, size_t *map_bytes)
{
    size_t page = 4096, need = (bytes + page - 1) & ~(page - 1);
    void *p = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, need, MADV_NOHUGEPAGE);
    *map_bytes = need;
    return p;
}

static void *block_get(size_t bytes, bool is_lazy)
{
    struct header h = {.bytes = bytes};
    void *p = NULL;
    if (bytes > SIZE_MAX / 2) /* rounding up must not wrap */
        return NULL;
    if (is_lazy && bytes >= lazy_min) {
        p = map_lazy(HEAD_BYTES + bytes, &h.map_bytes);
    } else if (bytes >= map_min) {
        p = map_huge(HEAD_BYTES + bytes, &h.map_bytes);
    } else if (!posix_memalign(&p, HEAD_BYTES, HEAD_BYTES + bytes)) {
        memset(p, 0, HEAD_BYTES + bytes);
    }
    if (!p)
        return NULL;
    memcpy(p, &h, sizeof h);
    return (char *)p + HEAD_BYTES;
}

static void *take(size_t n, size_t size, bool is_lazy, const char *what, struct err *e)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        err_set(e, ERR_NO_MEMORY, "%s: %zu times %zu bytes is more than can be addressed", what, n,
                size);
        return NULL;
    }
    void *p = paranoid_refuses() ? NULL : block_get(bytes, is_lazy);
    if (!p) {
        err_set(e, ERR_NO_MEMORY, "%s: no memory for %zu bytes", what, bytes);
        return NULL;
    }
    size_t now = bytes + atomic_fetch_add_explicit(&stat_.now, bytes, memory_order_relaxed);
    size_t peak = atomic_load_explicit(&stat_.peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&stat_.peak, &peak, now))
        ;
    atomic_fetch_add_explicit(&stat_.n_block, 1, memory_order_relaxed);
    return p;
}

void *try_alloc(size_t n, size_t size, const char *what, struct err *e)
{
    return take(n, size, false, what, e);
}

void *try_lazy(size_t n, size_t size, const char *what, struct err *e)
{
    return take(n, size, true, what, e);
}

void mem_free(void *p)
{
    if (!p)
        return;
    struct header h;
    char *base = (char *)p - HEAD_BYTES;
    memcpy(&h, base, sizeof h);
    atomic_fetch_sub_explicit(&stat_.now, h.bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&stat_.n_block, 1, memory_order_relaxed);
    if (h.map_bytes) {
        munmap(base, h.map_bytes);
    } else {
        paranoid_fill(base, FILL_FREED, HEAD_BYTES + h.bytes);
        free(base);
    }
}

void *try_resize(void *p, size_t bytes, const char *what, struct err *e)
{
    void *q = paranoid_refuses() ? NULL : realloc(p, bytes ? bytes : 1);
    if (!q)
        err_set(e, ERR_NO_MEMORY, "%s: no memory for %zu bytes", what, bytes);
    return q;
}

struct mem_stat mem_stat(void)
{
    return (struct mem_stat){
        .now_bytes = atomic_load(&stat_.now),
        .peak_bytes = atomic_load(&stat_.peak),
        .n_block = atomic_load(&stat_.n_block),
    };
}

void mem_peak_reset(void)
{
    atomic_store(&stat_.peak, atomic_load(&stat_.now));
}
