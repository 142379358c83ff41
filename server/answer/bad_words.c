/* SPDX-License-Identifier: Apache-2.0
 *
 * A word has other tokens at the beginning of a text than behind a space, so both are shut out; how
 * else it could be spelled is not looked for, as elsewhere.
 */
#include "server/answer/bad_words.h"

#include <string.h>

#include "engine/token/tokenizer.h"

struct way {
    const struct tokenizer *tokenizer;
    struct arena *arena;
    int32_t *out; /* [SAMPLE_LISTS_MAX] */
    int32_t n;
};

static int add_tokens(struct way *w, const struct tok_list *l, struct err *e)
{
    if (!l->n)
        return 0;
    if (l->n + 1 > (size_t)(SAMPLE_LISTS_MAX - w->n))
        return err_set(e, ERR_TOO_LARGE, "bad_words: they come to more than %d tokens",
                       SAMPLE_LISTS_MAX);
    w->out[w->n++] = (int32_t)l->n;
    memcpy(w->out + w->n, l->id, l->n * sizeof *l->id);
    w->n += (int32_t)l->n;
    return 0;
}

static int add_text(struct way *w, const char *text, size_t n, struct err *e)
{
    struct tok_list l;
    tok_list_init(&l, n + 16, false);
    int rc = tokenizer_encode(w->tokenizer, text, n, false, false, &l, e) || add_tokens(w, &l, e);
    tok_list_release(&l);
    return rc ? -1 : 0;
}

static int add_word(struct way *w, const struct gen_text *word, struct err *e)
{
    char spaced[GEN_STOP_BYTES_MAX + 1] = " ";
    memcpy(spaced + 1, word->p, word->n);
    if (add_text(w, word->p, word->n, e))
        return -1;
    return *word->p == ' ' ? 0 : add_text(w, spaced, word->n + 1, e);
}

int bad_words_encode(const struct engine *g, struct api_request *q, struct arena *a,
                     struct api_error *e)
{
    struct err why = ERR_INIT;
    struct way w = {.tokenizer = engine_tokenizer(g), .arena = a};
    if (!q->n_bad_word)
        return 0;
    if (!w.tokenizer)
        return api_fail(e, 400, "unsupported", "bad_words",
                        "This model has no tokenizer to find words with.");
    w.out = arena_try(a, SAMPLE_LISTS_MAX, sizeof *w.out, &why);
    for (size_t i = 0; w.out && i < q->n_bad_word; i++)
        if (add_word(&w, &q->bad_word[i], &why))
            return api_fail_err(e, &why, "bad_words");
    q->gen.sample.bad = w.out;
    q->gen.sample.n_bad = w.n;
    return w.out ? 0 : api_fail_err(e, &why, "bad_words");
}
