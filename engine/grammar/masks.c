/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks from their parts. See masks.h.
 */
#include "engine/grammar/masks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"

enum { MAX_KEY_BYTES = 16 << 10, KEY_WHOLE = 1, KEY_OWN = 2 };

typedef VEC(uint32_t) key_words;

struct masks *masks_new(struct grammar *g, struct token_trie *t, size_t max_bytes)
{
    struct masks *m = xcalloc(1, sizeof *m);
    atomic_init(&m->n_ref, 1);
    m->g = grammar_ref(g);
    m->t = token_trie_ref(t);
    m->n_word = (t->n_id + 31) / 32;
    mask_cache_init(&m->cache, m->n_word, max_bytes);
    return m;
}

struct masks *masks_ref(struct masks *m)
{
    atomic_fetch_add_explicit(&m->n_ref, 1, memory_order_relaxed);
    return m;
}

void masks_unref(struct masks *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->n_ref, 1, memory_order_acq_rel) != 1)
        return;
    mask_cache_release(&m->cache);
    grammar_unref(m->g);
    token_trie_unref(m->t);
    free(m);
}

size_t masks_words(const struct masks *m)
{
    return m->n_word;
}

size_t masks_bytes(struct masks *m)
{
    pthread_mutex_lock(&m->cache.lock);
    size_t n = m->cache.bytes;
    pthread_mutex_unlock(&m->cache.lock);
    return n;
}

/* ---- keys ---- */

/* A count past what one token can use up is as good as endless. */
static struct frame clamped(const struct masks *m, struct frame f)
{
    if (f.room == 0)
        return f;
    f.need = f.need > m->t->max_len ? FRAME_FREE : f.need;
    f.room = f.room > m->t->max_len ? FRAME_FREE : f.room;
    return f;
}

static void key_frame(key_words *key, const struct frame *f)
{
    vec_push(key, f->pc);
    vec_push(key, f->room);
    if (f->room)
        vec_push(key, f->need);
}

/* The whole set; false when its stacks are too long to be worth it. */
static bool key_of_set(const struct masks *m, const struct stack *s, const struct place_set *set,
                       key_words *key)
{
    vec_push(key, KEY_WHOLE);
    for (size_t i = 0; i < set->place.n; i++) {
        vec_push(key, set->place.at[i].pc);
        for (uint32_t at = set->place.at[i].stack; at; at = s->frame.at[at].below) {
            struct frame f = clamped(m, s->frame.at[at]);
            key_frame(key, &f);
            if (key->n * sizeof *key->at > MAX_KEY_BYTES)
                return false;
        }
        vec_push(key, UINT32_MAX); /* no instruction has this number */
    }
    return true;
}

/* A place and the repetitions on top of it; *call is the frame under them. */
static void key_of_place(const struct masks *m, const struct stack *s, struct place p,
                         key_words *key, uint32_t *call)
{
    uint32_t at = p.stack;
    vec_push(key, KEY_OWN);
    vec_push(key, p.pc);
    for (; at && s->frame.at[at].room; at = s->frame.at[at].below) {
        struct frame f = clamped(m, s->frame.at[at]);
        key_frame(key, &f);
    }
    *call = at;
}

/* ---- a place's own part ---- */

/* The frames from `at` down to, and without, `bottom`, on the walk's stack. */
static uint32_t copy_frames(const struct masks *m, const struct stack *from, uint32_t at,
                            uint32_t bottom, bool clamp, struct stack *to)
{
    VEC(uint32_t) chain = {0};
    uint32_t top = STACK_BOTTOM;
    bool full = false;
    for (; at != bottom; at = from->frame.at[at].below)
        vec_push(&chain, at);
    while (chain.n > 0) {
        struct frame f = from->frame.at[vec_pop(&chain)];
        f = clamp ? clamped(m, f) : f;
        f.below = top;
        top = stack_push(to, f, &full);
    }
    vec_release(&chain);
    return top;
}

static int too_many_ways(struct err *e)
{
    return err_set(e, ERR_TOO_LARGE,
                   "the constraint can be read in too many ways at once: give each part of it one "
                   "way to be read");
}

static struct cached_mask *make_own(struct masks *m, const struct stack *s, struct place p,
                                    uint32_t call, const key_words *key, struct err *e)
{
    struct walk w;
    struct place_set set = {0};
    walk_nodes exits = {0};
    struct cached_mask *made = NULL;
    uint32_t *bits = try_alloc(m->n_word, sizeof *bits, "mask of tokens", e);
    if (!bits || walk_init(&w, m->g, m->t, e)) {
        mem_free(bits);
        return NULL;
    }
    p.stack = copy_frames(m, s, p.stack, call, true, &w.stack);
    vec_push(&set.place, p);
    walk_branch(&w, 0, &set, bits, &exits);
    if (w.overflowed)
        too_many_ways(e);
    else
        made =
            mask_cache_add(&m->cache, key->at, key->n * sizeof *key->at, bits, exits.at, exits.n);
    vec_release(&exits);
    place_set_release(&set);
    walk_release(&w);
    mem_free(bits);
    return made;
}

static struct cached_mask *own_part(struct masks *m, const struct stack *s, struct place p,
                                    uint32_t *call, struct err *e)
{
    key_words key = {0};
    key_of_place(m, s, p, &key, call);
    struct cached_mask *c = mask_cache_get(&m->cache, key.at, key.n * sizeof *key.at);
    if (!c)
        c = make_own(m, s, p, *call, &key, e);
    vec_release(&key);
    return c;
}

/* ---- the whole ---- */

struct leave {
    uint32_t call;           /* the frame that the rule goes back to */
    struct cached_mask *own; /* got: from where */
};

typedef VEC(struct leave) leaves;

static int by_call(const void *x, const void *y)
{
    const struct leave *a = x, *b = y;
    return (a->call > b->call) - (a->call < b->call);
}

/* What may follow once the running rules have ended, all that go back to one frame together. */
static int walk_leaves(struct masks *m, const struct stack *s, leaves *all, uint32_t *bits,
                       struct err *e)
{
    int rc = 0;
    if (all->n > 1)
        qsort(all->at, all->n, sizeof *all->at, by_call);
    for (size_t i = 0, j; i < all->n && rc == 0; i = j) {
        uint32_t call = all->at[i].call;
        struct walk w;
        struct place_set set = {0};
        if (walk_init(&w, m->g, m->t, e))
            return -1;
        struct place back = {s->frame.at[call].pc, copy_frames(m, s, s->frame.at[call].below,
                                                               STACK_BOTTOM, false, &w.stack)};
        stack_close(&w.stack, &back, 1, &set);
        w.overflowed = set.overflowed;
        for (j = i; j < all->n && all->at[j].call == call; j++)
            for (uint32_t k = 0; k < all->at[j].own->n_exit; k++)
                walk_branch(&w, all->at[j].own->exit[k], &set, bits, NULL);
        if (w.overflowed)
            rc = too_many_ways(e);
        place_set_release(&set);
        walk_release(&w);
    }
    return rc;
}

static int make_whole(struct masks *m, const struct stack *s, const struct place_set *set,
                      uint32_t *bits, struct err *e)
{
    leaves all = {0};
    int rc = 0;
    for (size_t i = 0; i < set->place.n && rc == 0; i++) {
        uint32_t call;
        struct cached_mask *own = own_part(m, s, set->place.at[i], &call, e);
        if (!own) {
            rc = -1;
            break;
        }
        cached_mask_or(own, bits, m->n_word);
        if (own->n_exit && call != STACK_BOTTOM)
            vec_push(&all, (struct leave){call, own});
        else
            mask_cache_put(&m->cache, own);
    }
    if (rc == 0)
        rc = walk_leaves(m, s, &all, bits, e);
    for (size_t i = 0; i < all.n; i++)
        mask_cache_put(&m->cache, all.at[i].own);
    vec_release(&all);
    return rc;
}

int masks_of(struct masks *m, const struct stack *s, const struct place_set *set, uint32_t *bits,
             struct err *e)
{
    key_words key = {0};
    int rc = 0;
    if (set->overflowed)
        return too_many_ways(e);
    bool is_kept = key_of_set(m, s, set, &key);
    size_t n_key = key.n * sizeof *key.at;
    struct cached_mask *c = is_kept ? mask_cache_get(&m->cache, key.at, n_key) : NULL;
    memset(bits, 0, m->n_word * sizeof *bits);
    if (c) {
        cached_mask_or(c, bits, m->n_word);
    } else {
        rc = make_whole(m, s, set, bits, e);
        if (rc == 0 && is_kept)
            c = mask_cache_add(&m->cache, key.at, n_key, bits, NULL, 0);
    }
    if (c)
        mask_cache_put(&m->cache, c);
    vec_release(&key);
    return rc;
}

/* ---- ahead of time ---- */

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The own parts of the places behind an instruction: as they are met first, and in the middle of a
 * long repetition. */
static void warm_at(struct masks *m, struct stack *s, uint32_t pc, struct place_set *set)
{
    const struct code *c = &m->g->code[pc];
    struct place from = {pc, STACK_BOTTOM};
    struct err e = ERR_INIT;
    bool full = false;
    uint32_t call;
    if (c->kind != CODE_BYTE && c->kind != CODE_RANGES && c->kind != CODE_REPEAT)
        return;
    if (c->kind == CODE_REPEAT) {
        struct frame f = {.pc = pc, .need = 0, .room = FRAME_FREE};
        from.pc = m->g->repeat[c->a].body;
        from.stack = stack_push(s, f, &full);
    }
    stack_close(s, &from, 1, set);
    for (size_t i = 0; i < set->place.n; i++) {
        struct cached_mask *own = own_part(m, s, set->place.at[i], &call, &e);
        if (own)
            mask_cache_put(&m->cache, own);
    }
}

void masks_warm(struct masks *m, int cpu_ms)
{
    int64_t until = cpu_ns() + (int64_t)cpu_ms * 1000000;
    struct stack s;
    struct place_set set = {0};
    stack_init(&s, m->g);
    for (uint32_t pc = 0; pc < m->g->n_code && cpu_ns() < until; pc++)
        warm_at(m, &s, pc, &set);
    place_set_release(&set);
    stack_release(&s);
}
