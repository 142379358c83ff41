/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 answer, taken apart as its bytes come: status line, headers, and the body's bytes
 * without their framing (a length, chunks, or until the connection ends). It holds no body: what
 * was received is handed on in place. The head has a ceiling; a chunk's line too.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_REPLY_H
#define CLIENTS_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum { REPLY_HEAD_BYTES_MAX = 64 << 10, REPLY_CHUNK_LINE_MAX = 256 };

enum reply_state {
    REPLY_HEAD,
    REPLY_LENGTH,     /* `left` bytes of the body are to come */
    REPLY_CHUNK_LINE, /* the size of a chunk is to come */
    REPLY_CHUNK,      /* `left` bytes of a chunk are to come */
    REPLY_CHUNK_END,  /* the line's end behind them */
    REPLY_TRAILER,
    REPLY_UNTIL_CLOSE,
    REPLY_OVER
};

struct reply {
    enum reply_state state;
    struct buf head; /* of the head, and then of a chunk's or a trailer's line */
    int64_t left;
    int status;
    bool is_event_stream; /* Content-Type: text/event-stream */
    bool closes;          /* the connection ends with it */
};

enum reply_got { REPLY_WANTS, REPLY_BODY, REPLY_DONE, REPLY_BAD };

void reply_init(struct reply *r);
void reply_release(struct reply *r);
void reply_clear(struct reply *r); /* before the next answer of the connection */

/* Moves *at up to `end` at most. REPLY_BODY: [*body, *body + *n) is of the body, and there may be
 * more behind it; REPLY_WANTS: all was read; REPLY_DONE: the answer is whole, *at stands behind it.
 */
enum reply_got reply_next(struct reply *r, const char **at, const char *end, const char **body,
                          size_t *n);

/* The connection was closed: whether the answer is whole nevertheless. */
bool reply_may_close(const struct reply *r);

#endif
