/* SPDX-License-Identifier: Apache-2.0
 *
 * Constraints by what they were compiled from, with their masks: a schema that comes again is not
 * compiled again. Up to a number of bytes, those used least recently go first; of one tenant no
 * more than a share, so that nobody's many schemas push out another's one.
 *
 * The key is all that the constraint depends on (its kind, its options, its text); whoever compiles
 * writes it. Keys of different tenants are different constraints.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAMMAR_STORE_H
#define ENGINE_GRAMMAR_STORE_H

#include "engine/grammar/matcher.h"

struct grammar_store;

/* tenant_bytes: of one tenant, at most max_bytes. */
struct grammar_store *grammar_store_new(size_t max_bytes, size_t tenant_bytes);
void grammar_store_free(struct grammar_store *s); /* what was given out stays */

/* A reference, or NULL when it is not there. */
struct masks *grammar_store_get(struct grammar_store *s, uint64_t tenant, const void *key,
                                size_t len);
/* Keeps a reference of its own; when the key is there already nothing changes. */
void grammar_store_add(struct grammar_store *s, uint64_t tenant, const void *key, size_t len,
                       struct masks *m);
size_t grammar_store_bytes(struct grammar_store *s);

#endif
