/* SPDX-License-Identifier: Apache-2.0
 *
 * Creations that are sent twice: which one an earlier one was. A client says so by an
 * Idempotency-Key, or its library by the count of its retries; then the body must be the same.
 *
 * Thread: retry_read on the call's HTTP thread; the others the desk's.
 */
#ifndef SERVER_DESK_RETRY_H
#define SERVER_DESK_RETRY_H

#include "engine/base/sha256.h"
#include "server/desk/desk.h"

struct retry {
    const char *name; /* under which the same creation is known again; in the arena */
    char body[SHA256_TEXT_BYTES];
    int64_t within_s; /* below 0: nothing is looked for */
};

/* The headers; -1: the errand was answered with what is wrong with them. */
int retry_read(struct call *c, struct errand *t);
void retry_of(struct errand *t, struct retry *out);

/* The key came with another body before. */
enum errand_end retry_conflict(struct api_error *e);

#endif
