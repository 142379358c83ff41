/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-1, by which Git names a file's content. It tells a broken transfer from a whole one; against
 * somebody who forges it is of no use, and large files have SHA-256 (engine/base/sha256.h).
 *
 * Thread: a struct sha1 belongs to one at a time.
 */
#ifndef CLIENTS_HUB_SHA1_H
#define CLIENTS_HUB_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20, SHA1_BLOCK_BYTES = 64 };

struct sha1 {
    uint32_t h[5];
    uint64_t n_bytes;
    uint8_t part[SHA1_BLOCK_BYTES]; /* the begin of a block; n_bytes says how much */
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *p, size_t n);
void sha1_end(struct sha1 *s, uint8_t digest[SHA1_BYTES]); /* init again before the next */

#endif
