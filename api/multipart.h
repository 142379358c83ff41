/* SPDX-License-Identifier: Apache-2.0
 *
 * multipart/form-data, as it comes in: bytes are pushed in pieces of any size, and go on to the
 * caller in pieces, so that a file of any size passes through a few kilobytes. Strict: what is not
 * by the letter of RFC 7578 is an error, and every name and header has a bound.
 *
 * Thread: one at a time.
 */
#ifndef API_MULTIPART_H
#define API_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "api/error.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEADER_MAX = 4096, /* of one part's headers */
    MULTIPART_NAME_MAX = 256,
    MULTIPART_PARTS_MAX = 64
};

/* What the caller does with a part; -1 with the error ends the reading. */
struct multipart_sink {
    /* name and file are terminated, and gone afterwards; file NULL: a field without one. */
    int (*begin)(void *ctx, const char *name, const char *file, struct api_error *e);
    int (*data)(void *ctx, const char *p, size_t n, struct api_error *e);
    int (*end)(void *ctx, struct api_error *e);
    void *ctx;
};

enum multipart_state {
    MULTIPART_BEFORE,  /* the first boundary */
    MULTIPART_BEHIND,  /* behind a boundary: a line's end, or -- */
    MULTIPART_HEADERS, /* a part's headers */
    MULTIPART_BODY,
    MULTIPART_AFTER, /* the last boundary: what follows is nobody's */
    MULTIPART_FAILED
};

struct multipart {
    struct multipart_sink sink;
    enum multipart_state state;
    char stop[MULTIPART_BOUNDARY_MAX + 8]; /* CR LF -- boundary */
    size_t n_stop, n_match;                /* bytes of stop that stand at the end of the input */
    char header[MULTIPART_HEADER_MAX + 1];
    size_t n_header;
    int n_part;
};

/* type: the request's Content-Type. */
int multipart_init(struct multipart *m, const char *type, const struct multipart_sink *sink,
                   struct api_error *e);
int multipart_push(struct multipart *m, const char *p, size_t n, struct api_error *e);

/* The body is over: were all its parts whole? */
int multipart_finish(struct multipart *m, struct api_error *e);

#endif
