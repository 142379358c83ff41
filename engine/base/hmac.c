/* SPDX-License-Identifier: Apache-2.0
 *
 * Two digests, one inside the other, each begun with the key under a pad of its own.
 */
#include "engine/base/hmac.h"

#include <string.h>

static void begin(struct sha256 *s, const uint8_t key[SHA256_BLOCK_BYTES], uint8_t pad)
{
    uint8_t block[SHA256_BLOCK_BYTES];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    sha256_init(s);
    sha256_add(s, block, sizeof block);
}

void hmac_init(struct hmac *h, const void *key, size_t n)
{
    uint8_t block[SHA256_BLOCK_BYTES] = {0};
    if (n > sizeof block)
        sha256_of(key, n, block);
    else if (n)
        memcpy(block, key, n);
    begin(&h->inner, block, 0x36);
    begin(&h->outer, block, 0x5c);
}

void hmac_add(struct hmac *h, const void *p, size_t n)
{
    sha256_add(&h->inner, p, n);
}

void hmac_end(struct hmac *h, uint8_t digest[SHA256_BYTES])
{
    uint8_t inner[SHA256_BYTES];
    sha256_end(&h->inner, inner);
    sha256_add(&h->outer, inner, sizeof inner);
    sha256_end(&h->outer, digest);
}

bool hmac_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    uint8_t differs = 0;
    for (int i = 0; i < SHA256_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}
