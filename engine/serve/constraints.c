/* SPDX-License-Identifier: Apache-2.0
 *
 * Two who ask for the same at once may both compile it; the store keeps the first.
 */
#include "engine/serve/constraints.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/grammar/store.h"

enum {
    STORE_BYTES = 256 << 20,
    TENANT_BYTES = 64 << 20,
    MASKS_BYTES = 8 << 20, /* of one constraint */
    WARM_MS = 10
};

struct constraints {
    const struct tokenizer *tokenizer; /* borrowed; NULL */
    size_t n_vocab;
    struct grammar_store *store;
    pthread_mutex_t lock;
    const int32_t *mark; /* borrowed */
    size_t n_mark;
    struct token_trie *trie[2]; /* under lock: NULL until it is wanted; [1]: with the marks */
};

struct constraints *constraints_new(const struct tokenizer *t, size_t n_vocab, const int32_t *mark,
                                    size_t n_mark)
{
    struct constraints *s = xcalloc(1, sizeof *s);
    s->tokenizer = t;
    s->n_vocab = n_vocab;
    s->mark = mark;
    s->n_mark = n_mark;
    s->store = grammar_store_new(STORE_BYTES, TENANT_BYTES);
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void constraints_free(struct constraints *s)
{
    if (!s)
        return;
    grammar_store_free(s->store);
    for (int i = 0; i < 2; i++)
        token_trie_unref(s->trie[i]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Counted. */
static struct token_trie *get_trie(struct constraints *s, const struct constraint *c, struct err *e)
{
    size_t n_mark = c->kind == CONSTRAINT_CALLS || c->close || c->say ? s->n_mark : 0;
    struct token_trie **at = &s->trie[n_mark > 0];
    pthread_mutex_lock(&s->lock);
    if (!*at)
        *at = token_trie_new_with(s->tokenizer, s->n_vocab, s->mark, n_mark, e);
    struct token_trie *t = *at ? token_trie_ref(*at) : NULL;
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* All that it depends on: kind, form, text. */
static char *make_key(const struct constraint *c, size_t *n, struct err *e)
{
    *n = 3 + (size_t)c->text.n;
    char *key = try_alloc(*n, 1, "a constraint's text", e);
    if (!key)
        return NULL;
    key[0] = (char)c->kind;
    key[1] = (char)c->is_compact;
    key[2] = (char)((c->close != NULL) + c->is_open + 4 * (c->say != NULL));
    if (c->text.n)
        memcpy(key + 3, c->text.p, c->text.n);
    return key;
}

static struct grammar *compile_choice(const struct constraint *c, struct err *e)
{
    size_t n = (size_t)c->n_choice;
    struct grammar_text *text = try_alloc(n, sizeof *text, "the choices", e);
    if (!text)
        return NULL;
    for (size_t i = 0; i < n; i++)
        text[i] = (struct grammar_text){c->choice[i].p, c->choice[i].n};
    struct grammar *g = grammar_choice(text, n, &grammar_limits_default, e);
    mem_free(text);
    return g;
}

static struct grammar *compile(const struct constraint *c, struct err *e)
{
    const struct grammar_limits *limits = &grammar_limits_default;
    switch (c->kind) {
    case CONSTRAINT_OBJECT:
        return grammar_json_object(c->is_compact, limits, e);
    case CONSTRAINT_SCHEMA:
        return grammar_schema(c->schema, c->is_compact, limits, e);
    case CONSTRAINT_REGEX:
        return grammar_regex(c->text.p, c->text.n, limits, e);
    case CONSTRAINT_CHOICE:
        return compile_choice(c, e);
    case CONSTRAINT_GBNF:
        return grammar_gbnf(c->text.p, c->text.n, limits, e);
    case CONSTRAINT_CALLS:
        return grammar_calls(c->calls, limits, e);
    case CONSTRAINT_NONE:
        break;
    }
    err_set(e, ERR_BAD_INPUT, "nothing is asked of the text");
    return NULL;
}

static struct grammar_text text_of(const char *s)
{
    return (struct grammar_text){s ? s : "", s ? strlen(s) : 0};
}

static struct grammar *compile_all(const struct constraint *c, struct err *e)
{
    struct grammar *g = compile(c, e);
    if (!g || (!c->close && !c->say))
        return g;
    const struct grammar_part part = {.open = text_of(c->open),
                                      .close = text_of(c->close),
                                      .say = text_of(c->say),
                                      .is_open = c->is_open};
    struct grammar *whole = grammar_behind(g, &part, &grammar_limits_default, e);
    grammar_unref(g);
    return whole;
}

struct masks *constraints_find(struct constraints *s, const struct constraint *c, uint64_t tenant)
{
    struct err e = ERR_INIT;
    size_t n;
    char *key = make_key(c, &n, &e);
    struct masks *m = key ? grammar_store_get(s->store, tenant, key, n) : NULL;
    mem_free(key);
    return m;
}

struct masks *constraints_make(struct constraints *s, const struct constraint *c, uint64_t tenant,
                               struct err *e)
{
    struct masks *m = constraints_find(s, c, tenant);
    struct token_trie *trie = NULL;
    struct grammar *g = NULL;
    char *key = NULL;
    size_t n;
    if (m)
        return m;
    if (!s->tokenizer) {
        err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer to write texts with");
        return NULL;
    }
    key = make_key(c, &n, e);
    g = key ? compile_all(c, e) : NULL;
    trie = g ? get_trie(s, c, e) : NULL;
    m = trie ? masks_new(g, trie, MASKS_BYTES) : NULL;
    if (m) {
        masks_warm(m, WARM_MS);
        grammar_store_add(s->store, tenant, key, n, m);
    }
    if (trie)
        token_trie_unref(trie);
    grammar_unref(g);
    mem_free(key);
    return m;
}
