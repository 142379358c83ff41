/* SPDX-License-Identifier: Apache-2.0
 *
 * The post-processor of tokenizer.json: which tokens stand before and behind a text. Of two texts
 * load_pair.c says it; what a post-processor says about offsets does not matter
 * here, because spans always are the bytes that a token was made of.
 */
#include <string.h>

#include "engine/token/internal.h"

enum { MAX_DEPTH = 8 };

static int push(struct tokenizer_affix *a, const struct json *v, int64_t id, struct err *e)
{
    if (a->n == TOKENIZER_MAX_AFFIX)
        return json_err(v, e, ERR_TOO_LARGE, "more than %d special tokens on one side",
                        TOKENIZER_MAX_AFFIX);
    a->id[a->n++] = (int32_t)id;
    return 0;
}

int load_special(struct tokenizer_affix *a, const struct json *tokens, const struct json *item,
                 struct err *e)
{
    const char *name;
    struct json token, ids, v;
    int64_t id;
    if (json_get_str(item, "id", &name, e) || json_get(tokens, name, JSON_OBJECT, &token, e) ||
        json_get(&token, "ids", JSON_ARRAY, &ids, e))
        return -1;
    json_each(v, ids) if (json_as_int(&v, 0, VOCAB_MAX_IDS - 1, &id, e) ||
                          push(a, &v, id, e)) return -1;
    return 0;
}

static int read_template(const struct json *v, struct tokenizer_affix *before,
                         struct tokenizer_affix *after, struct err *e)
{
    struct json single, tokens, item;
    bool behind = false;
    if (json_get(v, "single", JSON_ARRAY, &single, e) ||
        json_get(v, "special_tokens", JSON_OBJECT, &tokens, e))
        return -1;
    json_each(item, single)
    {
        struct json token = json_member(&item, "SpecialToken");
        struct json sequence = json_member(&item, "Sequence");
        if (token.node) {
            if (load_special(behind ? after : before, &tokens, &token, e))
                return -1;
        } else if (!sequence.node || behind) {
            return json_err(&item, e, ERR_UNSUPPORTED, "the text must stand in the template once");
        } else {
            behind = true;
        }
    }
    return behind
               ? 0
               : json_err(&single, e, ERR_UNSUPPORTED, "the text must stand in the template once");
}

/* ["[SEP]", 102] */
int load_marker(const struct json *v, const char *key, struct tokenizer_affix *a, struct err *e)
{
    struct json pair, second = {0};
    int64_t id;
    if (json_get(v, key, JSON_ARRAY, &pair, e))
        return -1;
    struct json first = json_child(&pair);
    if (first.node)
        second = json_next(&first);
    if (!second.node)
        return json_err(&pair, e, ERR_BAD_INPUT, "expected a token and its id");
    return json_as_int(&second, 0, VOCAB_MAX_IDS - 1, &id, e) || push(a, &second, id, e) ? -1 : 0;
}

static int read_post(const struct json *v, struct tokenizer_affix *before,
                     struct tokenizer_affix *after, struct err *e)
{
    const char *type;
    if (load_type(v, &type, e))
        return -1;
    if (!strcmp(type, "ByteLevel"))
        return 0;
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(v, before, after, e);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        return load_marker(v, "cls", before, e) || load_marker(v, "sep", after, e) ? -1 : 0;
    return json_err(v, e, ERR_UNSUPPORTED, "the type \"%.64s\" is not supported", type);
}

/* Puts what one post-processor adds around what those before it have added. */
static int wrap(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct tokenizer_affix before = {0}, after = {0};
    const char *type;
    if (read_post(v, &before, &after, e) || load_type(v, &type, e))
        return -1;
    load_pair(&t->pair, type, v);
    for (size_t i = 0; i < t->before.n; i++)
        if (push(&before, v, t->before.id[i], e))
            return -1;
    for (size_t i = 0; i < after.n; i++)
        if (push(&t->after, v, after.id[i], e))
            return -1;
    t->before = before;
    return 0;
}

static int load_any(struct tokenizer *t, const struct json *v, int depth, struct err *e)
{
    struct json list, child;
    const char *type;
    if (load_type(v, &type, e))
        return -1;
    if (strcmp(type, "Sequence") != 0)
        return wrap(t, v, e);
    if (depth == MAX_DEPTH)
        return json_err(v, e, ERR_UNSUPPORTED, "Sequences deeper than %d", MAX_DEPTH);
    if (json_get(v, "processors", JSON_ARRAY, &list, e))
        return -1;
    json_each(child, list) if (load_any(t, &child, depth + 1, e)) return -1;
    return 0;
}

int load_post(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "post_processor");
    return json_absent(&v) ? 0 : load_any(t, &v, 0, e);
}
