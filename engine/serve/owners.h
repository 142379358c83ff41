/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose the names of adapters are. A name that nobody claimed is the operator's, and everybody's to
 * use; a claimed one is its owner's, or, where that was said, shared: used by all, changed by its
 * owner alone. A claim does not depend on whether anything is loaded under the name, so that what
 * is not served now is not somebody else's to take either.
 *
 * Thread: any.
 */
#ifndef ENGINE_SERVE_OWNERS_H
#define ENGINE_SERVE_OWNERS_H

#include <stdbool.h>

#include "engine/base/err.h"

struct owners;

struct owners *owners_new(void);
void owners_free(struct owners *o);

/* 1: the name is new, 0: it was this owner's; it is shared as said last. -1 with ERR_EXISTS: it is
 * another's. Their number is the caller's to bound. */
int owners_claim(struct owners *o, const char *name, const char *owner, bool is_shared,
                 struct err *e);
void owners_forget(struct owners *o, const char *name);

bool owners_owns(struct owners *o, const char *name, const char *who); /* it claimed it */
bool owners_may_use(struct owners *o, const char *name, const char *who);
bool owners_may_change(struct owners *o, const char *name, const char *who);

#endif
