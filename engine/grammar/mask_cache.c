/* SPDX-License-Identifier: Apache-2.0
 *
 * A map and a list in the order of use.
 */
#include "engine/grammar/mask_cache.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

void mask_cache_init(struct mask_cache *c, size_t n_word, size_t max_bytes)
{
    *c = (struct mask_cache){.n_word = n_word, .max_bytes = max_bytes};
    pthread_mutex_init(&c->lock, NULL);
    map_init(&c->entry);
}

static void entry_free(struct cached_mask *m)
{
    free(m->bits);
    free(m->id);
    free(m->exit);
    free(m->key);
    free(m);
}

void mask_cache_release(struct mask_cache *c)
{
    for (struct cached_mask *m = c->newest, *older; m; m = older) {
        older = m->older;
        ASSERT(m->n_user == 0);
        entry_free(m);
    }
    map_release(&c->entry);
    pthread_mutex_destroy(&c->lock);
}

static void unlink_entry(struct mask_cache *c, struct cached_mask *m)
{
    *(m->newer ? &m->newer->older : &c->newest) = m->older;
    *(m->older ? &m->older->newer : &c->oldest) = m->newer;
    m->newer = m->older = NULL;
}

static void link_newest(struct mask_cache *c, struct cached_mask *m)
{
    m->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = m;
    c->newest = m;
}

static void drop_oldest(struct mask_cache *c)
{
    struct cached_mask *m = c->oldest, *newer;
    for (; m && c->bytes > c->max_bytes; m = newer) {
        newer = m->newer;
        if (m->n_user > 0)
            continue;
        unlink_entry(c, m);
        map_del(&c->entry, m->key, m->n_key);
        c->bytes -= m->bytes;
        entry_free(m);
    }
}

static struct cached_mask *find(struct mask_cache *c, const void *key, size_t n_key)
{
    struct cached_mask *m = map_get(&c->entry, key, n_key);
    if (m) {
        unlink_entry(c, m);
        link_newest(c, m);
        m->n_user++;
    }
    return m;
}

struct cached_mask *mask_cache_get(struct mask_cache *c, const void *key, size_t n_key)
{
    pthread_mutex_lock(&c->lock);
    struct cached_mask *m = find(c, key, n_key);
    *(m ? &c->n_hit : &c->n_miss) += 1;
    pthread_mutex_unlock(&c->lock);
    return m;
}

static void *copy_of(const void *p, size_t bytes)
{
    return bytes ? memcpy(xmalloc(bytes), p, bytes) : NULL;
}

static struct cached_mask *entry_new(size_t n_word, const void *key, size_t n_key,
                                     const uint32_t *bits, const uint32_t *exit, size_t n_exit)
{
    struct cached_mask *m = xcalloc(1, sizeof *m);
    for (size_t i = 0; i < n_word; i++)
        m->n_allowed += (uint32_t)__builtin_popcount(bits[i]);
    bool is_list = m->n_allowed < n_word;
    if (is_list) {
        uint32_t n = 0;
        m->id = xmalloc((m->n_allowed + 1) * sizeof *m->id);
        for (size_t i = 0; i < n_word; i++)
            for (uint32_t w = bits[i]; w; w &= w - 1)
                m->id[n++] = (int32_t)(i * 32 + (size_t)__builtin_ctz(w));
    } else {
        m->bits = copy_of(bits, n_word * sizeof *bits);
    }
    m->exit = copy_of(exit, n_exit * sizeof *exit);
    m->n_exit = (uint32_t)n_exit;
    m->key = copy_of(key, n_key);
    m->n_key = n_key;
    m->bytes = sizeof *m + 2 * n_key + 64 + n_exit * sizeof *exit +
               (is_list ? m->n_allowed * sizeof *m->id : n_word * sizeof *bits);
    m->n_user = 1;
    return m;
}

struct cached_mask *mask_cache_add(struct mask_cache *c, const void *key, size_t n_key,
                                   const uint32_t *bits, const uint32_t *exit, size_t n_exit)
{
    struct cached_mask *m = entry_new(c->n_word, key, n_key, bits, exit, n_exit);
    pthread_mutex_lock(&c->lock);
    struct cached_mask *other = find(c, key, n_key); /* of a thread that was quicker */
    if (!other) {
        map_put(&c->entry, key, n_key, m);
        link_newest(c, m);
        c->bytes += m->bytes;
        drop_oldest(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (other)
        entry_free(m);
    return other ? other : m;
}

void mask_cache_put(struct mask_cache *c, struct cached_mask *m)
{
    pthread_mutex_lock(&c->lock);
    m->n_user--;
    pthread_mutex_unlock(&c->lock);
}

void cached_mask_or(const struct cached_mask *m, uint32_t *bits, size_t n_word)
{
    if (m->bits) {
        for (size_t i = 0; i < n_word; i++)
            bits[i] |= m->bits[i];
        return;
    }
    for (uint32_t i = 0; i < m->n_allowed; i++)
        bits[m->id[i] / 32] |= 1u << m->id[i] % 32;
}
