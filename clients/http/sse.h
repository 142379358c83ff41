/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of server-sent events, taken apart as its bytes come. Of an event only its data is of
 * interest here; lines of other fields and comments are passed over. An event may come cut at any
 * byte, and its lines may end as any system ends them.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_HTTP_SSE_H
#define CLIENTS_HTTP_SSE_H

#include "engine/base/buf.h"

enum { SSE_BYTES_MAX = 16 << 20 }; /* of one line, and of one event */

/* Told of each event's data, terminated. A result that is not 0 ends the feeding. */
typedef int sse_fn(void *ctx, const char *data, size_t n, struct err *e);

struct sse {
    struct buf line, data;
    bool has_data; /* the event that is under way has any, though it be empty */
    bool after_cr; /* a newline right behind belongs to the line that ended */
};

void sse_init(struct sse *s);
void sse_release(struct sse *s);
void sse_clear(struct sse *s); /* before the next stream */

int sse_feed(struct sse *s, const char *p, size_t n, sse_fn *fn, void *ctx, struct err *e);

#endif
