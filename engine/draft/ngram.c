/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot holds the place that followed, 0 for none: nothing follows nothing. Who comes later takes
 * the slot; what was there is older.
 */
#include "engine/draft/ngram.h"

#include "engine/base/mem.h"

enum { SLOTS_MIN = 64, SLOTS_MAX = 1 << 16 };

struct ngram {
    int64_t n_read;                    /* tokens entered, each as what follows those before it */
    uint32_t mask;                     /* slots of a table less one */
    int32_t *after_short, *after_long; /* [mask + 1], behind the struct */
};

static size_t slots(int64_t n_max)
{
    size_t n = SLOTS_MIN;
    while (n < SLOTS_MAX && (int64_t)n < n_max)
        n *= 2;
    return n;
}

size_t ngram_bytes(int64_t n_max)
{
    return sizeof(struct ngram) + 2 * slots(n_max) * sizeof(int32_t);
}

struct ngram *ngram_new(int64_t n_max, struct err *e)
{
    struct ngram *g = try_lazy(1, ngram_bytes(n_max), "the places of a text's tokens", e);
    if (!g)
        return NULL;
    g->mask = (uint32_t)slots(n_max) - 1;
    g->after_short = (int32_t *)(g + 1);
    g->after_long = g->after_short + g->mask + 1;
    return g;
}

void ngram_free(struct ngram *g)
{
    mem_free(g);
}

/* Of the n tokens before a place. Collisions cost a guess, so they need no key. */
static uint32_t hash(const struct ngram *g, const int32_t *end, int64_t n)
{
    uint64_t h = 0;
    for (int64_t i = n; i > 0; i--)
        h = (h ^ (uint32_t)end[-i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & g->mask;
}

void ngram_read(struct ngram *g, const int32_t *token, int64_t n)
{
    for (int64_t i = g->n_read; i < n; i++) {
        if (i >= NGRAM_SHORT)
            g->after_short[hash(g, token + i, NGRAM_SHORT)] = (int32_t)i;
        if (i >= NGRAM_LONG)
            g->after_long[hash(g, token + i, NGRAM_LONG)] = (int32_t)i;
    }
    g->n_read = n > g->n_read ? n : g->n_read;
}

/* Tokens before `at` that are the last ones of the text. */
static int64_t matches(const int32_t *token, int64_t n, int64_t at)
{
    int64_t k = 0, most = at < NGRAM_MATCH_MAX ? at : NGRAM_MATCH_MAX;
    while (k < most && token[at - 1 - k] == token[n - 1 - k])
        k++;
    return k;
}

int64_t ngram_find(const struct ngram *g, const int32_t *token, int64_t n, int64_t hint,
                   int64_t *n_match)
{
    int64_t at = hint, best = hint > 0 ? matches(token, n, hint) : 0;
    for (int64_t len = NGRAM_LONG; len >= NGRAM_SHORT && best < len;
         len -= NGRAM_LONG - NGRAM_SHORT) {
        const int32_t *after = len == NGRAM_LONG ? g->after_long : g->after_short;
        int64_t other = n > len ? after[hash(g, token + n, len)] : 0;
        int64_t k = other > 0 ? matches(token, n, other) : 0;
        if (k < NGRAM_SHORT || k <= best)
            continue;
        at = other;
        best = k;
    }
    *n_match = best;
    return at > 0 ? at : -1;
}
