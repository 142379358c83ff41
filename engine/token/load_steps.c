/* SPDX-License-Identifier: Apache-2.0
 *
 * The normalizer and the pre-tokenizer of tokenizer.json: a component, or a Sequence of them, each
 * translated into the steps that it is made of. Both lists are tables of (type, reader).
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/internal.h"

enum { MAX_DEPTH = 8 }; /* Sequences in Sequences */

typedef int reader(struct tokenizer *t, const struct json *v, struct err *e);

struct row {
    const char *type;
    reader *read; /* NULL: one step of this kind without parameters */
    int kind;
};

/* Walks a component and, for a Sequence, its children under `list`. */
static int load_chain(struct tokenizer *t, const struct json *v, const char *list,
                      const struct row *rows, int depth, struct err *e);

static const struct row *find_row(const struct row *rows, const char *type)
{
    while (rows->type && strcmp(rows->type, type) != 0)
        rows++;
    return rows->type ? rows : NULL;
}

/* ---- normalizers ---- */

static int give_normalize(struct tokenizer *t, enum normalize_kind kind, struct err *e)
{
    struct normalize_step s = {.kind = kind};
    return normalize_give(&t->normalize, &s, e);
}

static int read_strip(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct normalize_step s = {.kind = NORMALIZE_STRIP, .left = true, .right = true};
    if (json_opt_bool(v, "strip_left", &s.left, e) || json_opt_bool(v, "strip_right", &s.right, e))
        return -1;
    return normalize_give(&t->normalize, &s, e);
}

static int read_prepend(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct normalize_step s = {.kind = NORMALIZE_PREPEND};
    if (load_text(v, "prepend", &s.text, e))
        return -1;
    return normalize_give(&t->normalize, &s, e);
}

static int read_replace(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct normalize_step s = {.kind = NORMALIZE_REPLACE};
    if (load_text(v, "content", &s.content, e))
        return -1;
    if (load_pattern(v, &s.text, &s.regex, e)) {
        free(s.content);
        return -1;
    }
    return normalize_give(&t->normalize, &s, e);
}

static int read_charsmap(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct normalize_step s = {.kind = NORMALIZE_CHARSMAP};
    struct err why = ERR_INIT;
    struct json map;
    const char *text;
    size_t len;
    if (json_get(v, "precompiled_charsmap", JSON_STRING, &map, e) ||
        json_as_bytes(&map, &text, &len, e))
        return -1;
    s.charsmap = charsmap_new(text, len, &why);
    if (!s.charsmap)
        return json_err(&map, e, why.code, "%s", why.msg);
    return normalize_give(&t->normalize, &s, e);
}

static int read_bert_normalizer(struct tokenizer *t, const struct json *v, struct err *e)
{
    bool clean = true, chinese = true, lowercase = true, accents;
    if (json_opt_bool(v, "clean_text", &clean, e) ||
        json_opt_bool(v, "handle_chinese_chars", &chinese, e) ||
        json_opt_bool(v, "lowercase", &lowercase, e))
        return -1;
    accents = lowercase;
    if (json_opt_bool(v, "strip_accents", &accents, e))
        return -1;
    if ((clean && give_normalize(t, NORMALIZE_BERT_CLEAN, e)) ||
        (chinese && give_normalize(t, NORMALIZE_BERT_CHINESE, e)) ||
        (accents && give_normalize(t, NORMALIZE_NFD, e)) ||
        (accents && give_normalize(t, NORMALIZE_BERT_ACCENTS, e)) ||
        (lowercase && give_normalize(t, NORMALIZE_LOWERCASE, e)))
        return -1;
    return 0;
}

static const struct row normalizers[] = {
    {"NFC", NULL, NORMALIZE_NFC},
    {"NFD", NULL, NORMALIZE_NFD},
    {"NFKC", NULL, NORMALIZE_NFKC},
    {"NFKD", NULL, NORMALIZE_NFKD},
    {"Lowercase", NULL, NORMALIZE_LOWERCASE},
    {"StripAccents", NULL, NORMALIZE_STRIP_ACCENTS},
    {"ByteLevel", NULL, NORMALIZE_BYTE_LEVEL},
    {"Nmt", NULL, NORMALIZE_NMT},
    {"Precompiled", read_charsmap, 0},
    {"Strip", read_strip, 0},
    {"Prepend", read_prepend, 0},
    {"Replace", read_replace, 0},
    {"BertNormalizer", read_bert_normalizer, 0},
    {NULL, NULL, 0},
};

/* ---- pre-tokenizers ---- */

static int give_class(struct tokenizer *t, unsigned mask, enum pretok_behavior behavior,
                      struct err *e)
{
    struct pretok_step s = {.kind = PRETOK_CLASS, .mask = mask, .behavior = behavior};
    return pretok_give(&t->pretok, &s, e);
}

static int read_byte_level(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct pretok_step space = {.kind = PRETOK_PREFIX_SPACE};
    struct pretok_step rules = {.kind = PRETOK_RULES, .rules = split_gpt2};
    struct pretok_step bytes = {.kind = PRETOK_BYTES};
    bool with_space = true, with_rules = true;
    if (json_opt_bool(v, "add_prefix_space", &with_space, e) ||
        json_opt_bool(v, "use_regex", &with_rules, e))
        return -1;
    if ((with_space && pretok_give(&t->pretok, &space, e)) ||
        (with_rules && pretok_give(&t->pretok, &rules, e)))
        return -1;
    return pretok_give(&t->pretok, &bytes, e);
}

static int read_behavior(const struct json *v, enum pretok_behavior *out, struct err *e)
{
    static const char *const name[] = {"Isolated", "Removed", "MergedWithPrevious",
                                       "MergedWithNext", "Contiguous"};
    struct json b = json_member(v, "behavior");
    const char *s;
    if (json_absent(&b))
        return 0;
    if (json_as_str(&b, &s, e))
        return -1;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        if (!strcmp(s, name[i])) {
            *out = (enum pretok_behavior)i;
            return 0;
        }
    }
    return json_err(&b, e, ERR_UNSUPPORTED, "\"%.64s\" is not supported", s);
}

/* The hand-written rules for the pattern, where the behavior keeps all its matches as pieces. */
static const struct split_rules *rules_of(const struct json *v, const struct pretok_step *s)
{
    struct json pattern = json_member(v, "pattern");
    struct json regex = json_member(&pattern, "Regex");
    const char *p;
    size_t len;
    bool all = s->behavior == PRETOK_ISOLATED || (s->behavior == PRETOK_REMOVED && s->invert);
    if (!all || !regex.node || json_as_bytes(&regex, &p, &len, NULL))
        return NULL;
    return split_find(p, len);
}

static int read_split(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct pretok_step s = {.kind = PRETOK_RULES};
    if (read_behavior(v, &s.behavior, e) || json_opt_bool(v, "invert", &s.invert, e))
        return -1;
    s.rules = rules_of(v, &s);
    if (!s.rules && load_pattern(v, &s.text, &s.regex, e))
        return -1;
    s.kind = s.rules ? PRETOK_RULES : s.regex ? PRETOK_REGEX : PRETOK_TEXT;
    return pretok_give(&t->pretok, &s, e);
}

static int read_delimiter(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct pretok_step s = {.kind = PRETOK_TEXT, .behavior = PRETOK_REMOVED};
    if (load_text(v, "delimiter", &s.text, e))
        return -1;
    return pretok_give(&t->pretok, &s, e);
}

static int read_digits(struct tokenizer *t, const struct json *v, struct err *e)
{
    bool individual = false;
    if (json_opt_bool(v, "individual_digits", &individual, e))
        return -1;
    return give_class(t, UC_NUMBER, individual ? PRETOK_ISOLATED : PRETOK_CONTIGUOUS, e);
}

static int read_punctuation(struct tokenizer *t, const struct json *v, struct err *e)
{
    enum pretok_behavior behavior = PRETOK_ISOLATED;
    if (read_behavior(v, &behavior, e))
        return -1;
    return give_class(t, UC_PUNCT, behavior, e);
}

static int read_whitespace(struct tokenizer *t, const struct json *v, struct err *e)
{
    (void)v;
    if (give_class(t, UC_SPACE, PRETOK_REMOVED, e))
        return -1;
    return give_class(t, UC_WORD, PRETOK_CONTIGUOUS, e);
}

static int read_whitespace_split(struct tokenizer *t, const struct json *v, struct err *e)
{
    (void)v;
    return give_class(t, UC_SPACE, PRETOK_REMOVED, e);
}

static int read_bert(struct tokenizer *t, const struct json *v, struct err *e)
{
    (void)v;
    if (give_class(t, UC_SPACE, PRETOK_REMOVED, e))
        return -1;
    return give_class(t, UC_PUNCT, PRETOK_ISOLATED, e);
}

static int read_prepend_scheme(const struct json *v, enum pretok_prepend *out, struct err *e)
{
    struct json scheme = json_member(v, "prepend_scheme");
    bool old_flag = true;
    const char *s;
    if (json_absent(&scheme)) {
        if (json_opt_bool(v, "add_prefix_space", &old_flag, e))
            return -1;
        *out = old_flag ? PRETOK_PREPEND_ALWAYS : PRETOK_PREPEND_NEVER;
        return 0;
    }
    if (json_as_str(&scheme, &s, e))
        return -1;
    *out = !strcmp(s, "always")  ? PRETOK_PREPEND_ALWAYS
           : !strcmp(s, "first") ? PRETOK_PREPEND_FIRST
                                 : PRETOK_PREPEND_NEVER;
    if (*out == PRETOK_PREPEND_NEVER && strcmp(s, "never") != 0)
        return json_err(&scheme, e, ERR_UNSUPPORTED, "\"%.64s\" is not supported", s);
    return 0;
}

static int read_metaspace(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct pretok_step s = {
        .kind = PRETOK_METASPACE, .behavior = PRETOK_MERGED_WITH_NEXT, .is_split = true};
    if (read_prepend_scheme(v, &s.prepend, e) || json_opt_bool(v, "split", &s.is_split, e) ||
        load_text(v, "replacement", &s.text, e))
        return -1;
    return pretok_give(&t->pretok, &s, e);
}

static const struct row pretokenizers[] = {
    {"ByteLevel", read_byte_level, 0},
    {"Split", read_split, 0},
    {"Digits", read_digits, 0},
    {"Metaspace", read_metaspace, 0},
    {"Whitespace", read_whitespace, 0},
    {"WhitespaceSplit", read_whitespace_split, 0},
    {"Punctuation", read_punctuation, 0},
    {"BertPreTokenizer", read_bert, 0},
    {"CharDelimiterSplit", read_delimiter, 0},
    {NULL, NULL, 0},
};

/* ---- the chains ---- */

static int load_sequence(struct tokenizer *t, const struct json *v, const char *list,
                         const struct row *rows, int depth, struct err *e)
{
    struct json children, child;
    if (json_get(v, list, JSON_ARRAY, &children, e))
        return -1;
    json_each(child, children) if (load_chain(t, &child, list, rows, depth + 1, e)) return -1;
    return 0;
}

static int load_chain(struct tokenizer *t, const struct json *v, const char *list,
                      const struct row *rows, int depth, struct err *e)
{
    const struct row *r;
    const char *type;
    if (load_type(v, &type, e))
        return -1;
    if (depth > MAX_DEPTH)
        return json_err(v, e, ERR_UNSUPPORTED, "Sequences deeper than %d", MAX_DEPTH);
    if (!strcmp(type, "Sequence"))
        return load_sequence(t, v, list, rows, depth, e);
    r = find_row(rows, type);
    if (!r)
        return json_err(v, e, ERR_UNSUPPORTED, "the type \"%.64s\" is not supported", type);
    return r->read ? r->read(t, v, e) : give_normalize(t, (enum normalize_kind)r->kind, e);
}

int load_normalize(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "normalizer");
    return json_absent(&v) ? 0 : load_chain(t, &v, "normalizers", normalizers, 0, e);
}

/* The classes that the steps look at. */
static unsigned class_mask(const struct pretok *c)
{
    unsigned mask = 0;
    for (size_t i = 0; i < c->n; i++)
        mask |= c->step[i].kind == PRETOK_RULES   ? (unsigned)SPLIT_CLASSES
                : c->step[i].kind == PRETOK_CLASS ? c->step[i].mask
                                                  : 0;
    return mask;
}

int load_pretok(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "pre_tokenizer");
    if (!json_absent(&v) && load_chain(t, &v, "pretokenizers", pretokenizers, 0, e))
        return -1;
    t->pretok.class = uclass_new(class_mask(&t->pretok), e);
    return t->pretok.class ? 0 : -1;
}
