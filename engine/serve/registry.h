/* SPDX-License-Identifier: Apache-2.0
 *
 * Which adapter a name means now. A name maps to one version; loading under a name that is there
 * switches it to the new version at once, and whoever got the old one keeps it until the end of
 * what it is used for.
 *
 * Names of two kinds. What is loaded (registry_load) stays until it is dropped. What is known
 * (registry_know) has a folder that stays as it is, and is loaded when it is asked for
 * (registry_fetch): of these the one that was not asked for the longest makes place for another,
 * never one that is in use. So any number may be known.
 *
 * Bounded: the number of adapters that are there, an adapter's rank, and the bytes of all versions
 * that are alive, the replaced ones that are still in use among them. Loads wait for each other;
 * nothing else waits for a load.
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
    void (*on_gone)(void *ctx, uint64_t version); /* it made place for another; NULL: nobody asks */
    void *gone_ctx;
};

struct registry *registry_new(const struct model *m, const struct registry_limits *l);
void registry_free(struct registry *r);

/* A name is letters, digits and ". _ - : /", begins with a letter or digit, has no "..", and at
 * most ADAPTER_NAME_BYTES - 1 bytes. */
int registry_check_name(const char *name, struct err *e);

/* Reads a PEFT directory and puts it under the name. *gone: the version that it replaced, 0: none;
 * may be NULL. The name stays as it was when this fails. ERR_BUSY: all places are taken, some of
 * them by what is known and in use, of which one is to leave; ask again. One place is left to what
 * is known, if there are two. */
int registry_load(struct registry *r, const char *name, const char *dir, uint64_t *gone,
                  struct err *e);

/* The folder that the name is loaded from whenever it is asked for; one that the program made
 * (engine/base/made.h) is held to its list then. created: seconds since 1970, for lists. */
int registry_know(struct registry *r, const char *name, const char *dir, int64_t created,
                  struct err *e);
bool registry_knows(struct registry *r, const char *name);

/* As registry_get, loaded where it is known and not there. ERR_BUSY: all places are in use; ask
 * again. ERR_NOT_FOUND: no such name. ERR_TOO_LARGE: there is no place that it could have.
 * ERR_CORRUPT, ERR_UNSUPPORTED: it cannot be read, or not served here, and is barred. */
int registry_fetch(struct registry *r, const char *name, struct adapter **out, struct err *e);

/* ERR_NOT_FOUND: no such name. *gone: 0 where it was only known. */
int registry_drop(struct registry *r, const char *name, uint64_t *gone, struct err *e);

/* A name that is known of, means nothing here, and why, until something is loaded under it or it is
 * dropped. Their number is the caller's to bound. false: it is no such name. */
void registry_bar(struct registry *r, const char *name, const struct err *why);
bool registry_why(struct registry *r, const char *name, struct err *why);

/* Counted: the caller's to unref. NULL: it is not there, or about to make place. */
struct adapter *registry_get(struct registry *r, const char *name);

/* What is there, and what is known. */
struct registry_entry {
    char name[ADAPTER_NAME_BYTES];
    int64_t created, rank;
    uint64_t version; /* 0: it is not there now, and its rank not known */
    bool is_known;
};
/* At most cap of them; how many there are. */
size_t registry_list(struct registry *r, struct registry_entry *at, size_t cap);

size_t registry_bytes(const struct registry *r); /* of all versions that are alive */

#endif
