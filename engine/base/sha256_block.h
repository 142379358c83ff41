/* SPDX-License-Identifier: Apache-2.0
 *
 * The compression function of SHA-256 over whole blocks, in plain C and on the SHA instructions of
 * x86. Both give the same state; tests compare them.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_SHA256_BLOCK_H
#define ENGINE_BASE_SHA256_BLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef void sha256_block_fn(uint32_t state[8], const uint8_t *p, size_t n_block);

extern const uint32_t sha256_round[64];

sha256_block_fn sha256_block_plain;
sha256_block_fn *sha256_block_x86(void); /* NULL: this CPU has no such instructions */

#endif
