/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_vocab.h. Ids, spellings and roles are what the tokenizer says; the file is read for what
 * that does not keep: merges, which added tokens are special, how text is cut.
 */
#include "engine/export/gguf_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/export/gguf_cuts.h"
#include "engine/load/gguf_tokenizer.h"
#include "engine/load/json.h"

enum {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER = 4,
    TYPE_UNUSED = 5,
    TYPE_BYTE = 6
};
enum { NAME_BYTES = 128, TEXT_TOKENS_MAX = 16 };

static const float SCORE_LEAST = -1e6F; /* of tokens that no merge makes */

struct vocab {
    struct gguf_writer *w;
    const struct model_dir *from;
    const struct tokenizer *t;
    struct json root, model;
    struct map rank;  /* of merges, by what they make, + 1 */
    int64_t n;        /* rows of the embedding */
    int32_t bos, eos; /* -1: none */
    bool is_spm;
};

static struct json_doc *read_doc(const struct model_dir *from, struct err *e)
{
    static const char name[] = "tokenizer.json";
    struct buf text;
    if (!from->config_text)
        return json_read(from->tokenizer_path, name, &json_rules_tokenizer, e);
    buf_init(&text, GGUF_TEXT_BYTES_MAX);
    struct gguf *g = gguf_open(from->path, e);
    struct json_doc *doc = g && gguf_tokenizer_text(g, &text, e) == 0
                               ? json_parse(text.data, text.len, name, &json_rules_tokenizer, e)
                               : NULL;
    gguf_close(g);
    buf_release(&text);
    return doc;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static int mark_added(const struct vocab *v, int32_t *type, struct err *e)
{
    struct json list = {0}, a;
    if (json_opt(&v->root, "added_tokens", JSON_ARRAY, &list, e))
        return -1;
    if (json_absent(&list))
        return 0;
    json_each(a, list)
    {
        int64_t id;
        bool is_special = false;
        if (json_get_int(&a, "id", 0, v->n - 1, &id, e) ||
            json_opt_bool(&a, "special", &is_special, e))
            return -1;
        type[id] = is_special ? TYPE_CONTROL : TYPE_USER;
    }
    return 0;
}

static bool is_byte(const char *s, size_t n)
{
    return n == 6 && strncmp(s, "<0x", 3) == 0 && s[5] == '>';
}

static int put_types(const struct vocab *v, struct err *e)
{
    int32_t *type = try_alloc((size_t)v->n, sizeof *type, "types of tokens", e);
    int32_t unk = tokenizer_unk(v->t);
    int rc = type ? 0 : -1;
    for (int64_t i = 0; i < v->n && !rc; i++) {
        size_t n;
        const char *s = tokenizer_piece(v->t, (int32_t)i, &n);
        type[i] = !s ? TYPE_UNUSED : v->is_spm && is_byte(s, n) ? TYPE_BYTE : TYPE_NORMAL;
    }
    if (!rc)
        rc = mark_added(v, type, e);
    if (!rc && v->is_spm && unk >= 0)
        type[unk] = TYPE_UNKNOWN;
    gguf_writer_array(v->w, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)v->n);
    for (int64_t i = 0; i < v->n && !rc; i++)
        gguf_writer_put_i32(v->w, type[i]);
    mem_free(type);
    return rc;
}

/* llama.cpp wants a token for each row of the embedding. */
static void put_tokens(const struct vocab *v)
{
    gguf_writer_array(v->w, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)v->n);
    for (int64_t i = 0; i < v->n; i++) {
        char unused[NAME_BYTES];
        size_t n;
        const char *s = tokenizer_piece(v->t, (int32_t)i, &n);
        if (!s) {
            n = (size_t)snprintf(unused, sizeof unused, "[PAD%lld]", (long long)i);
            s = unused;
        }
        gguf_writer_put_str(v->w, s, n);
    }
}

/* ---- merges -------------------------------------------------------------------------------- */

/* "left right", as a string or as two. */
static int read_merge(const struct json *m, struct buf *out, struct err *e)
{
    const char *s;
    size_t n;
    buf_clear(out);
    if (json_is(m, JSON_STRING))
        return json_as_bytes(m, &s, &n, e) || buf_add(out, s, n) ? -1 : 0;
    struct json left = json_child(m), right = json_next(&left);
    if (json_as_bytes(&left, &s, &n, e))
        return -1;
    buf_add(out, s, n);
    buf_char(out, ' ');
    return json_as_bytes(&right, &s, &n, e) || buf_add(out, s, n) ? -1 : 0;
}

/* What SentencePiece's merges are told by: the score of what the first of them makes. */
static void note_rank(struct vocab *v, struct buf *merge, size_t i)
{
    char *gap = memchr(merge->data, ' ', merge->len);
    size_t left = gap ? (size_t)(gap - merge->data) : merge->len;
    if (!gap)
        return;
    memmove(gap, gap + 1, merge->len - left - 1);
    if (!map_get(&v->rank, merge->data, merge->len - 1))
        map_put(&v->rank, merge->data, merge->len - 1, (void *)(uintptr_t)(i + 1));
}

static int put_merges(struct vocab *v, struct err *e)
{
    struct json list, m;
    struct buf text;
    size_t i = 0;
    int rc = 0;
    if (json_get(&v->model, "merges", JSON_ARRAY, &list, e))
        return -1;
    buf_init(&text, GGUF_TEXT_BYTES_MAX);
    if (!v->is_spm)
        gguf_writer_array(v->w, "tokenizer.ggml.merges", GGUF_STRING, json_count(&list));
    json_each(m, list)
    {
        if ((rc = read_merge(&m, &text, e)))
            break;
        if (v->is_spm)
            note_rank(v, &text, i++);
        else
            gguf_writer_put_str(v->w, text.data, text.len);
    }
    buf_release(&text);
    return rc;
}

static void put_scores(const struct vocab *v)
{
    gguf_writer_array(v->w, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)v->n);
    for (int64_t i = 0; i < v->n; i++) {
        size_t n;
        const char *s = tokenizer_piece(v->t, (int32_t)i, &n);
        uintptr_t rank = s ? (uintptr_t)map_get(&v->rank, s, n) : 0;
        gguf_writer_put_f32(v->w, rank ? -(float)(rank - 1) : SCORE_LEAST);
    }
}

/* ---- roles --------------------------------------------------------------------------------- */

static void put_id(const struct vocab *v, const char *key, int32_t id)
{
    if (id >= 0 && id < v->n)
        gguf_writer_u32(v->w, key, (uint32_t)id);
}

/* All that may end a turn: there are three keys. */
static void put_ends(const struct vocab *v)
{
    static const char *const key[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};
    const struct generation *g = &v->from->generation;
    size_t n = 0;
    if (v->eos >= 0)
        put_id(v, key[n++], v->eos);
    for (int32_t i = 0; i < g->n_eos && n < sizeof key / sizeof *key; i++)
        if (g->eos[i] != v->eos)
            put_id(v, key[n++], g->eos[i]);
}

static void put_ids(const struct vocab *v)
{
    put_id(v, "tokenizer.ggml.bos_token_id", v->bos);
    put_ends(v);
    put_id(v, "tokenizer.ggml.unknown_token_id", v->t ? tokenizer_unk(v->t) : -1);
    put_id(v, "tokenizer.ggml.padding_token_id", v->t ? tokenizer_pad(v->t) : v->from->config.pad);
}

/* The one token that stands there is the one that GGUF knows, where another has no such role. */
static bool is_known(size_t n, int32_t id, int32_t *role)
{
    if (n == 1 && *role < 0)
        *role = id;
    return n == 0 || (n == 1 && id == *role);
}

/* What stands before and behind a text, of which GGUF knows BOS and EOS. */
static int put_around(struct vocab *v, struct err *e)
{
    struct tok_list plain, whole;
    size_t after = tokenizer_n_after(v->t);
    tok_list_init(&plain, TEXT_TOKENS_MAX, false);
    tok_list_init(&whole, TEXT_TOKENS_MAX, false);
    int rc = tokenizer_encode(v->t, "a", 1, false, false, &plain, e) ||
                     tokenizer_encode(v->t, "a", 1, false, true, &whole, e)
                 ? -1
                 : 0;
    size_t before = rc ? 0 : whole.n - plain.n - after;
    if (!rc && whole.n &&
        !(is_known(before, whole.id[0], &v->bos) &&
          is_known(after, whole.id[whole.n - 1], &v->eos)))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "tokenizer.json: post_processor: only BOS before a text and EOS behind it are "
                     "written as GGUF");
    if (!rc) {
        gguf_writer_bool(v->w, "tokenizer.ggml.add_bos_token", before > 0);
        gguf_writer_bool(v->w, "tokenizer.ggml.add_eos_token", after > 0);
    }
    tok_list_release(&plain);
    tok_list_release(&whole);
    return rc;
}

static void put_templates(const struct vocab *v)
{
    const struct tokenizer_config *c = &v->from->tokenizer;
    const char *text = tokenizer_config_template(c, NULL);
    int n_other = 0;
    if (text)
        gguf_writer_str(v->w, "tokenizer.chat_template", text);
    for (int i = 0; i < c->n_template; i++)
        n_other += c->template[i].text != text;
    if (!n_other)
        return;
    gguf_writer_array(v->w, "tokenizer.chat_templates", GGUF_STRING, (uint64_t)n_other);
    for (int i = 0; i < c->n_template; i++)
        if (c->template[i].text != text)
            gguf_writer_put_str(v->w, c->template[i].name, strlen(c->template[i].name));
    for (int i = 0; i < c->n_template; i++) {
        char key[NAME_BYTES];
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", c->template[i].name);
        if (c->template[i].text != text)
            gguf_writer_str(v->w, key, c->template[i].text);
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int put_model(struct vocab *v, struct err *e)
{
    const char *pre = NULL;
    bool add_space = false;
    if (gguf_cuts_find(&v->root, &v->is_spm, &add_space, &pre, e))
        return -1;
    gguf_writer_str(v->w, "tokenizer.ggml.model", v->is_spm ? "llama" : "gpt2");
    if (pre)
        gguf_writer_str(v->w, "tokenizer.ggml.pre", pre);
    if (v->is_spm)
        gguf_writer_bool(v->w, "tokenizer.ggml.add_space_prefix", add_space);
    put_tokens(v);
    if (put_types(v, e) || put_merges(v, e))
        return -1;
    if (v->is_spm)
        put_scores(v);
    return 0;
}

static int put_all(struct vocab *v, struct err *e)
{
    v->bos = tokenizer_bos(v->t);
    v->eos = tokenizer_eos(v->t);
    if (json_get(&v->root, "model", JSON_OBJECT, &v->model, e) || put_model(v, e) ||
        put_around(v, e))
        return -1;
    put_ids(v);
    put_templates(v);
    return 0;
}

int gguf_vocab_put(struct gguf_writer *w, const struct model_dir *from, const struct tokenizer *t,
                   struct err *e)
{
    struct vocab v = {.w = w,
                      .from = from,
                      .t = t,
                      .n = from->config.n_vocab,
                      .bos = from->config.bos,
                      .eos = -1};
    if (!t) {
        gguf_writer_str(w, "tokenizer.ggml.model", "no_vocab");
        put_ids(&v);
        return 0;
    }
    if ((int64_t)tokenizer_size(t) > v.n)
        return err_set(e, ERR_BAD_INPUT, "%zu tokens, but the embedding has %lld rows",
                       tokenizer_size(t), (long long)v.n);
    struct json_doc *doc = read_doc(from, e);
    if (!doc)
        return -1;
    v.root = json_root(doc);
    map_init(&v.rank);
    int rc = put_all(&v, e);
    map_release(&v.rank);
    json_free(doc);
    return rc;
}
