/* SPDX-License-Identifier: Apache-2.0
 *
 * MD5 (RFC 1321), of bytes as they come: for clients that say what they sent by it. It tells
 * damage, not forgery; what we keep ourselves goes by SHA-256.
 *
 * Thread: a struct md5 belongs to one at a time.
 */
#ifndef ENGINE_BASE_MD5_H
#define ENGINE_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

enum { MD5_BYTES = 16, MD5_BLOCK_BYTES = 64, MD5_TEXT_BYTES = 2 * MD5_BYTES + 1 };

struct md5 {
    uint32_t h[4];
    uint64_t n_bytes;
    uint8_t part[MD5_BLOCK_BYTES]; /* the begin of a block; n_bytes says how much */
};

void md5_init(struct md5 *m);
void md5_add(struct md5 *m, const void *p, size_t n);
char *md5_end(struct md5 *m, char text[MD5_TEXT_BYTES]); /* lower hex; init again before the next */

#endif
