/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks by what they depend on, up to a number of bytes: those used least recently go first. A mask
 * of few tokens is a list of them, else a bit for each.
 *
 * Thread: any. An entry that was got is counted and stays what it is until it is put back.
 */
#ifndef ENGINE_GRAMMAR_MASK_CACHE_H
#define ENGINE_GRAMMAR_MASK_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/map.h"

struct cached_mask {
    uint32_t n_allowed, n_exit;
    uint32_t *bits; /* owned, or NULL */
    int32_t *id;    /* owned, or NULL: the allowed */
    uint32_t *exit; /* owned: nodes of the trie at which a rule may have ended */
    /* the cache's own */
    struct cached_mask *newer, *older;
    size_t bytes, n_key;
    char *key; /* owned */
    unsigned n_user;
};

struct mask_cache {
    pthread_mutex_t lock;
    struct map entry;
    struct cached_mask *newest, *oldest;
    size_t bytes, max_bytes, n_word;
    uint64_t n_hit, n_miss;
};

void mask_cache_init(struct mask_cache *c, size_t n_word, size_t max_bytes);
void mask_cache_release(struct mask_cache *c);

/* NULL when it is not known. */
struct cached_mask *mask_cache_get(struct mask_cache *c, const void *key, size_t n_key);
/* Copies; the entry is got. */
struct cached_mask *mask_cache_add(struct mask_cache *c, const void *key, size_t n_key,
                                   const uint32_t *bits, const uint32_t *exit, size_t n_exit);
void mask_cache_put(struct mask_cache *c, struct cached_mask *m);

/* bits |= the mask */
void cached_mask_or(const struct cached_mask *m, uint32_t *bits, size_t n_word);

#endif
