/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that answers batches: files of requests, in time that nobody else wants. Each line of
 * a file is a call of its route (server/http/inside.h), so that it is answered as over HTTP; so
 * many of them are in flight at once, and the engine runs them while it has nothing else, and in a
 * small part of its steps.
 *
 * The store's row is the truth of a batch's state, and batches/ID below the data directory of its
 * answers: a line is appended for each, and what was killed goes on behind the last whole one. So
 * whatever happens each line is answered once. At the end that becomes two files of the owner's,
 * in the order of the input: answers, and errors.
 *
 * Owners share the places in flight evenly, each by its oldest batch. A full disk ends no batch: it
 * stands until there is room, or its time is over.
 *
 * Thread: any; new, stop and free by one.
 */
#ifndef SERVER_BATCHES_BATCHES_H
#define SERVER_BATCHES_BATCHES_H

#include <stdint.h>

#include "engine/base/err.h"
#include "server/http/call.h"

struct batches;
struct engine;
struct http;
struct metrics;
struct store;

struct batches_options {
    struct store *store; /* borrowed, as the others */
    struct engine *engine;
    struct http *http;
    struct metrics *metrics;
    const char *dir; /* --data-dir */
    size_t at_once;  /* lines in flight */
    /* Who a key's name is, without its limits, and what its files may have (0: any number); false:
     * no key has it any more, and its batches wait until one does. */
    bool (*who)(void *ctx, const char *owner, struct who *out, int64_t *files_quota);
    void *ctx;
};

struct batches *batches_new(const struct batches_options *o, struct err *e);
void batches_wake(struct batches *b); /* a row is new, or has changed */
void batches_stop(
    struct batches *b); /* what is in flight is let go, to be asked again; NULL, twice */
void batches_free(struct batches *b); /* stops, too; NULL is fine */

#endif
