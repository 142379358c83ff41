/* SPDX-License-Identifier: Apache-2.0
 *
 * FIPS 180-4, 6.1. For small files: nothing here is fast.
 */
#include "clients/hub/sha1.h"

#include <string.h>

void sha1_init(struct sha1 *s)
{
    *s = (struct sha1){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

static uint32_t turned(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void block(struct sha1 *s, const uint8_t *p)
{
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = turned(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        f += turned(a, 5) + e + w[i];
        e = d, d = c, c = turned(b, 30), b = a, a = f;
    }
    s->h[0] += a, s->h[1] += b, s->h[2] += c, s->h[3] += d, s->h[4] += e;
}

void sha1_add(struct sha1 *s, const void *p, size_t n)
{
    const uint8_t *at = p;
    while (n) {
        size_t have = s->n_bytes % SHA1_BLOCK_BYTES, take = SHA1_BLOCK_BYTES - have;
        take = take < n ? take : n;
        memcpy(s->part + have, at, take);
        s->n_bytes += take;
        at += take;
        n -= take;
        if (have + take == SHA1_BLOCK_BYTES)
            block(s, s->part);
    }
}

void sha1_end(struct sha1 *s, uint8_t digest[SHA1_BYTES])
{
    static const uint8_t pad[SHA1_BLOCK_BYTES] = {0x80};
    uint64_t n_bits = s->n_bytes * 8;
    size_t have = s->n_bytes % SHA1_BLOCK_BYTES;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
    sha1_add(s, pad, have < 56 ? 56 - have : 120 - have);
    sha1_add(s, length, sizeof length);
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}
