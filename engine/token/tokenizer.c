/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading as a whole. The parts are read in the order in which they need each other: added tokens
 * before the model (which must not make special ones), the pre-tokenizer before it (whose last
 * step decides the model's alphabet), the normalizer before the added tokens' tries.
 */
#include "engine/token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/gguf_tokenizer.h"
#include "engine/load/tokenizer_config.h"
#include "engine/token/internal.h"

static struct tokenizer *tokenizer_new(void)
{
    struct tokenizer *t = xcalloc(1, sizeof *t);
    t->bos = t->eos = t->unk = t->pad = -1;
    vocab_init(&t->piece);
    vocab_init(&t->word);
    added_init(&t->added);
    bpe_init(&t->bpe);
    wordpiece_init(&t->wordpiece);
    unigram_init(&t->unigram);
    return t;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_release(&t->piece);
    vocab_release(&t->word);
    added_release(&t->added);
    normalize_release(&t->normalize);
    pretok_release(&t->pretok);
    bpe_release(&t->bpe);
    wordpiece_release(&t->wordpiece);
    unigram_release(&t->unigram);
    decode_release(&t->decode);
    free(t);
}

/* Added tokens that the model does not have get their ids; those that it has must agree. */
static int merge_added(struct tokenizer *t, struct err *e)
{
    for (size_t i = 0; i < t->added.n; i++) {
        const struct added_token *a = &t->added.token[i];
        int32_t id = vocab_find(&t->piece, a->content, a->len);
        if (id == a->id)
            continue;
        if (id >= 0)
            return err_set(e, ERR_BAD_INPUT,
                           "added token \"%.64s\" has id %d, the vocabulary says %d", a->content,
                           a->id, id);
        if (vocab_add(&t->piece, a->content, a->len, (uint32_t)a->id, true, e))
            return err_wrap(e, "added_tokens");
    }
    return 0;
}

static int check_affix(const struct tokenizer *t, const struct tokenizer_affix *a, struct err *e)
{
    uint32_t len;
    for (size_t i = 0; i < a->n; i++)
        if (!vocab_text(&t->piece, (uint32_t)a->id[i], &len))
            return err_set(e, ERR_BAD_INPUT, "post_processor: there is no token %d", a->id[i]);
    return 0;
}

static int fill(struct tokenizer *t, const struct json *root, struct err *e)
{
    if (load_added(t, root, e) || load_normalize(t, root, e) || load_pretok(t, root, e) ||
        load_model(t, root, e) || load_post(t, root, e) || load_decode(t, root, e))
        return -1;
    if (added_finish(&t->added, &t->normalize, e) || merge_added(t, e) ||
        check_affix(t, &t->before, e) || check_affix(t, &t->after, e))
        return err_wrap(e, "tokenizer.json");
    return 0;
}

static struct tokenizer *from_doc(struct json_doc *doc, struct err *e)
{
    struct json root = json_root(doc);
    struct tokenizer *t = tokenizer_new();
    if (json_want(&root, JSON_OBJECT, e) || fill(t, &root, e)) {
        tokenizer_free(t);
        t = NULL;
    }
    json_free(doc);
    return t;
}

struct tokenizer *tokenizer_parse(const char *json, size_t len, struct err *e)
{
    struct json_doc *doc = json_parse(json, len, "tokenizer.json", &json_rules_tokenizer, e);
    return doc ? from_doc(doc, e) : NULL;
}

/* ---- the roles of tokens ---- */

static void read_role(const struct tokenizer *t, const char *piece, int32_t *id)
{
    int32_t found = piece ? tokenizer_id(t, piece, strlen(piece)) : -1;
    if (found >= 0)
        *id = found;
}

static void read_roles(struct tokenizer *t, struct tokenizer_config *c)
{
    read_role(t, c->bos, &t->bos);
    read_role(t, c->eos, &t->eos);
    read_role(t, c->unk, &t->unk);
    read_role(t, c->pad, &t->pad);
    tokenizer_config_release(c);
}

/* ---- of a GGUF file ---- */

static struct tokenizer *from_gguf(const struct gguf *g, struct err *e)
{
    struct buf text, config;
    struct tokenizer_config c;
    struct tokenizer *t = NULL;
    buf_init(&text, GGUF_TEXT_BYTES_MAX);
    buf_init(&config, GGUF_TEXT_BYTES_MAX);
    if (gguf_tokenizer_text(g, &text, e) == 0 && gguf_tokenizer_config_text(g, &config, e) == 0 &&
        tokenizer_config_parse(&c, config.data, config.len, e) == 0) {
        t = tokenizer_parse(text.data, text.len, e);
        if (t)
            read_roles(t, &c);
        else
            err_wrap(e, "%s: the metadata as", g->name);
        if (!t)
            tokenizer_config_release(&c);
    }
    buf_release(&text);
    buf_release(&config);
    return t;
}

static struct tokenizer *load_gguf(const char *path, struct err *e)
{
    struct gguf *g = gguf_open(path, e);
    struct tokenizer *t = g ? from_gguf(g, e) : NULL;
    gguf_close(g);
    return t;
}

struct tokenizer *tokenizer_load(const char *dir, struct err *e)
{
    char path[4096];
    struct tokenizer_config c;
    if (gguf_is_file(dir))
        return load_gguf(dir, e);
    int n = snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        err_set(e, ERR_BAD_INPUT, "the name of the model's directory is too long");
        return NULL;
    }
    struct json_doc *doc = json_read(path, "tokenizer.json", &json_rules_tokenizer, e);
    struct tokenizer *t = doc ? from_doc(doc, e) : NULL;
    if (!t || tokenizer_config_init(&c, dir, e)) {
        tokenizer_free(t);
        return NULL;
    }
    read_roles(t, &c);
    return t;
}

/* ---- questions ---- */

size_t tokenizer_size(const struct tokenizer *t)
{
    return t->piece.n_id;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len)
{
    uint32_t n = 0;
    const uint8_t *p = id < 0 ? NULL : vocab_text(&t->piece, (uint32_t)id, &n);
    *len = n;
    return (const char *)p;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *piece, size_t len)
{
    return vocab_find(&t->piece, piece, len);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->added.n_special && t->added.is_special[id];
}

bool tokenizer_has_text(const struct tokenizer *t, const int32_t *id, size_t n)
{
    size_t i = 0;
    while (i < n && tokenizer_is_special(t, id[i]))
        i++;
    return i < n;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

int32_t tokenizer_unk(const struct tokenizer *t)
{
    return t->unk;
}

int32_t tokenizer_pad(const struct tokenizer *t)
{
    return t->pad;
}
