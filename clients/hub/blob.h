/* SPDX-License-Identifier: Apache-2.0
 *
 * One file from the hub into the cache: as far as an earlier try came, the rest by a range, all of
 * it held to its hash, and only then given its name. Tries are repeated while they come further,
 * and a few times where they don't.
 *
 * Thread: any; two that want one blob, in one process or several, wait for each other by its lock.
 */
#ifndef CLIENTS_HUB_BLOB_H
#define CLIENTS_HUB_BLOB_H

#include "clients/hub/cache.h"
#include "clients/hub/http.h"

struct hub_blob {
    const char *name;          /* borrowed: what errors call it */
    const char *path;          /* borrowed: below the hub's address */
    char hash[HUB_HASH_BYTES]; /* these two by hub_blob_ask */
    int64_t size;
    _Atomic int64_t got; /* bytes that are there by now */
};

/* What the hub says of the file, and whether it is there already: got is size then. */
int hub_blob_ask(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c, struct err *e);

int hub_blob_get(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c, struct err *e);

#endif
