/* SPDX-License-Identifier: Apache-2.0
 *
 * Two who ask for the same new list at once both look for it; the second finds what the first kept.
 *
 * Looking goes once over the bytes of all tokens: at each only those breakers are compared that
 * begin with the two bytes there, so it hardly costs more for many. These bytes are kept as well.
 */
#include "server/answer/breakers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/token/tokenizer.h"

enum {
    TEXT_BYTES_MAX = 1 << 28,
    KEY_BYTES_MAX = 64 << 10,
    N_BYTE = 256,
    NONE = -1 /* behind the last of a chain */
};

/* What the tokens say, one behind the other. */
struct texts {
    const struct tokenizer *tokenizer; /* borrowed; NULL: nothing was read */
    size_t n;
    uint32_t *at; /* owned: [n + 1] where each begins */
    struct buf bytes;
};

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
    pthread_mutex_t read; /* held while texts are read */
    struct texts texts;   /* constant once read */
};

struct way {
    const struct tokenizer *tokenizer;
    const struct gen_text *breaker;
    size_t n_breaker;
    uint32_t *breaks; /* a bit for each id */
    int32_t *list;    /* [SAMPLE_LISTS_MAX] */
    int32_t n;
};

/* Breakers by how they begin; those of several bytes as chains of their numbers. */
struct chains {
    bool is_one[N_BYTE];          /* one is this byte alone */
    bool begins[N_BYTE];          /* one of several begins with it */
    int32_t two[N_BYTE * N_BYTE]; /* the first that begins with these two */
    int32_t *next;                /* [n_breaker] */
    int32_t *held_by;             /* [n_breaker] the last token that holds it */
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

/* The breakers that begin in the token's end, of those that it does not hold. */
static int add_ends(struct way *w, const struct chains *c, int32_t id, const char *text, size_t len,
                    struct err *e)
{
    for (size_t i = 0; i < w->n_breaker; i++) {
        const struct gen_text *b = &w->breaker[i];
        for (size_t n = 1; c->held_by[i] != id && n < b->n && n <= len; n++)
            if (!memcmp(text + len - n, b->p, n) && add_sequence(w, id, b->p + n, b->n - n, e))
                return -1;
    }
    return 0;
}

static void set_break(const struct way *w, int32_t id)
{
    w->breaks[id / 32] |= UINT32_C(1) << id % 32;
}

/* The breakers of a chain that the token holds from here on. True: it ends in the middle of one. */
static bool hold(const struct way *w, struct chains *c, int32_t first, int32_t id, const char *from,
                 size_t left)
{
    bool is_cut = false;
    for (int32_t i = first; i != NONE; i = c->next[i]) {
        const struct gen_text *b = &w->breaker[i];
        if (memcmp(from, b->p, left < b->n ? left : b->n))
            continue;
        if (left < b->n) {
            is_cut = true;
            continue;
        }
        c->held_by[i] = id;
        set_break(w, id);
    }
    return is_cut;
}

static int look(struct way *w, struct chains *c, int32_t id, const char *text, size_t len,
                struct err *e)
{
    const unsigned char *at = (const unsigned char *)text;
    bool is_cut = len && c->begins[at[len - 1]];
    for (size_t i = 0; i < len; i++) {
        if (c->is_one[at[i]])
            set_break(w, id);
        if (i + 1 < len)
            is_cut |= hold(w, c, c->two[at[i] * N_BYTE + at[i + 1]], id, text + i, len - i);
    }
    return is_cut ? add_ends(w, c, id, text, len, e) : 0;
}

static void link_all(const struct way *w, struct chains *c)
{
    memset(c->two, 0xff, sizeof c->two);
    for (size_t i = 0; i < w->n_breaker; i++) {
        const unsigned char *p = (const unsigned char *)w->breaker[i].p;
        bool is_one = w->breaker[i].n == 1;
        *(is_one ? &c->is_one[*p] : &c->begins[*p]) = true;
        c->held_by[i] = NONE;
        if (is_one)
            continue;
        int32_t *first = &c->two[*p * N_BYTE + p[1]];
        c->next[i] = *first;
        *first = (int32_t)i;
    }
}

static int look_through(struct way *w, const struct texts *t, size_t n_vocab, struct arena *a,
                        struct err *e)
{
    struct chains *c = ARENA_NEW(a, struct chains);
    c->next = ARENA_ARRAY(a, int32_t, w->n_breaker);
    c->held_by = ARENA_ARRAY(a, int32_t, w->n_breaker);
    link_all(w, c);
    for (size_t id = 0; id < n_vocab; id++)
        if (look(w, c, (int32_t)id, t->bytes.data + t->at[id], t->at[id + 1] - t->at[id], e))
            return -1;
    return 0;
}

/* ---- what tokens say ------------------------------------------------------------------------- */

static void texts_release(struct texts *t)
{
    mem_free(t->at);
    buf_release(&t->bytes);
    t->at = NULL;
}

static int texts_read(struct texts *t, const struct tokenizer *tokenizer, struct err *e)
{
    size_t n = tokenizer_size(tokenizer), n_byte;
    *t = (struct texts){.n = n};
    buf_init(&t->bytes, TEXT_BYTES_MAX);
    t->at = try_alloc(n + 1, sizeof *t->at, "where tokens' texts begin", e);
    if (!t->at)
        return -1;
    struct detok *d = detok_new(tokenizer, false);
    for (size_t id = 0; id < n; id++) {
        t->at[id] = (uint32_t)t->bytes.len;
        if (tokenizer_piece(tokenizer, (int32_t)id, &n_byte) &&
            detok_bytes(d, (int32_t)id, &t->bytes, NULL))
            t->bytes.len = t->at[id];
    }
    t->at[n] = (uint32_t)t->bytes.len;
    detok_free(d);
    int rc = buf_reserve(&t->bytes, 1) || t->bytes.failed
                 ? buf_check(&t->bytes, "the texts of tokens", e)
                 : 0;
    if (rc)
        texts_release(t);
    else
        t->tokenizer = tokenizer;
    return rc;
}

/* Those that are kept, read where that is not done; NULL: of another tokenizer. */
static const struct texts *texts_get(struct breakers *b, const struct tokenizer *t, struct err *e)
{
    const struct texts *out = NULL;
    pthread_mutex_lock(&b->read);
    if (b->texts.tokenizer || !texts_read(&b->texts, t, e))
        out = b->texts.tokenizer == t ? &b->texts : NULL;
    pthread_mutex_unlock(&b->read);
    return out;
}

void breakers_read(struct breakers *b, const struct tokenizer *t)
{
    struct err unheard = ERR_INIT; /* then those who ask try again, and are told */
    texts_get(b, t, &unheard);
}

/* With the kept texts, or such as are read for this once. */
static int look_anew(struct breakers *b, struct way *w, size_t n_vocab, struct arena *a,
                     struct err *e)
{
    struct texts own;
    const struct texts *t = b ? texts_get(b, w->tokenizer, e) : NULL;
    if (t)
        return look_through(w, t, n_vocab, a, e);
    if (texts_read(&own, w->tokenizer, e))
        return -1;
    int rc = look_through(w, &own, n_vocab, a, e);
    texts_release(&own);
    return rc;
}

/* ---- what is kept -------------------------------------------------------------------------- */

struct breakers *breakers_new(void)
{
    struct breakers *b = xcalloc(1, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->read, NULL);
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
    texts_release(&b->texts);
    pthread_mutex_destroy(&b->read);
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
    struct way w = {.tokenizer = t, .breaker = breaker, .n_breaker = n};
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
        rc = look_anew(b, &w, n_known, a, e);
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
