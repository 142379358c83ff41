/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from byte strings to pointers, open addressing with linear probing. The hash is
 * SipHash-1-3 under a key drawn once per process, so that keys sent from outside cannot be chosen
 * to collide. Keys are copied into the map; values are borrowed.
 *
 * Iteration order is the order of insertion, so that nothing printed depends on the key.
 *
 * Thread: one at a time; any number of readers when nobody writes.
 */
#ifndef ENGINE_BASE_MAP_H
#define ENGINE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
    char *key; /* owned by the map, terminated; NULL for a removed entry */
    size_t key_len;
    void *value; /* borrowed */
    uint64_t hash;
};

struct map {
    struct map_entry *entry; /* in insertion order */
    uint32_t *slot;          /* indexes into entry, +1; 0 is empty */
    size_t n_entry, n_live, cap_entry, cap_slot;
};

void map_init(struct map *m);
void map_release(struct map *m);
void *map_get(const struct map *m, const void *key, size_t key_len);        /* NULL when absent */
void *map_put(struct map *m, const void *key, size_t key_len, void *value); /* the old value */
void *map_del(struct map *m, const void *key, size_t key_len);              /* the old value */
void *map_get_str(const struct map *m, const char *key);
void *map_put_str(struct map *m, const char *key, void *value);
void *map_del_str(struct map *m, const char *key);
uint64_t map_hash(const void *key, size_t key_len); /* the keyed hash itself */

/* for (struct map_entry *it = map_next(m, NULL); it; it = map_next(m, it)) */
struct map_entry *map_next(const struct map *m, const struct map_entry *it);

#endif
