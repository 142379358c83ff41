/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's memory: a range of addresses that the host has no rights to, but while it is open.
 * Blocks are given from the first room that is large enough, with a rim behind each that must stay
 * as it was; fresh ones hold numbers that are not (large ones at their beginning). Pools count what
 * they have taken of the GPU's bytes; addresses there are more of, so that no hole between blocks
 * is in anybody's way. Rights are changed at every launch, so the range is asked for in large
 * pages: of small ones there would be thousands to change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake/cuda/fake.h"

enum { ALIGN = 256, RIM = 256, FRESH = 0xff, RIM_BYTE = 0x5a, SPARE = 4, SOILED_MOST = 4 << 20 };
enum { LARGE = 2 << 20 }; /* bytes of a large page */

struct block {
    char *p;
    size_t bytes;
    cudaMemPool_t pool;
    struct block *next; /* ascending */
};

static char *base;
static size_t all, taken; /* bytes of the GPU; of all pools */
static size_t given;      /* bytes of the range that were ever given out: behind it all is FRESH */
static size_t touched;    /* the same in whole large pages, which is what is opened */
static struct block *blocks;
static int n_open;

static void fail(const char *why)
{
    fprintf(stderr, "fake GPU: %s\n", why);
    abort();
}

static void protect(int rights)
{
    if (touched && mprotect(base, touched, rights))
        fail("mprotect");
}

/* At the end: behind the last block no page ends soon, at which a write would be a fault. */
static void look_behind(void)
{
    fake_look(); /* and nobody else comes any more */
    protect(PROT_READ);
    for (size_t i = given; i < touched; i++)
        if ((unsigned char)base[i] != FRESH)
            fail("something wrote behind all blocks");
}

static void start(void)
{
    const char *size = getenv("FAKE_CUDA_MEMORY");
    if (base)
        return;
    all = size ? strtoull(size, NULL, 10) : (size_t)1 << 30;
    char *p = mmap(NULL, SPARE * all + 2 * LARGE, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        fail("no range of addresses");
    base = p + (LARGE - (uintptr_t)p % LARGE) % LARGE;
    madvise(base, SPARE * all, MADV_HUGEPAGE);
    atexit(look_behind);
}

void fake_memory_open(void)
{
    if (n_open++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

void fake_memory_close(void)
{
    if (--n_open == 0)
        protect(PROT_NONE);
}

static size_t room_of(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN + RIM;
}

/* Where `room` bytes fit, behind *at. */
static char *find(size_t room, struct block ***at)
{
    char *from = base;
    for (*at = &blocks; **at; *at = &(**at)->next) {
        if ((size_t)((**at)->p - from) >= room)
            return from;
        from = (**at)->p + room_of((**at)->bytes);
    }
    return (size_t)(from - base) <= SPARE * all - room ? from : NULL;
}

static void soil(char *p, size_t bytes)
{
    memset(p, FRESH, bytes < SOILED_MOST ? bytes : SOILED_MOST);
}

/* Of a pool that has not enough: false: nor has the GPU. */
static bool take(cudaMemPool_t pool, size_t room)
{
    size_t more = pool->used + room > pool->taken ? pool->used + room - pool->taken : 0;
    if (more > all - taken)
        return false;
    if (more)
        fake_count_grown();
    pool->taken += more;
    taken += more;
    return true;
}

void *fake_memory_new(cudaMemPool_t pool, size_t bytes)
{
    struct block **at, *b;
    start();
    bool is_there = fake_count_block() && bytes <= all;
    size_t room = is_there ? room_of(bytes) : 0;
    char *p = is_there ? find(room, &at) : NULL;
    if (!p || !take(pool, room))
        return NULL;
    size_t before = touched, end = (size_t)(p - base) + room;
    given = end > given ? end : given;
    touched = (given + LARGE - 1) / LARGE * LARGE;
    b = malloc(sizeof *b);
    *b = (struct block){.p = p, .bytes = bytes, .pool = pool, .next = *at};
    *at = b;
    pool->used += room;
    fake_memory_open();
    protect(PROT_READ | PROT_WRITE); /* where it was open, and has become larger */
    soil(p, bytes);
    memset(p + bytes, RIM_BYTE, room - bytes);
    if (touched > before)
        soil(base + end, touched - end);
    fake_memory_close();
    return p;
}

bool fake_memory_free(void *p)
{
    struct block **at = &blocks;
    while (*at && (*at)->p != p)
        at = &(*at)->next;
    struct block *b = *at;
    if (!b)
        return false;
    size_t room = room_of(b->bytes);
    fake_memory_open();
    for (size_t i = b->bytes; i < room; i++)
        if ((unsigned char)b->p[i] != RIM_BYTE)
            fail("something wrote behind the end of a block");
    soil(b->p, b->bytes);
    fake_memory_close();
    *at = b->next;
    b->pool->used -= room;
    free(b);
    return true;
}

bool fake_memory_has(const void *p, size_t bytes)
{
    const char *at = p;
    for (const struct block *b = blocks; b; b = b->next)
        if (at >= b->p && at <= b->p + b->bytes && bytes <= (size_t)(b->p + b->bytes - at))
            return true;
    return false;
}

bool fake_memory_is_near(const void *p)
{
    start();
    return (const char *)p >= base && (const char *)p < base + SPARE * all;
}

size_t fake_memory_all(void)
{
    start();
    return all;
}

size_t fake_memory_taken(void)
{
    return taken;
}

void fake_pool_end(cudaMemPool_t pool)
{
    if (pool->used)
        return; /* until its last block comes back, as CUDA has it; here, that ends the process */
    taken -= pool->taken;
    free(pool);
}
