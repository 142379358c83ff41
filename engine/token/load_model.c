/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of tokenizer.json: BPE, WordPiece or WordLevel with its vocabulary and merges; Unigram
 * has a file of its own.
 *
 * A special token that is in the model's vocabulary too must not come out of a text that is not
 * trusted, so the model never finds it there: it keeps its id, but whole-word look-ups miss it and
 * merges that would make it are left out. Exempt are the unknown token, which has its own way,
 * and tokens of one character, without which that character could not be written.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/internal.h"
#include "engine/token/utf8.h"

struct model_load {
    struct tokenizer *t;
    const char *unk;   /* borrowed, or NULL */
    struct buf key[2]; /* scratch */
    struct err *e;
};

static int fail_at(const struct json *v, const struct err *why, struct err *e)
{
    return json_err(v, e, why->code, "%s", why->msg);
}

bool load_is_special(const struct tokenizer *t, const char *s, size_t len)
{
    const struct added_token *a = added_find(&t->added, s, len);
    return a && a->is_special && len > utf8_len((uint8_t)s[0]);
}

static bool is_blocked(const struct model_load *m, const char *s, size_t len)
{
    return load_is_special(m->t, s, len) && (!m->unk || strcmp(s, m->unk) != 0);
}

/* The bytes that a text in the byte-level alphabet stands for; false when it is not in it. */
static bool to_bytes(const char *s, size_t len, struct buf *out)
{
    const uint8_t *p = (const uint8_t *)s;
    buf_clear(out);
    for (size_t i = 0; i < len;) {
        uint32_t c;
        i += utf8_get(p + i, &c);
        int byte = normalize_char_byte(c);
        if (byte < 0)
            return false;
        buf_char(out, (char)byte);
    }
    return true;
}

static int add_to_model(struct model_load *m, const char *s, size_t len, int32_t id, struct err *e)
{
    struct tokenizer *t = m->t;
    bool found = !is_blocked(m, s, len);
    if (t->model == MODEL_WORDPIECE)
        return found ? wordpiece_add(&t->wordpiece, s, len, id, e) : 0;
    if (t->model == MODEL_WORDLEVEL)
        return vocab_add(&t->word, s, len, (uint32_t)id, found, e);
    if (!t->bpe.byte_mode)
        return vocab_add(&t->bpe.vocab, s, len, (uint32_t)id, found, e);
    found &= to_bytes(s, len, &m->key[0]);
    return vocab_add(&t->bpe.vocab, found ? m->key[0].data : "", found ? m->key[0].len : 0,
                     (uint32_t)id, found && m->key[0].len, e);
}

static int load_vocab(struct model_load *m, const struct json *model)
{
    struct json vocab, v;
    struct err why = ERR_INIT;
    if (json_get(model, "vocab", JSON_OBJECT, &vocab, m->e))
        return -1;
    json_each(v, vocab)
    {
        const char *s = json_key(&v);
        size_t len = strlen(s);
        int64_t id;
        if (json_as_int(&v, 0, VOCAB_MAX_IDS - 1, &id, m->e))
            return -1;
        if (vocab_add(&m->t->piece, s, len, (uint32_t)id, true, &why) ||
            add_to_model(m, s, len, (int32_t)id, &why))
            return fail_at(&v, &why, m->e);
    }
    return 0;
}

/* ---- merges ---- */

enum { PART_UNKNOWN = -1, PART_LEFT_OUT = -2 };

/* A part of a merge among the model's tokens. */
static int32_t find_part(struct model_load *m, const char *s, size_t len)
{
    const struct bpe *b = &m->t->bpe;
    int32_t id = -1;
    if (!b->byte_mode)
        id = vocab_find(&b->vocab, s, len);
    else if (to_bytes(s, len, &m->key[0]))
        id = vocab_find(&b->vocab, m->key[0].data ? m->key[0].data : "", m->key[0].len);
    if (id >= 0)
        return id;
    return vocab_find(&m->t->piece, s, len) >= 0 ? PART_LEFT_OUT : PART_UNKNOWN;
}

static int add_merge(struct model_load *m, const struct json *v, const char *a, size_t a_len,
                     const char *b, size_t b_len)
{
    struct bpe *bpe = &m->t->bpe;
    struct buf *both = &m->key[1];
    size_t skip = bpe->prefix ? strlen(bpe->prefix) : 0;
    int32_t left = find_part(m, a, a_len), right = find_part(m, b, b_len), made;
    buf_clear(both);
    buf_add(both, a, a_len);
    if (skip && (b_len < skip || memcmp(b, bpe->prefix, skip) != 0))
        skip = 0;
    buf_add(both, b + skip, b_len - skip);
    if (buf_check(both, "merge", m->e))
        return -1;
    made = find_part(m, both->data, both->len);
    if (left == PART_UNKNOWN || right == PART_UNKNOWN || made == PART_UNKNOWN)
        return json_err(v, m->e, ERR_BAD_INPUT,
                        "a merge of or into a token that is not in the "
                        "vocabulary");
    if (left >= 0 && right >= 0 && made >= 0)
        bpe_table_add(&bpe->table, left, right, made);
    return 0;
}

static int load_merge(struct model_load *m, const struct json *v)
{
    const char *a, *b;
    size_t a_len, b_len;
    if (json_is(v, JSON_ARRAY)) {
        struct json first = json_child(v), second = {0}, none = {0};
        if (first.node)
            second = json_next(&first);
        if (second.node)
            none = json_next(&second);
        if (!second.node || none.node)
            return json_err(v, m->e, ERR_BAD_INPUT, "a merge must have two parts");
        if (json_as_bytes(&first, &a, &a_len, m->e) || json_as_bytes(&second, &b, &b_len, m->e))
            return -1;
        return add_merge(m, v, a, a_len, b, b_len);
    }
    if (json_as_bytes(v, &a, &a_len, m->e))
        return -1;
    b = memchr(a, ' ', a_len);
    if (!b || memchr(b + 1, ' ', (size_t)(a + a_len - b - 1)))
        return json_err(v, m->e, ERR_BAD_INPUT, "a merge must have two parts with a space between");
    return add_merge(m, v, a, (size_t)(b - a), b + 1, (size_t)(a + a_len - b - 1));
}

static int load_merges(struct model_load *m, const struct json *model)
{
    struct json merges, v;
    struct err why = ERR_INIT;
    if (json_get(model, "merges", JSON_ARRAY, &merges, m->e))
        return -1;
    if (bpe_table_init(&m->t->bpe.table, json_count(&merges), &why))
        return fail_at(&merges, &why, m->e);
    json_each(v, merges) if (load_merge(m, &v)) return -1;
    return bpe_finish(&m->t->bpe, m->e);
}

/* ---- kinds of models ---- */

static int load_affix(const struct json *v, const char *key, char **out, struct err *e)
{
    struct json s = json_member(v, key);
    if (json_absent(&s))
        return 0;
    if (load_text(v, key, out, e))
        return -1;
    if (!**out) {
        free(*out);
        *out = NULL;
    }
    return 0;
}

static int refuse_dropout(const struct json *model, struct err *e)
{
    struct json v = json_member(model, "dropout");
    double rate = 0;
    if (json_absent(&v))
        return 0;
    if (json_as_num(&v, &rate, e))
        return -1;
    return rate == 0 ? 0 : json_err(&v, e, ERR_UNSUPPORTED, "merges at random are not supported");
}

static int load_bpe(struct model_load *m, const struct json *model)
{
    struct bpe *b = &m->t->bpe;
    struct pretok *p = &m->t->pretok;
    if (refuse_dropout(model, m->e) || json_opt_bool(model, "fuse_unk", &b->fuse_unk, m->e) ||
        json_opt_bool(model, "byte_fallback", &b->byte_fallback, m->e) ||
        json_opt_bool(model, "ignore_merges", &b->ignore_merges, m->e) ||
        load_affix(model, "continuing_subword_prefix", &b->prefix, m->e) ||
        load_affix(model, "end_of_word_suffix", &b->suffix, m->e))
        return -1;
    if (p->n && p->step[p->n - 1].kind == PRETOK_BYTES && !b->prefix && !b->suffix) {
        b->byte_mode = true; /* the model takes the bytes as they are */
        p->n--;
    }
    if (load_vocab(m, model))
        return -1;
    b->unk = m->unk ? vocab_find(&b->vocab, m->unk, strlen(m->unk)) : -1;
    return load_merges(m, model);
}

static int load_wordpiece(struct model_load *m, const struct json *model)
{
    struct wordpiece *w = &m->t->wordpiece;
    struct json prefix = json_member(model, "continuing_subword_prefix");
    int64_t max_chars = 100;
    if (json_opt_int(model, "max_input_chars_per_word", 1, 1 << 20, &max_chars, m->e))
        return -1;
    if (json_absent(&prefix))
        w->prefix = xstrdup("##");
    else if (load_text(model, "continuing_subword_prefix", &w->prefix, m->e))
        return -1;
    w->max_chars = (uint32_t)max_chars;
    if (load_vocab(m, model))
        return -1;
    w->unk = m->unk ? vocab_find(&m->t->piece, m->unk, strlen(m->unk)) : -1;
    if (w->unk < 0)
        return json_err(model, m->e, ERR_BAD_INPUT, "unk_token is not in the vocabulary");
    return 0;
}

/* Older files do not say; what only one kind has tells. */
static const char *guess_type(const struct json *model)
{
    struct json merges = json_member(model, "merges");
    struct json prefix = json_member(model, "continuing_subword_prefix");
    return merges.node ? "BPE" : prefix.node ? "WordPiece" : NULL;
}

static int load_kind(struct model_load *m, const struct json *model)
{
    const char *type = guess_type(model);
    if (json_opt_str(model, "type", &type, m->e) || json_opt_str(model, "unk_token", &m->unk, m->e))
        return -1;
    if (!type)
        return json_err(model, m->e, ERR_BAD_INPUT, "the model has no type");
    m->t->model = !strcmp(type, "WordPiece")   ? MODEL_WORDPIECE
                  : !strcmp(type, "WordLevel") ? MODEL_WORDLEVEL
                  : !strcmp(type, "Unigram")   ? MODEL_UNIGRAM
                                               : MODEL_BPE;
    if (m->t->model == MODEL_WORDPIECE)
        return load_wordpiece(m, model);
    if (m->t->model == MODEL_WORDLEVEL)
        return load_vocab(m, model);
    if (m->t->model == MODEL_UNIGRAM)
        return load_unigram(m->t, model, m->e);
    if (strcmp(type, "BPE") != 0)
        return json_err(model, m->e, ERR_UNSUPPORTED, "the type \"%.64s\" is not supported", type);
    return load_bpe(m, model);
}

int load_model(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct model_load m = {.t = t, .e = e};
    struct json model;
    for (size_t i = 0; i < 2; i++)
        buf_init(&m.key[i], 2 * VOCAB_MAX_PIECE_BYTES);
    int rc = json_get(root, "model", JSON_OBJECT, &model, e);
    if (!rc)
        rc = load_kind(&m, &model);
    if (!rc && m.unk)
        t->unk = vocab_find(&t->piece, m.unk, strlen(m.unk));
    for (size_t i = 0; i < 2; i++)
        buf_release(&m.key[i]);
    return rc;
}
