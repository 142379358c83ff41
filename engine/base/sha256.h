/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), of bytes as they come. Runs on the CPU's SHA instructions where it has
 * them.
 *
 * Thread: a struct sha256 belongs to one at a time.
 */
#ifndef ENGINE_BASE_SHA256_H
#define ENGINE_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64, SHA256_TEXT_BYTES = 2 * SHA256_BYTES + 1 };

struct sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t part[SHA256_BLOCK_BYTES]; /* the begin of a block; n_bytes says how much */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t digest[SHA256_BYTES]); /* init again before the next */

void sha256_of(const void *p, size_t n, uint8_t digest[SHA256_BYTES]);
char *sha256_text(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT_BYTES]); /* lower hex */

#endif
