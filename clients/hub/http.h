/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to a hub, or to where it leads. Redirects are followed by hand, five at most, because
 * of what a hub says on the way: the file's hash and size stand in the first answer, and the bytes
 * lie elsewhere. The token goes to the hub's own scheme, host and port and nowhere else, and an
 * https address leads to no other kind.
 *
 * Thread: one at a time, each with its own.
 */
#ifndef CLIENTS_HUB_HTTP_H
#define CLIENTS_HUB_HTTP_H

#include <stdatomic.h>
#include <stdint.h>

#include "clients/hub/place.h"
#include "engine/base/buf.h"

struct hub_http;

/* Both are borrowed. *stop: who sets it ends the request soon. */
struct hub_http *hub_http_new(const struct hub_place *p, const atomic_bool *stop, struct err *e);
void hub_http_free(struct hub_http *h);

/* What takes an answer's bytes. Begin is called before the first of them: `from` is the place in
 * the file at which they begin. Non-zero ends the request with *e. */
struct hub_sink {
    int (*begin)(void *ctx, int64_t from, struct err *e);
    int (*add)(void *ctx, const void *p, size_t n, struct err *e);
    void *ctx;
};

enum { HUB_HASH_BYTES = 65, HUB_COMMIT_BYTES = 41 };

/* What the answers said; hash and commit "" where they did not, or not as lower hex. */
struct hub_said {
    char hash[HUB_HASH_BYTES]; /* 64 characters: SHA-256; 40: Git's SHA-1 */
    int64_t size;              /* -1: not said */
    int retry_s;               /* how long the hub wants to be left alone; 0: it says nothing */
    int status;                /* of the last answer; 0: there was none */
};

/* GET of a path below the hub's address, from byte `from` on; without a sink a HEAD, which ends
 * with the first answer that says hash and size. Faults that may be gone soon are ERR_BUSY (the
 * hub's) and ERR_IO (the way's); a sink's are its own. */
int hub_http_get(struct hub_http *h, const char *path, int64_t from, const struct hub_sink *sink,
                 struct hub_said *said, struct err *e);

/* Whether another try may help, after *n_try that did not: it has been waited for then, as long as
 * the hub said, or each time twice as long. */
bool hub_http_again(struct hub_http *h, int *n_try, const struct hub_said *said,
                    const struct err *e);
bool hub_http_wait(const struct hub_http *h, int ms); /* true: *stop has ended it */

/* A small answer as a whole, with other tries. */
int hub_http_text(struct hub_http *h, const char *path, struct buf *out, struct err *e);

/* Appends a path with what must be escaped escaped; slashes too, where they are no borders. */
void hub_http_escape(struct buf *out, const char *path, bool keeps_slashes);

#endif
