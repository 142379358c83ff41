/* SPDX-License-Identifier: Apache-2.0
 *
 * See drawn.h. The table's length is a prime, so that rows of a matrix, whose lengths are round,
 * begin at different places of it.
 */
#include "engine/load/drawn.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/float16.h"

enum { NUMBERS = 1048573, SEED = 1 };

/* Uniform: the half width of deviation 1/64 is sqrt(3)/64. */
uint16_t *drawn_numbers_new(struct err *e)
{
    uint16_t *x = try_alloc(NUMBERS, sizeof *x, "random weights", e);
    for (uint64_t i = 0; x && i < NUMBERS; i++)
        x[i] = bf16_from_f32((float)(rng_unit(SEED, 0, i) - 0.5) * 2 * 1.7320508f / 64);
    return x;
}

struct drawn *drawn_new(const uint16_t *numbers, const char *name, int rank, const int64_t *dim)
{
    struct drawn *d = xcalloc(1, sizeof *d);
    uint64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (uint64_t)(d->dim[i] = dim[i]);
    snprintf(d->name, sizeof d->name, "%s", name);
    d->t = (struct st_tensor){
        .name = d->name, .dim = d->dim, .end = n * sizeof *numbers, .dtype = ST_BF16, .rank = rank};
    d->weight = (struct weight){.t = &d->t, .drawn = numbers};
    return d;
}

/* FNV-1a. */
static uint64_t place_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return h % NUMBERS;
}

static void ones(uint16_t *to, int64_t n)
{
    uint16_t one = bf16_from_f32(1);
    for (int64_t i = 0; i < n; i++)
        to[i] = one;
}

int drawn_read(const struct weight *w, int64_t at, int64_t n, void *dst)
{
    uint16_t *to = dst;
    uint64_t from = (place_of(w->t->name) + (uint64_t)at) % NUMBERS;
    if (w->t->rank < 2) {
        ones(to, n);
        return 0;
    }
    for (uint64_t left = (uint64_t)n, some; left; left -= some, to += some, from = 0) {
        some = NUMBERS - from < left ? NUMBERS - from : left;
        memcpy(to, w->drawn + from, some * sizeof *to);
    }
    return 0;
}
