/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries stand in an array in the order they came; a table of slots, at most half full, finds
 * them. A removed entry keeps its slot, so that probing goes on past it, until the array is full:
 * then all is rebuilt without the removed ones.
 */
#include "engine/base/map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"

/* Drawn once, constant after that. */
static struct siphash_key process_key;
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void draw_key(void)
{
    if (getrandom(&process_key, sizeof process_key, 0) != sizeof process_key)
        BUG("the system has no random bytes to give");
}

uint64_t map_hash(const void *key, size_t key_len)
{
    pthread_once(&process_key_once, draw_key);
    return siphash(process_key, key, key_len);
}

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_release(struct map *m)
{
    for (size_t i = 0; i < m->n_entry; i++)
        free(m->entry[i].key);
    free(m->entry);
    free(m->slot);
    map_init(m);
}

static struct map_entry *find(const struct map *m, const void *key, size_t key_len, uint64_t hash)
{
    if (!m->n_live)
        return NULL;
    size_t mask = m->cap_slot - 1;
    for (size_t i = hash & mask; m->slot[i]; i = (i + 1) & mask) {
        struct map_entry *it = &m->entry[m->slot[i] - 1];
        if (it->hash == hash && it->key && it->key_len == key_len &&
            (!key_len || !memcmp(it->key, key, key_len)))
            return it;
    }
    return NULL;
}

static void slot_in(struct map *m, uint32_t index)
{
    size_t mask = m->cap_slot - 1, i = m->entry[index].hash & mask;
    while (m->slot[i])
        i = (i + 1) & mask;
    m->slot[i] = index + 1;
}

/* Room for one more entry: without the removed ones there may be enough, else twice as much. */
static void rebuild(struct map *m)
{
    size_t live = 0;
    for (size_t i = 0; i < m->n_entry; i++)
        if (m->entry[i].key)
            m->entry[live++] = m->entry[i];
    m->n_entry = live;
    if (live * 4 >= m->cap_entry * 3) {
        m->cap_entry = m->cap_entry ? m->cap_entry * 2 : 8;
        m->cap_slot = m->cap_entry * 2;
        ASSERT(m->cap_entry < UINT32_MAX);
        m->entry = xrealloc(m->entry, m->cap_entry * sizeof *m->entry);
        m->slot = xrealloc(m->slot, m->cap_slot * sizeof *m->slot);
    }
    memset(m->slot, 0, m->cap_slot * sizeof *m->slot);
    for (size_t i = 0; i < live; i++)
        slot_in(m, (uint32_t)i);
}

void *map_get(const struct map *m, const void *key, size_t key_len)
{
    const struct map_entry *it = find(m, key, key_len, map_hash(key, key_len));
    return it ? it->value : NULL;
}

void *map_put(struct map *m, const void *key, size_t key_len, void *value)
{
    uint64_t hash = map_hash(key, key_len);
    struct map_entry *it = find(m, key, key_len, hash);
    if (it) {
        void *old = it->value;
        it->value = value;
        return old;
    }
    if (m->n_entry == m->cap_entry)
        rebuild(m);
    char *copy = xmalloc(key_len + 1);
    if (key_len)
        memcpy(copy, key, key_len);
    copy[key_len] = 0;
    m->entry[m->n_entry] = (struct map_entry){copy, key_len, value, hash};
    slot_in(m, (uint32_t)m->n_entry++);
    m->n_live++;
    return NULL;
}

void *map_del(struct map *m, const void *key, size_t key_len)
{
    struct map_entry *it = find(m, key, key_len, map_hash(key, key_len));
    if (!it)
        return NULL;
    void *old = it->value;
    free(it->key);
    it->key = NULL;
    it->value = NULL;
    m->n_live--;
    return old;
}

void *map_get_str(const struct map *m, const char *key)
{
    return map_get(m, key, strlen(key));
}

void *map_put_str(struct map *m, const char *key, void *value)
{
    return map_put(m, key, strlen(key), value);
}

void *map_del_str(struct map *m, const char *key)
{
    return map_del(m, key, strlen(key));
}

struct map_entry *map_next(const struct map *m, const struct map_entry *it)
{
    for (size_t i = it ? (size_t)(it - m->entry) + 1 : 0; i < m->n_entry; i++)
        if (m->entry[i].key)
            return &m->entry[i];
    return NULL;
}
