/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC-SHA-256 (RFC 2104): a digest of bytes that only who has the key can make or check.
 *
 * Thread: a struct hmac belongs to one at a time.
 */
#ifndef ENGINE_BASE_HMAC_H
#define ENGINE_BASE_HMAC_H

#include <stdbool.h>

#include "engine/base/sha256.h"

struct hmac {
    struct sha256 inner, outer;
};

void hmac_init(struct hmac *h, const void *key, size_t n);
void hmac_add(struct hmac *h, const void *p, size_t n);
void hmac_end(struct hmac *h, uint8_t digest[SHA256_BYTES]);

/* In a time that does not tell where they differ. */
bool hmac_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
