/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's face for adapters: a part of engine/engine.h, which includes it.
 *
 * Thread: any.
 */
#ifndef ENGINE_SERVE_ADAPTERS_H
#define ENGINE_SERVE_ADAPTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct adapter;
struct engine;

/* Loads a PEFT directory under a name; a name that is there already gets a new version. Where all
 * places are in use it waits for one, half a minute. */
int engine_adapter_load(struct engine *g, const char *name, const char *dir, struct err *e);
int engine_adapter_drop(struct engine *g, const char *name, struct err *e); /* ERR_NOT_FOUND */
struct adapter *engine_adapter_get(struct engine *g, const char *name);     /* counted; or NULL */
void adapter_unref(struct adapter *a);
void engine_adapter_plain_name(char *name); /* what may not stand in a name becomes '-' */

/* A name with a folder that it is loaded from whenever it is asked for, and that makes place for
 * another when nobody uses it: so any number may be known. _get finds it while it is there; _fetch
 * loads it, and is for threads that may wait. ERR_BUSY: all places are in use; ask again.
 * ERR_TOO_LARGE: there is no place for any. ERR_CORRUPT, ERR_UNSUPPORTED: it cannot be read, or not
 * served here, and is barred. */
int engine_adapter_know(struct engine *g, const char *name, const char *dir, int64_t created,
                        struct err *e);
bool engine_adapter_knows(struct engine *g, const char *name);
int engine_adapter_fetch(struct engine *g, const char *name, struct adapter **out, struct err *e);

/* Whose a name is (engine/serve/owners.h): one that nobody claimed is everybody's to use. A claim
 * is made before something is loaded under it, and stands until _disown; ERR_EXISTS: it is
 * another's. load_for does both, and claims nothing where it fails, or the name is the operator's;
 * most: that its owner may have loaded (0: any number), else ERR_NO_SPACE. It waits for no place:
 * ERR_BUSY, ask again. */
int engine_adapter_claim(struct engine *g, const char *name, const char *owner, bool is_shared,
                         struct err *e);
int engine_adapter_load_for(struct engine *g, const char *name, const char *dir, const char *owner,
                            bool is_shared, int64_t most, struct err *e);
/* Drops and disowns in one: no load_for comes between. It waits for one that is under way.
 * ERR_NOT_FOUND: there is none that `who` may change. */
int engine_adapter_drop_for(struct engine *g, const char *name, const char *who, struct err *e);
void engine_adapter_forget(struct engine *g, const char *name); /* so, whoever's it is */
void engine_adapter_disown(struct engine *g, const char *name);
bool engine_adapter_may_use(struct engine *g, const char *name, const char *who);
bool engine_adapter_may_change(struct engine *g, const char *name, const char *who);

/* A name that is not served: who asks is told why, until it is loaded or dropped. ERR_UNSUPPORTED:
 * it is of another base, or holds what nothing here serves; ERR_CORRUPT: its files are altered;
 * false: nothing is known of it. */
void engine_adapter_bar(struct engine *g, const char *name, const struct err *why);
bool engine_adapter_why(struct engine *g, const char *name, struct err *why);

struct engine_adapter_info {
    char name[256];
    int64_t created, rank;
    uint64_t version; /* unique in this process; 0: known, and not there now */
};
size_t engine_adapters(struct engine *g, struct engine_adapter_info *at, size_t cap); /* in all */

#endif
