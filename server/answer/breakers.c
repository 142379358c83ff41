/* SPDX-License-Identifier: Apache-2.0
 *
 * Two who ask for the same new list at once both look for it; the second finds what the first kept.
 */
#include "server/answer/breakers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/tokenizer.h"

enum { TOKEN_BYTES_MAX = 1 << 20, KEY_BYTES_MAX = 64 << 10 };

/* What is kept of one list. */
struct kept {
    const struct tokenizer *tokenizer; /* borrowed; NULL: nothing is */
    size_t n_vocab;
    struct buf key;   /* the breakers, each behind its length */
    uint32_t *breaks; /* owned */
    int32_t *list;    /* owned */
    int32_t n;
    uint64_t used;
};

struct breakers {
    pthread_mutex_t lock;
    struct kept at[BREAKERS_KEPT];
    uint64_t clock, n_look;
};

struct way {
    const struct tokenizer *tokenizer;
    bool begins[256]; /* bytes that breakers begin with */
    uint32_t *breaks; /* a bit for each id */
    int32_t *list;    /* [SAMPLE_LISTS_MAX] */
    int32_t n;
};

/* The token, and behind it what the breaker lacks. */
static int add_sequence(struct way *w, int32_t id, const char *rest, size_t n, struct err *e)
{
    struct tok_list l;
    tok_list_init(&l, n + 16, false);
    int rc = tokenizer_encode(w->tokenizer, rest, n, false, false, &l, e);
    if (!rc && l.n + 2 > (size_t)(SAMPLE_LISTS_MAX - w->n))
        rc = err_set(e, ERR_TOO_LARGE, "they come to more than %d tokens", SAMPLE_LISTS_MAX);
    if (!rc) {
        w->list[w->n++] = (int32_t)l.n + 1;
        w->list[w->n++] = id;
        memcpy(w->list + w->n, l.id, l.n * sizeof *l.id);
        w->n += (int32_t)l.n;
    }
    tok_list_release(&l);
    return rc;
}

static int look(struct way *w, int32_t id, const struct buf *text, const struct gen_text *breaker,
                struct err *e)
{
    if (text->len && memmem(text->data, text->len, breaker->p, breaker->n)) {
        w->breaks[id / 32] |= UINT32_C(1) << id % 32;
        return 0;
    }
    for (size_t n = 1; n < breaker->n && n <= text->len; n++)
        if (!memcmp(text->data + text->len - n, breaker->p, n) &&
            add_sequence(w, id, breaker->p + n, breaker->n - n, e))
            return -1;
    return 0;
}

/* Most tokens hold no byte that a breaker begins with. */
static bool may_hold(const struct way *w, const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (w->begins[(unsigned char)text->data[i]])
            return true;
    return false;
}

static int look_through(struct way *w, const struct gen_text *breaker, size_t n, size_t n_vocab,
                        struct err *e)
{
    struct detok *d = detok_new(w->tokenizer, false);
    struct buf text;
    int rc = 0;
    buf_init(&text, TOKEN_BYTES_MAX);
    for (size_t i = 0; i < n; i++)
        w->begins[(unsigned char)*breaker[i].p] = true;
    for (size_t id = 0; id < n_vocab && !rc; id++) {
        size_t n_byte;
        buf_clear(&text);
        if (!tokenizer_piece(w->tokenizer, (int32_t)id, &n_byte) ||
            detok_bytes(d, (int32_t)id, &text, NULL))
            continue;
        for (size_t i = 0; i < n && !rc && may_hold(w, &text); i++)
            rc = look(w, (int32_t)id, &text, &breaker[i], e);
    }
    buf_release(&text);
    detok_free(d);
    return rc;
}

/* ---- what is kept -------------------------------------------------------------------------- */

struct breakers *breakers_new(void)
{
    struct breakers *b = xcalloc(1, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

static void drop(struct kept *k)
{
    buf_release(&k->key);
    free(k->breaks);
    free(k->list);
    *k = (struct kept){.n = 0};
}

void breakers_free(struct breakers *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < BREAKERS_KEPT; i++)
        drop(&b->at[i]);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

uint64_t breakers_looks(struct breakers *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t n = b->n_look;
    pthread_mutex_unlock(&b->lock);
    return n;
}

static size_t n_word(size_t n_vocab)
{
    return (n_vocab + 31) / 32;
}

static struct kept *find(struct breakers *b, const struct tokenizer *t, size_t n_vocab,
                         const struct buf *key)
{
    for (size_t i = 0; i < BREAKERS_KEPT; i++) {
        struct kept *k = &b->at[i];
        if (k->tokenizer == t && k->n_vocab == n_vocab && k->key.len == key->len &&
            !memcmp(k->key.data, key->data, key->len))
            return k;
    }
    return NULL;
}

/* True: it was kept, and lies in w. */
static bool get(struct breakers *b, struct way *w, size_t n_vocab, const struct buf *key)
{
    if (!b)
        return false;
    pthread_mutex_lock(&b->lock);
    struct kept *k = find(b, w->tokenizer, n_vocab, key);
    if (k) {
        k->used = ++b->clock;
        memcpy(w->breaks, k->breaks, n_word(n_vocab) * sizeof *w->breaks);
        memcpy(w->list, k->list, (size_t)k->n * sizeof *w->list);
        w->n = k->n;
    } else {
        b->n_look++;
    }
    pthread_mutex_unlock(&b->lock);
    return k != NULL;
}

/* In place of what was asked for the longest time ago. */
static void put(struct breakers *b, const struct way *w, size_t n_vocab, const struct buf *key)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    struct kept *k = find(b, w->tokenizer, n_vocab, key);
    if (!k) {
        k = b->at;
        for (size_t i = 1; i < BREAKERS_KEPT; i++)
            k = b->at[i].used < k->used ? &b->at[i] : k;
        drop(k);
        buf_init(&k->key, key->max_bytes);
        buf_add(&k->key, key->data, key->len);
        k->tokenizer = w->tokenizer;
        k->n_vocab = n_vocab;
        k->n = w->n;
        k->breaks = xmalloc(n_word(n_vocab) * sizeof *k->breaks + 1);
        k->list = xmalloc((size_t)w->n * sizeof *k->list + 1);
        memcpy(k->breaks, w->breaks, n_word(n_vocab) * sizeof *k->breaks);
        memcpy(k->list, w->list, (size_t)w->n * sizeof *k->list);
    }
    k->used = ++b->clock;
    pthread_mutex_unlock(&b->lock);
}

/* ---- the face ------------------------------------------------------------------------------ */

int breakers_find(struct breakers *b, const struct tokenizer *t, size_t n_vocab,
                  const struct gen_text *breaker, size_t n, struct arena *a,
                  struct breakers_found *out, struct err *e)
{
    struct way w = {.tokenizer = t};
    struct buf key;
    size_t n_known = n_vocab < tokenizer_size(t) ? n_vocab : tokenizer_size(t);
    w.breaks = arena_try(a, n_word(n_vocab), sizeof *w.breaks, e);
    w.list = w.breaks ? arena_try(a, SAMPLE_LISTS_MAX, sizeof *w.list, e) : NULL;
    if (!w.list)
        return -1;
    buf_init(&key, KEY_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        buf_add(&key, &breaker[i].n, sizeof breaker[i].n);
        buf_add(&key, breaker[i].p, breaker[i].n);
    }
    int rc = buf_check(&key, "dry_sequence_breakers", e);
    if (!rc && !get(b, &w, n_vocab, &key)) {
        rc = look_through(&w, breaker, n, n_known, e);
        if (!rc)
            put(b, &w, n_vocab, &key);
    }
    buf_release(&key);
    *out = (struct breakers_found){.breaks = w.breaks, .list = w.list, .n = w.n};
    return rc;
}

int breakers_encode(struct breakers *b, const struct engine *g, struct api_request *q,
                    struct arena *a, struct api_error *e)
{
    static const char field[] = "dry_sequence_breakers";
    const struct tokenizer *t = engine_tokenizer(g);
    struct breakers_found found;
    struct err why = ERR_INIT;
    if (!sample_is_dry(&q->gen.sample) || !q->n_breaker)
        return 0;
    if (!t)
        return api_fail(e, 400, "unsupported", field,
                        "This model has no tokenizer to find texts with.");
    if (breakers_find(b, t, (size_t)engine_info(g)->n_vocab, q->breaker, q->n_breaker, a, &found,
                      &why))
        return api_fail_err(e, &why, field);
    q->gen.sample.dry_breaks = found.breaks;
    q->gen.sample.dry_breaker = found.list;
    q->gen.sample.n_dry_breaker = found.n;
    return 0;
}
