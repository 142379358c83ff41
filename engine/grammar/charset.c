/* SPDX-License-Identifier: Apache-2.0
 *
 * The algebra of sets of characters.
 */
#include "engine/grammar/charset.h"

#include <stdlib.h>
#include <string.h>

enum { SURROGATE_LO = 0xd800, SURROGATE_HI = 0xdfff };

void charset_add(struct budget *b, struct charset *s, uint32_t lo, uint32_t hi)
{
    if (lo > hi || lo > CHAR_MAX_CODE)
        return;
    hi = hi > CHAR_MAX_CODE ? CHAR_MAX_CODE : hi;
    if (lo < SURROGATE_LO && hi >= SURROGATE_LO) {
        list_push(b, s, (struct char_range){lo, SURROGATE_LO - 1});
        lo = SURROGATE_LO;
    }
    if (lo >= SURROGATE_LO && lo <= SURROGATE_HI)
        lo = SURROGATE_HI + 1;
    if (lo <= hi)
        list_push(b, s, (struct char_range){lo, hi});
}

static int by_lo(const void *x, const void *y)
{
    const struct char_range *a = x, *b = y;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

/* Ranges on both sides of the surrogates stay apart. */
static bool joins(const struct char_range *x, const struct char_range *y)
{
    return y->lo <= x->hi + 1;
}

void charset_tidy(struct charset *s)
{
    uint32_t n = 0;
    if (!s->n)
        return;
    qsort(s->at, s->n, sizeof *s->at, by_lo);
    for (uint32_t i = 1; i < s->n; i++) {
        if (!joins(&s->at[n], &s->at[i]))
            s->at[++n] = s->at[i];
        else if (s->at[i].hi > s->at[n].hi)
            s->at[n].hi = s->at[i].hi;
    }
    s->n = n + 1;
}

struct charset charset_not(struct budget *b, const struct charset *s)
{
    struct charset out = {0};
    uint32_t lo = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].lo > lo)
            charset_add(b, &out, lo, s->at[i].lo - 1);
        lo = s->at[i].hi + 1;
    }
    charset_add(b, &out, lo, CHAR_MAX_CODE);
    return out;
}

struct charset charset_and(struct budget *b, const struct charset *x, const struct charset *y)
{
    struct charset out = {0};
    for (uint32_t i = 0, j = 0; i < x->n && j < y->n;) {
        uint32_t lo = x->at[i].lo > y->at[j].lo ? x->at[i].lo : y->at[j].lo;
        uint32_t hi = x->at[i].hi < y->at[j].hi ? x->at[i].hi : y->at[j].hi;
        charset_add(b, &out, lo, hi);
        if (x->at[i].hi < y->at[j].hi)
            i++;
        else
            j++;
    }
    return out;
}

void charset_add_set(struct budget *b, struct charset *s, const struct charset *more)
{
    for (uint32_t i = 0; i < more->n; i++)
        charset_add(b, s, more->at[i].lo, more->at[i].hi);
    charset_tidy(s);
}

struct charset charset_any(struct budget *b)
{
    struct charset none = {0};
    return charset_not(b, &none);
}

bool charset_has(const struct charset *s, uint32_t c)
{
    uint32_t lo = 0, hi = s->n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->at[mid].hi < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->at[lo].lo <= c;
}

bool charset_same(const struct charset *x, const struct charset *y)
{
    return x->n == y->n && (!x->n || !memcmp(x->at, y->at, x->n * sizeof *x->at));
}
