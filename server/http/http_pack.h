/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole answers in fewer bytes, for clients that take gzip (RFC 9110, 12.5.3). Texts of a few
 * kilobytes and more are packed, up to what packs in some milliseconds: who answers does it, and
 * others wait. Streams come as they are, for each event is to be seen at once.
 *
 * Thread: any.
 */
#ifndef SERVER_HTTP_HTTP_PACK_H
#define SERVER_HTTP_HTTP_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

enum { PACK_LEAST_BYTES = 2 << 10, PACK_MOST_BYTES = 1 << 20 };

/* Whether an answer of this type and size may come packed to anybody. */
bool pack_may(const char *type, size_t n);

/* Whether a header Accept-Encoding takes gzip; NULL: there is none. */
bool pack_is_taken(const char *accept);

/* The body as gzip, in its place; false: it stays as it is, for want of memory or of gain. */
bool pack(struct buf *body);

#endif
