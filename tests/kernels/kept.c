/* SPDX-License-Identifier: Apache-2.0
 *
 * Truths in f64 cost more than the kernels that are held against them, and every level of a row,
 * and often its neighbours, are tried on the same numbers: what was worked out for one is kept for
 * the rest. It is found by a sum of all that it follows from, so that a check cannot be given the
 * truth of other numbers; what is not found is worked out.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check.h"

struct check_kept {
    struct check_kept *next; /* owned */
    uint64_t sum;
    int64_t n;
    double x[];
};

/* Eight bytes at a time: turned, so that no bit is lost upwards, and spread by an odd factor. */
static uint64_t sum_word(uint64_t sum, uint64_t word)
{
    sum = ((sum ^ word) << 31 | (sum ^ word) >> 33) * 0x9e3779b97f4a7c15u;
    return sum + 0x2545f4914f6cdd1du;
}

uint64_t check_sum(uint64_t sum, const void *p, size_t bytes)
{
    const unsigned char *b = p;
    size_t i = 0;
    uint64_t word = 0;
    for (; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, b + i, sizeof word);
        sum = sum_word(sum, word);
    }
    word = 0;
    if (i < bytes)
        memcpy(&word, b + i, bytes - i);
    return sum_word(sum_word(sum, word), bytes);
}

double *check_kept_take(struct check *c, uint64_t sum, int64_t n, bool *is_new)
{
    for (struct check_kept *k = c->kept; k; k = k->next) {
        if (k->sum == sum && k->n == n) {
            *is_new = false;
            return k->x;
        }
    }
    struct check_kept *k = calloc(1, sizeof *k + (size_t)n * sizeof *k->x);
    if (!k)
        abort();
    k->sum = sum;
    k->n = n;
    k->next = c->kept;
    c->kept = k;
    *is_new = true;
    return k->x;
}

void check_kept_free(struct check *c)
{
    while (c->kept) {
        struct check_kept *k = c->kept;
        c->kept = k->next;
        free(k);
    }
}
