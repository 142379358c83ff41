/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen words a block, four rounds over them; numbers are little-endian, unlike SHA-256's.
 */
#include "engine/base/md5.h"

#include <stdio.h>
#include <string.h>

/* Entry i: the whole part of 2^32 |sin(i + 1)|, as the standard defines them. */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static uint32_t load(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void block(uint32_t h[4], const uint8_t *p)
{
    static const uint8_t turn[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const uint8_t step[4] = {1, 5, 3, 7}, from[4] = {0, 1, 5, 0};
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3];
    for (int i = 0; i < 64; i++) {
        int round = i / 16, s = turn[round][i % 4];
        uint32_t f = round == 0   ? (b & c) | (~b & d)
                     : round == 1 ? (d & b) | (~d & c)
                     : round == 2 ? b ^ c ^ d
                                  : c ^ (b | ~d);
        f += a + sines[i] + load(p + 4 * ((step[round] * i + from[round]) % 16));
        a = d;
        d = c;
        c = b;
        b += f << s | f >> (32 - s);
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
}

void md5_init(struct md5 *m)
{
    *m = (struct md5){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

void md5_add(struct md5 *m, const void *p, size_t n)
{
    const uint8_t *at = p;
    while (n) {
        size_t has = m->n_bytes % MD5_BLOCK_BYTES;
        size_t take = MD5_BLOCK_BYTES - has < n ? MD5_BLOCK_BYTES - has : n;
        memcpy(m->part + has, at, take);
        if (has + take == MD5_BLOCK_BYTES)
            block(m->h, m->part);
        m->n_bytes += take;
        at += take;
        n -= take;
    }
}

char *md5_end(struct md5 *m, char text[MD5_TEXT_BYTES])
{
    static const uint8_t pad[MD5_BLOCK_BYTES] = {0x80};
    uint64_t n_bits = m->n_bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(n_bits >> (8 * i));
    size_t has = m->n_bytes % MD5_BLOCK_BYTES;
    md5_add(m, pad, (has < 56 ? 56 : 120) - has);
    md5_add(m, length, sizeof length);
    for (int i = 0; i < MD5_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", m->h[i / 4] >> (8 * (i % 4)) & 0xff);
    return text;
}
