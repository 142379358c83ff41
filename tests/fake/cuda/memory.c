/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's memory: a range of addresses that the host has no rights to, but while it is open.
 * Blocks are given from the first room that is large enough, with a rim behind each that must stay
 * as it was; fresh ones hold numbers that are not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake/cuda/fake.h"

enum { ALIGN = 256, RIM = 256, FRESH = 0xff, RIM_BYTE = 0x5a };

struct block {
    char *p;
    size_t bytes;
    struct block *next; /* ascending */
};

static char *base;
static size_t all, used, touched; /* touched: bytes of the range that were ever given out */
static struct block *blocks;
static int n_open;

static void fail(const char *why)
{
    fprintf(stderr, "fake GPU: %s\n", why);
    abort();
}

static void start(void)
{
    const char *size = getenv("FAKE_CUDA_MEMORY");
    if (base)
        return;
    all = size ? strtoull(size, NULL, 10) : (size_t)1 << 30;
    base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        fail("no range of addresses");
}

static void protect(int rights)
{
    if (touched && mprotect(base, touched, rights))
        fail("mprotect");
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
    return room <= all && (size_t)(from - base) <= all - room ? from : NULL;
}

void *fake_memory_new(size_t bytes)
{
    struct block **at, *b;
    start();
    if (bytes > all)
        return NULL;
    size_t room = room_of(bytes);
    char *p = find(room, &at);
    if (!p)
        return NULL;
    size_t end = ((size_t)(p - base) + room + 4095) / 4096 * 4096;
    touched = end > touched ? end < all ? end : all : touched;
    b = malloc(sizeof *b);
    *b = (struct block){.p = p, .bytes = bytes, .next = *at};
    *at = b;
    used += room;
    fake_memory_open();
    protect(PROT_READ | PROT_WRITE); /* where it was open, and has become larger */
    memset(p, FRESH, bytes);
    memset(p + bytes, RIM_BYTE, room - bytes);
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
    memset(b->p, FRESH, b->bytes);
    fake_memory_close();
    *at = b->next;
    used -= room;
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
    return (const char *)p >= base && (const char *)p < base + all;
}

size_t fake_memory_all(void)
{
    start();
    return all;
}

size_t fake_memory_used(void)
{
    return used;
}
