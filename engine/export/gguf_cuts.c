/* SPDX-License-Identifier: Apache-2.0
 *
 * Both sides, the file's pre-tokenizers and those that a name stands for, are brought into one
 * spelling and compared as texts.
 */
#include "engine/export/gguf_cuts.h"

#include <string.h>

#include "engine/base/buf.h"
#include "engine/load/gguf_tokenizer.h"

#define SPACE_MARK "\xe2\x96\x81"

enum { SPELLED_BYTES_MAX = 64 << 10 };

static const char *text_of(const struct json *v, const char *key)
{
    struct err unused = ERR_INIT;
    const char *s = "";
    struct json m = json_member(v, key);
    return json_is(&m, JSON_STRING) && json_as_str(&m, &s, &unused) == 0 ? s : "";
}

static bool is_set(const struct json *v, const char *key)
{
    struct err unused = ERR_INIT;
    bool is = false;
    struct json m = json_member(v, key);
    return json_is(&m, JSON_BOOL) && json_as_bool(&m, &is, &unused) == 0 && is;
}

/* ---- byte pairs ---------------------------------------------------------------------------- */

static void spell_step(const struct json *v, struct buf *out)
{
    const char *type = text_of(v, "type");
    struct json pattern = json_member(v, "pattern");
    buf_str(out, type);
    if (strcmp(type, "Split") == 0)
        buf_printf(out, " %s %d %s", text_of(v, "behavior"), is_set(v, "invert"),
                   text_of(&pattern, "Regex"));
    if (strcmp(type, "Digits") == 0)
        buf_printf(out, " %d", is_set(v, "individual_digits"));
    if (strcmp(type, "ByteLevel") == 0)
        buf_printf(out, " %d %d", is_set(v, "add_prefix_space"), is_set(v, "use_regex"));
    buf_char(out, '\n');
}

/* A step, or a sequence of them; steps: a list. */
static void spell(const struct json *v, struct buf *out)
{
    struct json list = json_member(v, "pretokenizers"), step;
    if (json_is(v, JSON_ARRAY))
        list = *v;
    if (!json_is(&list, JSON_ARRAY)) {
        spell_step(v, out);
        return;
    }
    json_each(step, list)
    {
        spell_step(&step, out);
    }
}

static int spell_known(const struct gguf_pre *p, struct buf *out, struct err *e)
{
    struct buf text;
    buf_init(&text, SPELLED_BYTES_MAX);
    buf_printf(&text, "[%s]", p->steps);
    struct json_doc *doc =
        json_parse(text.data, text.len, "a pre-tokenizer", &json_rules_config, e);
    if (doc) {
        struct json root = json_root(doc);
        spell(&root, out);
    }
    json_free(doc);
    buf_release(&text);
    return doc ? 0 : -1;
}

static int find_pre(const struct json *root, const char **pre, struct err *e)
{
    struct json cuts = json_member(root, "pre_tokenizer"), model = json_member(root, "model");
    struct json normal = json_member(root, "normalizer");
    bool is_nfc = strcmp(text_of(&normal, "type"), "NFC") == 0;
    bool ignores_merges = is_set(&model, "ignore_merges");
    bool is_known = (is_nfc || json_absent(&normal)) &&
                    !*text_of(&model, "continuing_subword_prefix") &&
                    !*text_of(&model, "end_of_word_suffix");
    struct buf own, known;
    int rc = 0;
    *pre = NULL;
    buf_init(&own, SPELLED_BYTES_MAX);
    buf_init(&known, SPELLED_BYTES_MAX);
    spell(&cuts, &own);
    for (const struct gguf_pre *p = is_known ? gguf_pre_first() : NULL; p && !*pre && !rc;
         p = gguf_pre_next(p)) {
        buf_clear(&known);
        rc = spell_known(p, &known, e);
        if (!rc && own.len == known.len && memcmp(own.data, known.data, own.len) == 0 &&
            p->is_nfc == is_nfc && p->ignores_merges == ignores_merges)
            *pre = p->name;
    }
    buf_release(&own);
    buf_release(&known);
    if (rc || *pre)
        return rc;
    return json_err(root, e, ERR_UNSUPPORTED,
                    "normalizer, pre_tokenizer: GGUF has no name for how these cut text, of those "
                    "that are known here");
}

/* ---- SentencePiece ------------------------------------------------------------------------- */

static bool is_replace(const struct json *v)
{
    struct json pattern = json_member(v, "pattern");
    return strcmp(text_of(v, "type"), "Replace") == 0 &&
           strcmp(text_of(&pattern, "String"), " ") == 0 &&
           strcmp(text_of(v, "content"), SPACE_MARK) == 0;
}

/* Spaces become marks, by the normalizer or by the pre-tokenizer that is called after that. One
 * that puts a mark before the first word alone, and not before one that has a space, has no like in
 * GGUF, whose space stands behind every special token. */
static int find_space(const struct json *root, bool *add_space, struct err *e)
{
    struct json normal = json_member(root, "normalizer"), cuts = json_member(root, "pre_tokenizer");
    struct json list = json_member(&normal, "normalizers"), step;
    bool is_known = false, is_odd = false;
    *add_space = false;
    if (json_absent(&normal) && strcmp(text_of(&cuts, "type"), "Metaspace") == 0) {
        is_known = strcmp(text_of(&cuts, "prepend_scheme"), "never") == 0 &&
                   !is_set(&cuts, "split") &&
                   strcmp(text_of(&cuts, "replacement"), SPACE_MARK) == 0;
    } else if (json_absent(&cuts) && json_is(&list, JSON_ARRAY)) {
        json_each(step, list)
        {
            bool is_prepend = strcmp(text_of(&step, "type"), "Prepend") == 0 &&
                              strcmp(text_of(&step, "prepend"), SPACE_MARK) == 0;
            *add_space = *add_space || is_prepend;
            is_known = is_known || is_replace(&step);
            is_odd = is_odd || (!is_prepend && !is_replace(&step));
        }
    }
    return is_known && !is_odd
               ? 0
               : json_err(
                     root, e, ERR_UNSUPPORTED,
                     "normalizer, pre_tokenizer: of SentencePiece's kind only those that make marks "
                     "of spaces, with one before every text or none, are written as GGUF");
}

int gguf_cuts_find(const struct json *root, bool *is_spm, bool *add_space, const char **pre,
                   struct err *e)
{
    struct json model = json_member(root, "model");
    *add_space = false;
    *pre = NULL;
    if (strcmp(text_of(&model, "type"), "BPE") != 0)
        return json_err(&model, e, ERR_UNSUPPORTED, "only BPE is written as GGUF");
    *is_spm = is_set(&model, "byte_fallback");
    return *is_spm ? find_space(root, add_space, e) : find_pre(root, pre, e);
}
