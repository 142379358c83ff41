/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 (RFC 4648, section 4: with padding).
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_BASE64_H
#define ENGINE_BASE_BASE64_H

#include "engine/base/buf.h"

void base64_write(struct buf *out, const void *p, size_t n); /* appends 4 characters for 3 bytes */

/* Appends the bytes that a text stands for; -1: it is no base64. */
int base64_read(struct buf *out, const char *text, size_t n);

#endif
