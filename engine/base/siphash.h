/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-1-3 (Aumasson and Bernstein): a keyed hash that is quick on short strings and whose
 * collisions nobody finds without the key.
 *
 * Thread: any; there is no state.
 */
#ifndef ENGINE_BASE_SIPHASH_H
#define ENGINE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0, k1;
};

uint64_t siphash(struct siphash_key key, const void *p, size_t n);

#endif
