/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts: a file that comes in pieces, each of which is kept as it comes, and is put
 * together when the client says in which order. As the store has it, and as clients send and see
 * it.
 *
 * Thread: any.
 */
#ifndef API_PARTS_H
#define API_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "api/job.h"
#include "engine/base/md5.h"

#define PARTS_STATES(X)                                                                            \
    X(PENDING, "pending")                                                                          \
    X(COMPLETED, "completed")                                                                      \
    X(CANCELLED, "cancelled")                                                                      \
    X(EXPIRED, "expired")

enum parts_state {
#define STATE(name, text) PARTS_##name,
    PARTS_STATES(STATE)
#undef STATE
        PARTS_STATE_COUNT
};

enum { PARTS_MAX = 10000, PART_BYTES_MAX = 64 << 20, PARTS_KEPT_S = 3600 };

struct parts {
    const char *id, *owner, *purpose, *name, *mime;
    const char *file;  /* that it became; NULL: none yet */
    const char *asked; /* the digest of the completion; NULL */
    int64_t bytes, created, expires;
    int64_t keep_s; /* the file, from its creation; 0: for ever */
    enum parts_state state;
};

struct part {
    const char *id, *upload, *sha256;
    int64_t bytes, created;
};

/* The body of a creation: the name, purpose, type, bytes and keep_s; the texts lie in the arena. */
int parts_ask_parse(const char *body, size_t n, struct arena *a, struct parts *out,
                    struct api_error *e);

/* The body of a completion: ids in their order, in the arena. */
struct parts_order {
    const char **id;
    size_t n;
    char md5[MD5_TEXT_BYTES]; /* in lower case; "": not given */
};
int parts_order_parse(const char *body, size_t n, struct arena *a, struct parts_order *out,
                      struct api_error *e);

void parts_write(struct jout *j, const struct parts *p, const struct file_row *file); /* or NULL */
void part_write(struct jout *j, const struct part *p);

#endif
