/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 answer, taken apart as its bytes come: status line, headers, and the body's bytes
 * without their framing (a length, chunks, or until the connection ends). It holds no body: what
 * was received is handed on in place. The headers have a ceiling; a chunk's line too.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_REPLY_H
#define CLIENTS_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum { LOAD_REPLY_HEADERS_BYTES_MAX = 64 << 10, LOAD_REPLY_CHUNK_LINE_MAX = 256 };

enum load_reply_state {
    LOAD_REPLY_HEAD,
    LOAD_REPLY_LENGTH,     /* `left` bytes of the body are to come */
    LOAD_REPLY_CHUNK_LINE, /* the size of a chunk is to come */
    LOAD_REPLY_CHUNK,      /* `left` bytes of a chunk are to come */
    LOAD_REPLY_CHUNK_END,  /* the line's end behind them */
    LOAD_REPLY_TRAILER,
    LOAD_REPLY_UNTIL_CLOSE,
    LOAD_REPLY_OVER
};

struct load_reply {
    enum load_reply_state state;
    struct buf headers; /* of the headers, and then of a chunk's or a trailer's line */
    int64_t left;
    int status;
    bool is_event_stream; /* Content-Type: text/event-stream */
    bool closes;          /* the connection ends with it */
};

enum load_reply_got { LOAD_REPLY_WANTS, LOAD_REPLY_BODY, LOAD_REPLY_DONE, LOAD_REPLY_BAD };

void load_reply_init(struct load_reply *r);
void load_reply_release(struct load_reply *r);
void load_reply_clear(struct load_reply *r); /* before the next answer of the connection */

/* Moves *at up to `end` at most. LOAD_REPLY_BODY: [*body, *body + *n) is of the body, and there may
 * be more behind it; LOAD_REPLY_WANTS: all was read; LOAD_REPLY_DONE: the answer is whole, *at
 * stands behind it.
 */
enum load_reply_got load_reply_next(struct load_reply *r, const char **at, const char *end,
                                    const char **body, size_t *n);

/* The connection was closed: whether the answer is whole nevertheless. */
bool load_reply_may_close(const struct load_reply *r);

#endif
