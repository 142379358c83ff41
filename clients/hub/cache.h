/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a repository's files are kept, in the layout of Hugging Face's own tools, so that they and
 * we find each other's files:
 *
 *     models--ORG--NAME/blobs/HASH              the bytes of a file, by what the hub calls them
 *     models--ORG--NAME/blobs/HASH.incomplete   as far as they came
 *     models--ORG--NAME/snapshots/COMMIT/PATH   a link to the blob
 *     models--ORG--NAME/refs/REVISION           the commit that a branch or tag was when it was
 * pulled .locks/models--ORG--NAME/HASH.lock        held by who fetches the blob
 *
 * Thread: any.
 */
#ifndef CLIENTS_HUB_CACHE_H
#define CLIENTS_HUB_CACHE_H

#include "clients/hub/names.h"
#include "clients/hub/place.h"
#include "clients/hub/spec.h"

struct hub_cache {
    char *repo, *locks; /* owned: folders */
};

void hub_cache_init(struct hub_cache *c, const struct hub_place *p, const char *repo);
void hub_cache_release(struct hub_cache *c);
int hub_cache_mkdirs(const struct hub_cache *c, struct err *e);

/* Names of files; free() them. */
char *hub_cache_blob(const struct hub_cache *c, const char *hash, const char *tail);
char *hub_cache_lock(const struct hub_cache *c, const char *hash);
char *hub_cache_snapshot(const struct hub_cache *c, const char *commit, const char *name);

/* A file of a snapshot leads to a blob. */
int hub_cache_link(const struct hub_cache *c, const char *commit, const char *name,
                   const char *hash, struct err *e);

bool hub_is_commit(const char *rev); /* 40 characters of lower hex */

/* The commit that a revision is, as it was pulled last: free() it; NULL: it never was. */
char *hub_cache_commit(const struct hub_cache *c, const char *rev);
int hub_cache_set_commit(const struct hub_cache *c, const char *rev, const char *commit,
                         struct err *e);

/* The files of a snapshot whose blobs are there. */
void hub_cache_list(const struct hub_cache *c, const char *commit, struct hub_names *out);

#endif
