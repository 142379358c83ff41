/* SPDX-License-Identifier: Apache-2.0
 *
 * The Unigram model of tokenizer.json: its vocabulary is a list of [token, score], where a token's
 * place is its id. No token may be there twice, and every one has text.
 */
#include "engine/token/internal.h"

static int fail_at(const struct json *v, const struct err *why, struct err *e)
{
    return json_err(v, e, why->code, "%s", why->msg);
}

/* ["\u2581the", -3.2] */
static int read_entry(const struct json *v, const char **text, size_t *len, double *score,
                      struct err *e)
{
    struct json second = {0}, none = {0};
    if (json_want(v, JSON_ARRAY, e))
        return -1;
    struct json first = json_child(v);
    if (first.node)
        second = json_next(&first);
    if (second.node)
        none = json_next(&second);
    if (!second.node || none.node)
        return json_err(v, e, ERR_BAD_INPUT, "expected a token and its score");
    return json_as_bytes(&first, text, len, e) || json_as_num(&second, score, e) ? -1 : 0;
}

static int read_unk(const struct json *model, size_t n_id, int64_t *unk, struct err *e)
{
    *unk = -1;
    if (json_opt_int(model, "unk_id", 0, VOCAB_MAX_IDS - 1, unk, e))
        return -1;
    if (*unk >= (int64_t)n_id)
        return json_err(model, e, ERR_BAD_INPUT,
                        "unk_id is %lld, but the vocabulary has %zu tokens", (long long)*unk, n_id);
    return 0;
}

static int load_entries(struct tokenizer *t, const struct json *vocab, int64_t unk, struct err *e)
{
    struct json v;
    int32_t id = 0;
    json_each(v, *vocab)
    {
        struct err why = ERR_INIT;
        const char *text;
        size_t len;
        double score;
        if (read_entry(&v, &text, &len, &score, e))
            return -1;
        bool found = id == unk || !load_is_special(t, text, len);
        if (unigram_add(&t->unigram, text, len, id, score, found, &why) ||
            vocab_add(&t->piece, text, len, (uint32_t)id, true, &why))
            return fail_at(&v, &why, e);
        id++;
    }
    return 0;
}

int load_unigram(struct tokenizer *t, const struct json *model, struct err *e)
{
    struct json vocab;
    int64_t unk;
    if (json_get(model, "vocab", JSON_ARRAY, &vocab, e))
        return -1;
    size_t n_id = json_count(&vocab);
    if (n_id > VOCAB_MAX_IDS)
        return json_err(&vocab, e, ERR_TOO_LARGE, "more than %d tokens", VOCAB_MAX_IDS);
    if (read_unk(model, n_id, &unk, e) ||
        json_opt_bool(model, "byte_fallback", &t->unigram.byte_fallback, e) ||
        unigram_reserve(&t->unigram, n_id, e) || load_entries(t, &vocab, unk, e))
        return -1;
    t->unk = (int32_t)unk;
    unigram_finish(&t->unigram, t->unk);
    return 0;
}
