/* SPDX-License-Identifier: Apache-2.0
 *
 * One round per eight bytes and three to finish. Words are read as little-endian; so is the CPU.
 */
#include "engine/base/siphash.h"

#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void round_(struct state *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    round_(s);
    s->v0 ^= word;
}

uint64_t siphash(struct siphash_key key, const void *p, size_t n)
{
    struct state s = {
        .v0 = key.k0 ^ 0x736f6d6570736575,
        .v1 = key.k1 ^ 0x646f72616e646f6d,
        .v2 = key.k0 ^ 0x6c7967656e657261,
        .v3 = key.k1 ^ 0x7465646279746573,
    };
    const unsigned char *at = p;
    uint64_t word, last = (uint64_t)n << 56;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        absorb(&s, word);
    }
    for (size_t i = 0; i < n; i++)
        last |= (uint64_t)at[i] << 8 * i;
    absorb(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 3; i++)
        round_(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
