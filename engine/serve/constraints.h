/* SPDX-License-Identifier: Apache-2.0
 *
 * The constraints of an engine's texts: compiled once, kept by content with their masks, each
 * tenant's within its share. The tokens' trie is made when the first constraint is asked for.
 *
 * Thread: any.
 */
#ifndef ENGINE_SERVE_CONSTRAINTS_H
#define ENGINE_SERVE_CONSTRAINTS_H

#include "engine/grammar/matcher.h"
#include "engine/serve/gen.h"

struct constraints;

/* tokenizer: borrowed; NULL: there is none, and nothing can be asked for. mark: borrowed, [n_mark]
 * special tokens that calls of tools are written with. */
struct constraints *constraints_new(const struct tokenizer *t, size_t n_vocab, const int32_t *mark,
                                    size_t n_mark);
void constraints_free(struct constraints *c); /* NULL is fine */

/* As engine/engine.h has them. */
struct masks *constraints_find(struct constraints *s, const struct constraint *c, uint64_t tenant);
struct masks *constraints_make(struct constraints *s, const struct constraint *c, uint64_t tenant,
                               struct err *e);

#endif
