/* SPDX-License-Identifier: Apache-2.0
 *
 * What a mask is made of, for the matcher. A place's own part depends on its instruction and on the
 * repetitions that run above the last call only, counted no further than a token can reach; it is
 * made once per constraint. What lies behind the end of the running rule is walked with the
 * sequence's own stack, from the few nodes at which the rule may have ended.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAMMAR_MASKS_H
#define ENGINE_GRAMMAR_MASKS_H

#include <stdatomic.h>

#include "engine/grammar/mask_cache.h"
#include "engine/grammar/matcher.h"
#include "engine/grammar/walk.h"

struct masks {
    atomic_uint n_ref;
    struct grammar *g;    /* counted */
    struct token_trie *t; /* counted */
    size_t n_word;
    struct mask_cache cache;
};

/* bits = what the places allow. The set lies in `s`. */
int masks_of(struct masks *m, const struct stack *s, const struct place_set *set, uint32_t *bits,
             struct err *e);

#endif
