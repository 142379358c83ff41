/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens sorted by their bytes are the walk; each gives the nodes that the one before lacks.
 */
#include "engine/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"

enum { MAX_BLOB = 256 << 20 };

struct token_trie *token_trie_ref(struct token_trie *t)
{
    atomic_fetch_add_explicit(&t->n_ref, 1, memory_order_relaxed);
    return t;
}

void token_trie_unref(struct token_trie *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->n_ref, 1, memory_order_acq_rel) != 1)
        return;
    mem_free(t->byte);
    mem_free(t->depth);
    mem_free(t->end);
    mem_free(t->first);
    mem_free(t->id);
    mem_free(t->at);
    free(t->blob);
    free(t);
}

struct marks {
    const int32_t *id;
    size_t n;
};

static bool is_out(const struct tokenizer *tok, struct marks mark, int32_t id)
{
    for (size_t i = 0; i < mark.n; i++)
        if (mark.id[i] == id)
            return false;
    return tokenizer_is_special(tok, id);
}

static int collect_bytes(struct token_trie *t, const struct tokenizer *tok, struct marks mark,
                         struct err *e)
{
    struct buf all;
    struct detok *d = detok_new(tok, false);
    size_t n_known = tokenizer_size(tok), len;
    int rc = 0;
    buf_init(&all, MAX_BLOB);
    for (uint32_t i = 0; i < t->n_id && rc == 0; i++) {
        size_t before = all.len;
        t->at[i] = (uint32_t)before;
        if (i >= n_known || !tokenizer_piece(tok, (int32_t)i, &len) ||
            is_out(tok, mark, (int32_t)i))
            continue;
        rc = detok_bytes(d, (int32_t)i, &all, e);
        len = all.len - before;
        if (len > TOKEN_TRIE_MAX_LEN)
            all.len = before;
        else if (len > t->max_len)
            t->max_len = (uint32_t)len;
    }
    t->at[t->n_id] = (uint32_t)all.len;
    t->blob = buf_take(&all);
    buf_release(&all);
    detok_free(d);
    return rc;
}

static int by_bytes(const void *x, const void *y, void *trie)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    size_t la, lb;
    const char *pa = token_trie_bytes(trie, a, &la), *pb = token_trie_bytes(trie, b, &lb);
    int c = memcmp(pa, pb, la < lb ? la : lb);
    return c ? c : la != lb ? (la > lb) - (la < lb) : (a > b) - (a < b);
}

static size_t shared(const char *x, size_t nx, const char *y, size_t ny)
{
    size_t n = 0;
    while (n < nx && n < ny && x[n] == y[n])
        n++;
    return n;
}

static uint32_t count_nodes(const struct token_trie *t)
{
    uint32_t n = 1;
    const char *last = NULL;
    size_t n_last = 0, len;
    for (uint32_t i = 0; i < t->n_token; i++) {
        const char *p = token_trie_bytes(t, t->id[i], &len);
        n += (uint32_t)(len - shared(p, len, last, n_last));
        last = p;
        n_last = len;
    }
    return n;
}

/* open[d]: the node at depth d on the way to the token that was put last. */
static void put_nodes(struct token_trie *t, uint32_t *open)
{
    const char *last = NULL;
    size_t n_last = 0, len;
    uint32_t n = 1, i = 0;
    open[0] = 0;
    for (; i < t->n_token; i++) {
        const char *p = token_trie_bytes(t, t->id[i], &len);
        size_t keep = shared(p, len, last, n_last);
        for (size_t d = n_last; d > keep; d--)
            t->end[open[d]] = n;
        for (size_t d = keep; d < len; d++, n++) {
            t->byte[n] = (uint8_t)p[d];
            t->depth[n] = (uint16_t)(d + 1);
            t->first[n] = i;
            open[d + 1] = n;
        }
        last = p;
        n_last = len;
    }
    for (size_t d = n_last + 1; d-- > 0;)
        t->end[open[d]] = n;
    t->first[n] = i;
}

struct token_trie *token_trie_new(const struct tokenizer *tok, size_t n_id, struct err *e)
{
    return token_trie_new_with(tok, n_id, NULL, 0, e);
}

struct token_trie *token_trie_new_with(const struct tokenizer *tok, size_t n_id,
                                       const int32_t *mark, size_t n_mark, struct err *e)
{
    struct token_trie *t = xcalloc(1, sizeof *t);
    uint32_t *open = NULL;
    atomic_init(&t->n_ref, 1);
    t->n_id = (uint32_t)n_id;
    t->at = try_alloc(n_id + 1, sizeof *t->at, "bytes of tokens", e);
    t->id = try_alloc(n_id + 1, sizeof *t->id, "tokens by bytes", e);
    if (!t->at || !t->id || collect_bytes(t, tok, (struct marks){mark, n_mark}, e))
        goto fail;
    for (uint32_t i = 0; i < t->n_id; i++)
        if (t->at[i + 1] > t->at[i])
            t->id[t->n_token++] = (int32_t)i;
    qsort_r(t->id, t->n_token, sizeof *t->id, by_bytes, t);
    t->n_node = count_nodes(t);
    t->byte = try_alloc(t->n_node, sizeof *t->byte, "trie of tokens", e);
    t->depth = try_alloc(t->n_node, sizeof *t->depth, "trie of tokens", e);
    t->end = try_alloc(t->n_node, sizeof *t->end, "trie of tokens", e);
    t->first = try_alloc(t->n_node + 1, sizeof *t->first, "trie of tokens", e);
    open = try_alloc(t->max_len + 1, sizeof *open, "trie of tokens", e);
    if (!t->byte || !t->depth || !t->end || !t->first || !open)
        goto fail;
    put_nodes(t, open);
    mem_free(open);
    return t;
fail:
    mem_free(open);
    token_trie_unref(t);
    return NULL;
}
