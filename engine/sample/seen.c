/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in a row, and a table of their places with linear probing, at most half full.
 */
#include "engine/sample/seen.h"

#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

struct seen {
    uint64_t key;
    int64_t n, n_max;
    uint32_t mask;         /* slots less one */
    struct seen_token *at; /* [n_max], behind the struct */
    uint32_t *slot;        /* [mask + 1]: place in `at` plus one; 0: empty */
};

/* As many tokens as ids can tell apart; a longer text has no more. */
static int64_t entries(int64_t n_tok)
{
    return n_tok < INT32_MAX / 2 ? n_tok : INT32_MAX / 2;
}

static size_t slots(int64_t n_max)
{
    size_t n = 16;
    while (n < 2 * (size_t)n_max)
        n *= 2;
    return n;
}

size_t seen_bytes(int64_t n_tok)
{
    int64_t n = entries(n_tok);
    return sizeof(struct seen) + (size_t)n * sizeof(struct seen_token) +
           slots(n) * sizeof(uint32_t);
}

struct seen *seen_new(int64_t n_tok, struct err *e)
{
    struct seen *s = try_alloc(1, seen_bytes(n_tok), "the counts of a text's tokens", e);
    if (!s)
        return NULL;
    *s = (struct seen){.n_max = entries(n_tok), .at = (struct seen_token *)(void *)(s + 1)};
    s->mask = (uint32_t)slots(s->n_max) - 1;
    s->slot = (uint32_t *)(void *)(s->at + s->n_max);
    memset(s->slot, 0, ((size_t)s->mask + 1) * sizeof *s->slot);
    s->key = map_hash(&s, sizeof(struct seen *));
    return s;
}

void seen_free(struct seen *s)
{
    mem_free(s);
}

/* A bijection of 64 bits whose every input bit reaches every output bit. */
static uint32_t hash(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32 ^ x);
}

/* Its slot, or the empty one where it would be. */
static uint32_t slot_of(const struct seen *s, int32_t id)
{
    uint32_t i = hash(s->key + (uint32_t)id) & s->mask;
    while (s->slot[i] && s->at[s->slot[i] - 1].id != id)
        i = (i + 1) & s->mask;
    return i;
}

int64_t seen_find(const struct seen *s, int32_t id)
{
    return (int64_t)s->slot[slot_of(s, id)] - 1;
}

static struct seen_token *find_or_add(struct seen *s, int32_t id)
{
    uint32_t i = slot_of(s, id);
    if (s->slot[i])
        return &s->at[s->slot[i] - 1];
    ASSERT(s->n < s->n_max);
    s->at[s->n] = (struct seen_token){.id = id};
    s->slot[i] = (uint32_t)++s->n;
    return &s->at[s->n - 1];
}

void seen_prompt(struct seen *s, int32_t id)
{
    find_or_add(s, id);
}

void seen_answer(struct seen *s, int32_t id)
{
    find_or_add(s, id)->n_answer++;
}

const struct seen_token *seen_tokens(const struct seen *s, int64_t *n)
{
    *n = s->n;
    return s->at;
}
