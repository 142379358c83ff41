/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole vocabulary is looked through, since any token may hold a breaker inside of it.
 */
#include "server/answer/breakers.h"

#include <string.h>

#include "engine/token/tokenizer.h"

enum { TOKEN_BYTES_MAX = 1 << 20 };

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

static int look_through(struct way *w, const struct api_request *q, size_t n_vocab, struct err *e)
{
    struct detok *d = detok_new(w->tokenizer, false);
    struct buf text;
    int rc = 0;
    buf_init(&text, TOKEN_BYTES_MAX);
    for (size_t i = 0; i < q->n_breaker; i++)
        w->begins[(unsigned char)*q->breaker[i].p] = true;
    for (size_t id = 0; id < n_vocab && !rc; id++) {
        size_t n;
        buf_clear(&text);
        if (!tokenizer_piece(w->tokenizer, (int32_t)id, &n) ||
            detok_bytes(d, (int32_t)id, &text, NULL))
            continue;
        for (size_t i = 0; i < q->n_breaker && !rc && may_hold(w, &text); i++)
            rc = look(w, (int32_t)id, &text, &q->breaker[i], e);
    }
    buf_release(&text);
    detok_free(d);
    return rc;
}

int breakers_encode(const struct engine *g, struct api_request *q, struct arena *a,
                    struct api_error *e)
{
    static const char field[] = "dry_sequence_breakers";
    struct err why = ERR_INIT;
    struct way w = {.tokenizer = engine_tokenizer(g)};
    size_t n_vocab = (size_t)engine_info(g)->n_vocab;
    if (!sample_is_dry(&q->gen.sample) || !q->n_breaker)
        return 0;
    if (!w.tokenizer)
        return api_fail(e, 400, "unsupported", field,
                        "This model has no tokenizer to find texts with.");
    if (n_vocab > tokenizer_size(w.tokenizer))
        n_vocab = tokenizer_size(w.tokenizer);
    w.breaks = arena_try(a, (size_t)(engine_info(g)->n_vocab + 31) / 32, sizeof *w.breaks, &why);
    w.list = w.breaks ? arena_try(a, SAMPLE_LISTS_MAX, sizeof *w.list, &why) : NULL;
    if (!w.list || look_through(&w, q, n_vocab, &why))
        return api_fail_err(e, &why, field);
    q->gen.sample.dry_breaks = w.breaks;
    q->gen.sample.dry_breaker = w.list;
    q->gen.sample.n_dry_breaker = w.n;
    return 0;
}
