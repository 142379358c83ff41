/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers between fences. Each is a mapping of its own that ends in a page without access: a read
 * or write past the end, even by a vector's width, is a fault at once, in every build mode. What
 * lies in the readable pages outside the buffer is poison and is compared when the case ends. A
 * masked vector load does not touch its masked lanes, so correct tails pass.
 *
 * Mappings of a size that a case had and gave back are kept for the next: making them anew, with
 * their pages, would be a fifth of a check's time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/kernels/check.h"
#include "tests/kernels/gpu.h"

enum { PAGE = 4096, LEAD = 64, POISON = 0x5e, FRESH = 0xa5 };

struct check_buf {
    struct check_buf *next; /* owned */
    unsigned char *map;     /* owned; readable up to map + open, then one page without access */
    size_t open;
    unsigned char *p; /* what the check was given */
    size_t bytes;
};

static unsigned char *map_new(size_t open)
{
    unsigned char *map =
        mmap(NULL, open + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + open, PAGE, PROT_NONE) != 0) {
        perror("mapping a fenced buffer");
        abort();
    }
    return map;
}

/* A mapping of that size: one that a case before gave back, or a new one. */
static struct check_buf *buf_take(struct check *c, size_t open)
{
    size_t n_page = open / PAGE;
    struct check_buf *b = n_page < CHECK_SPARE ? c->spare[n_page] : NULL;
    if (b) {
        c->spare[n_page] = b->next;
        return b;
    }
    b = malloc(sizeof *b);
    if (!b)
        abort();
    *b = (struct check_buf){.map = map_new(open), .open = open};
    gpu_map(b->map, open);
    return b;
}

static void buf_free(struct check_buf *b)
{
    gpu_unmap(b->map);
    munmap(b->map, b->open + PAGE);
    free(b);
}

static void buf_give_back(struct check *c, struct check_buf *b)
{
    size_t n_page = b->open / PAGE;
    if (n_page >= CHECK_SPARE) {
        buf_free(b);
        return;
    }
    b->next = c->spare[n_page];
    c->spare[n_page] = b;
}

void check_spare_free(struct check *c)
{
    for (int i = 0; i < CHECK_SPARE; i++) {
        while (c->spare[i]) {
            struct check_buf *b = c->spare[i];
            c->spare[i] = b->next;
            buf_free(b);
        }
    }
}

void *check_buf(struct check *c, size_t bytes, size_t align)
{
    size_t open = (bytes + LEAD + 2 * align + PAGE - 1) / PAGE * PAGE;
    size_t at = (open - bytes) & ~(align - 1);
    if (at % (2 * align) == 0) /* not by chance aligned better than was asked */
        at -= align < LEAD ? align : 0;
    struct check_buf *b = buf_take(c, open);
    b->p = b->map + at;
    b->bytes = bytes;
    memset(b->map, POISON, at);
    memset(b->p, FRESH, bytes);
    memset(b->p + bytes, POISON, open - at - bytes);
    b->next = c->bufs;
    c->bufs = b;
    return b->p;
}

static bool is_poison(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == POISON && memcmp(p, p + 1, n - 1) == 0);
}

void check_begin(struct check *c)
{
    while (c->bufs) {
        struct check_buf *b = c->bufs;
        size_t before = (size_t)(b->p - b->map), after = b->open - before - b->bytes;
        check_true(c, is_poison(b->map, before), "written before a buffer of %zu bytes", b->bytes);
        check_true(c, is_poison(b->p + b->bytes, after), "written past a buffer of %zu bytes",
                   b->bytes);
        c->bufs = b->next;
        buf_give_back(c, b);
    }
}

float *check_floats(struct check *c, int64_t n, enum check_kind kind)
{
    float *x = check_buf(c, (size_t)n * sizeof *x, sizeof *x);
    check_fill(c, x, n, kind);
    return x;
}

void *check_dup(struct check *c, const void *p, size_t bytes, size_t align)
{
    void *q = check_buf(c, bytes, align);
    if (bytes)
        memcpy(q, p, bytes);
    return q;
}
