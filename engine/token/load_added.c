/* SPDX-License-Identifier: Apache-2.0
 *
 * The added tokens of tokenizer.json, and the small readers that all parts share.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/token/internal.h"

enum { MAX_TEXT_BYTES = 256 };

int load_type(const struct json *v, const char **type, struct err *e)
{
    if (json_want(v, JSON_OBJECT, e))
        return -1;
    return json_get_str(v, "type", type, e);
}

static int copy_text(const struct json *v, char **out, struct err *e)
{
    const char *s;
    size_t len;
    if (json_as_bytes(v, &s, &len, e))
        return -1;
    if (len > MAX_TEXT_BYTES || memchr(s, 0, len))
        return json_err(v, e, ERR_UNSUPPORTED, "must be at most %d bytes, none of them 0",
                        MAX_TEXT_BYTES);
    *out = xstrndup(s, len);
    return 0;
}

int load_text(const struct json *v, const char *key, char **out, struct err *e)
{
    struct json s;
    if (json_get(v, key, JSON_STRING, &s, e))
        return -1;
    return copy_text(&s, out, e);
}

int load_pattern(const struct json *v, char **text, struct regex **regex, struct err *e)
{
    struct json pattern, s;
    const char *p;
    size_t len;
    struct err why = ERR_INIT;
    if (json_get(v, "pattern", JSON_OBJECT, &pattern, e))
        return -1;
    s = json_member(&pattern, "String");
    if (s.node)
        return copy_text(&s, text, e);
    if (json_get(&pattern, "Regex", JSON_STRING, &s, e) || json_as_bytes(&s, &p, &len, e))
        return -1;
    *regex = regex_new(p, len, &why);
    return *regex ? 0 : json_err(&s, e, why.code, "%s", why.msg);
}

static int load_one(struct tokenizer *t, const struct json *v, struct err *e)
{
    struct added_token a = {0};
    struct json content;
    struct err why = ERR_INIT;
    const char *s;
    size_t len;
    int64_t id;
    if (json_want(v, JSON_OBJECT, e) || json_get_int(v, "id", 0, VOCAB_MAX_IDS - 1, &id, e) ||
        json_get(v, "content", JSON_STRING, &content, e) || json_as_bytes(&content, &s, &len, e) ||
        json_opt_bool(v, "special", &a.is_special, e) ||
        json_opt_bool(v, "normalized", &a.is_normalized, e) ||
        json_opt_bool(v, "single_word", &a.is_word, e) ||
        json_opt_bool(v, "lstrip", &a.takes_left, e) ||
        json_opt_bool(v, "rstrip", &a.takes_right, e))
        return -1;
    a.id = (int32_t)id;
    a.len = (uint32_t)len;
    a.content = xmalloc(len + 1);
    memcpy(a.content, s, len);
    a.content[len] = 0;
    return added_give(&t->added, a, &why) ? json_err(v, e, why.code, "%s", why.msg) : 0;
}

int load_added(struct tokenizer *t, const struct json *root, struct err *e)
{
    struct json list = json_member(root, "added_tokens"), v;
    if (json_absent(&list))
        return 0;
    if (json_want(&list, JSON_ARRAY, e))
        return -1;
    json_each(v, list) if (load_one(t, &v, e)) return -1;
    return 0;
}
