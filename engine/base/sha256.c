/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming around the compression function, and that function in plain C.
 */
#include "engine/base/sha256.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/sha256_block.h"

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
const uint32_t sha256_round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void expand(uint32_t w[64], const uint8_t *p)
{
    for (int i = 0; i < 16; i++)
        w[i] = load_be(p + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) +
               (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
}

/* A round changes two of the eight words; the caller renames the others by its order of arguments.
 */
static inline void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t word)
{
    uint32_t t = *h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + word;
    *d += t;
    *h = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

void sha256_block_plain(uint32_t state[8], const uint8_t *p, size_t n_block)
{
    for (; n_block--; p += SHA256_BLOCK_BYTES) {
        uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4],
                        f = state[5], g = state[6], h = state[7];
        expand(w, p);
        for (int i = 0; i < 64; i++)
            w[i] += sha256_round[i];
        for (int i = 0; i < 64; i += 8) {
            turn(a, b, c, &d, e, f, g, &h, w[i]);
            turn(h, a, b, &c, d, e, f, &g, w[i + 1]);
            turn(g, h, a, &b, c, d, e, &f, w[i + 2]);
            turn(f, g, h, &a, b, c, d, &e, w[i + 3]);
            turn(e, f, g, &h, a, b, c, &d, w[i + 4]);
            turn(d, e, f, &g, h, a, b, &c, w[i + 5]);
            turn(c, d, e, &f, g, h, a, &b, w[i + 6]);
            turn(b, c, d, &e, f, g, h, &a, w[i + 7]);
        }
        const uint32_t end[8] = {a, b, c, d, e, f, g, h};
        for (int i = 0; i < 8; i++)
            state[i] += end[i];
    }
}

/* Chosen once, constant after that. */
static sha256_block_fn *block_fn = sha256_block_plain;
static pthread_once_t block_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    sha256_block_fn *fast = sha256_block_x86();
    if (fast)
        block_fn = fast;
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    pthread_once(&block_once, choose);
    memcpy(s->h, h, sizeof h);
    s->n_bytes = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
    const uint8_t *at = p;
    size_t n_part = s->n_bytes % SHA256_BLOCK_BYTES;
    s->n_bytes += n;
    if (n_part) {
        size_t take = SHA256_BLOCK_BYTES - n_part < n ? SHA256_BLOCK_BYTES - n_part : n;
        memcpy(s->part + n_part, at, take);
        at += take;
        n -= take;
        if (n_part + take < SHA256_BLOCK_BYTES)
            return;
        block_fn(s->h, s->part, 1);
    }
    size_t n_block = n / SHA256_BLOCK_BYTES;
    if (n_block)
        block_fn(s->h, at, n_block);
    n -= n_block * SHA256_BLOCK_BYTES;
    if (n)
        memcpy(s->part, at + n_block * SHA256_BLOCK_BYTES, n);
}

void sha256_end(struct sha256 *s, uint8_t digest[SHA256_BYTES])
{
    static const uint8_t pad[SHA256_BLOCK_BYTES] = {0x80};
    uint64_t n_bits = s->n_bytes * 8;
    uint8_t length[8];
    store_be(length, (uint32_t)(n_bits >> 32));
    store_be(length + 4, (uint32_t)n_bits);
    size_t n_part = s->n_bytes % SHA256_BLOCK_BYTES;
    sha256_add(s, pad, (n_part < 56 ? 56 : 120) - n_part);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++)
        store_be(digest + 4 * i, s->h[i]);
}

void sha256_of(const void *p, size_t n, uint8_t digest[SHA256_BYTES])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, p, n);
    sha256_end(&s, digest);
}

char *sha256_text(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT_BYTES])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}
