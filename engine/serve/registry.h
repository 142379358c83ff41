/* SPDX-License-Identifier: Apache-2.0
 *
 * Which adapter a name means now. A name maps to one version; loading under a name that is there
 * switches it to the new version at once, and whoever got the old one keeps it until the end of
 * what it is used for.
 *
 * Bounded: the number of names, an adapter's rank, and the bytes of all versions that are alive,
 * the replaced ones that are still in use among them. Loads wait for each other; nothing else waits
 * for a load.
 *
 * Thread: any. The registry outlives what it gave out.
 */
#ifndef ENGINE_SERVE_REGISTRY_H
#define ENGINE_SERVE_REGISTRY_H

#include "engine/model/adapter.h"

struct registry;

struct registry_limits {
    int64_t n_max, rank_max;
    size_t bytes_max;
    adapter_news_fn *on_news; /* as adapter_options */
    void *news_ctx;
};

struct registry *registry_new(const struct model *m, const struct registry_limits *l);
void registry_free(struct registry *r);

/* A name is letters, digits and ". _ - : /", begins with a letter or digit, has no "..", and at
 * most ADAPTER_NAME_BYTES - 1 bytes. */
int registry_check_name(const char *name, struct err *e);

/* Reads a PEFT directory and puts it under the name. *gone: the version that it replaced, 0: none;
 * may be NULL. The name stays as it was when this fails. */
int registry_load(struct registry *r, const char *name, const char *dir, uint64_t *gone,
                  struct err *e);

/* ERR_NOT_FOUND: no such name. */
int registry_drop(struct registry *r, const char *name, uint64_t *gone, struct err *e);

/* A name that is known, means nothing here, and why, until something is loaded under it or it is
 * dropped. Their number is the caller's to bound. false: it is no such name. */
void registry_bar(struct registry *r, const char *name, const struct err *why);
bool registry_why(struct registry *r, const char *name, struct err *why);

/* Counted: the caller's to unref. NULL: no such name. */
struct adapter *registry_get(struct registry *r, const char *name);

/* The current versions, counted, at most cap of them; how many there are. */
size_t registry_list(struct registry *r, struct adapter **at, size_t cap);

size_t registry_bytes(const struct registry *r); /* of all versions that are alive */

#endif
