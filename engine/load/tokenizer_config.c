/* SPDX-License-Identifier: Apache-2.0
 *
 * See tokenizer_config.h.
 */
#include "engine/load/tokenizer_config.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

#define NAME         "tokenizer_config.json"
#define MAP_NAME     "special_tokens_map.json"
#define JINJA_NAME   "chat_template.jinja"
#define DEFAULT_NAME "default"

static const char *keep(struct tokenizer_config *t, const struct json *v, const char *s,
                        struct err *e)
{
    size_t n = strlen(s) + 1;
    char *copy = arena_try(&t->arena, n, 1, e);
    if (copy)
        return memcpy(copy, s, n);
    err_wrap(e, "%s", v->file);
    return NULL;
}

/* A special token is its text, or an object with the text as `content`. What is there stays. */
static int read_token(struct tokenizer_config *t, const struct json *root, const char *key,
                      const char **out, struct err *e)
{
    struct json m = json_member(root, key), content, *v = &m;
    const char *text;
    if (json_absent(&m) || *out)
        return 0;
    if (json_is(&m, JSON_OBJECT)) {
        if (json_get(&m, "content", JSON_STRING, &content, e))
            return -1;
        v = &content;
    }
    if (json_as_str(v, &text, e))
        return -1;
    return (*out = keep(t, v, text, e)) ? 0 : -1;
}

static int read_tokens(struct tokenizer_config *t, const struct json *root, struct err *e)
{
    if (json_want(root, JSON_OBJECT, e) || read_token(t, root, "bos_token", &t->bos, e) ||
        read_token(t, root, "eos_token", &t->eos, e) ||
        read_token(t, root, "unk_token", &t->unk, e) ||
        read_token(t, root, "pad_token", &t->pad, e) ||
        read_token(t, root, "sep_token", &t->sep, e) ||
        read_token(t, root, "cls_token", &t->cls, e) ||
        read_token(t, root, "mask_token", &t->mask, e))
        return -1;
    return 0;
}

static int read_flag(const struct json *root, const char *key, enum token_flag *out, struct err *e)
{
    struct json m = json_member(root, key);
    bool flag;
    if (json_absent(&m))
        return 0;
    if (json_as_bool(&m, &flag, e))
        return -1;
    *out = flag ? TOKEN_YES : TOKEN_NO;
    return 0;
}

static int add_template(struct tokenizer_config *t, const struct json *v, const char *name,
                        const char *text, struct err *e)
{
    for (int i = 0; i < t->n_template; i++)
        if (strcmp(t->template[i].name, name) == 0)
            return 0; /* chat_template.jinja came first */
    if (strlen(text) > TOKENIZER_MAX_TEMPLATE_BYTES)
        return json_err(v, e, ERR_TOO_LARGE, "a template of more than %d bytes",
                        TOKENIZER_MAX_TEMPLATE_BYTES);
    if (t->n_template == TOKENIZER_MAX_TEMPLATE)
        return json_err(v, e, ERR_TOO_LARGE, "more than %d templates", TOKENIZER_MAX_TEMPLATE);
    struct chat_template c = {keep(t, v, name, e), NULL};
    if (!c.name || !(c.text = keep(t, v, text, e)))
        return -1;
    t->template[t->n_template++] = c;
    return 0;
}

static int read_templates(struct tokenizer_config *t, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "chat_template"), c;
    const char *name = DEFAULT_NAME, *text;
    if (json_absent(&m))
        return 0;
    if (!json_is(&m, JSON_ARRAY))
        return json_as_str(&m, &text, e) || add_template(t, &m, name, text, e) ? -1 : 0;
    json_each(c, m)
    {
        if (json_want(&c, JSON_OBJECT, e) || json_get_str(&c, "name", &name, e) ||
            json_get_str(&c, "template", &text, e) || add_template(t, &c, name, text, e))
            return -1;
    }
    return 0;
}

static int read_max_len(struct tokenizer_config *t, const struct json *root, struct err *e)
{
    double d = 0; /* "none" is written as 1e30 */
    if (json_opt_num(root, "model_max_length", &d, e))
        return -1;
    t->max_len = d >= 1 && d < 0x1p31 ? (int64_t)d : 0;
    return 0;
}

static int read_config(struct tokenizer_config *t, const struct json *root, struct err *e)
{
    if (read_tokens(t, root, e) || read_flag(root, "add_bos_token", &t->add_bos, e) ||
        read_flag(root, "add_eos_token", &t->add_eos, e) || read_max_len(t, root, e) ||
        read_templates(t, root, e))
        return -1;
    return 0;
}

typedef int read_fn(struct tokenizer_config *, const struct json *, struct err *);

static int read_doc(struct tokenizer_config *t, struct json_doc *doc, read_fn *fn, struct err *e)
{
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = fn(t, &root, e);
    json_free(doc);
    return rc;
}

static int read_file(struct tokenizer_config *t, const char *dir, const char *name, read_fn *fn,
                     struct err *e)
{
    if (!path_exists(dir, name))
        return 0;
    char *path = path_join(dir, name);
    int rc = read_doc(t, json_read(path, name, &json_rules_config, e), fn, e);
    free(path);
    return rc;
}

static int read_jinja(struct tokenizer_config *t, const char *dir, struct err *e)
{
    const struct json where = {.file = JINJA_NAME};
    if (!path_exists(dir, JINJA_NAME))
        return 0;
    char *path = path_join(dir, JINJA_NAME);
    size_t len;
    char *text = path_read(path, JINJA_NAME, TOKENIZER_MAX_TEMPLATE_BYTES, &len, e);
    int rc = -1;
    if (text && strlen(text) != len)
        err_set(e, ERR_BAD_INPUT, JINJA_NAME ": holds a NUL character");
    else if (text)
        rc = add_template(t, &where, DEFAULT_NAME, text, e);
    mem_free(text);
    free(path);
    return rc;
}

static void init_empty(struct tokenizer_config *t)
{
    *t = (struct tokenizer_config){.add_bos = TOKEN_UNSAID, .add_eos = TOKEN_UNSAID};
    arena_init(&t->arena, (size_t)TOKENIZER_MAX_TEMPLATE * 2 * TOKENIZER_MAX_TEMPLATE_BYTES);
}

int tokenizer_config_init(struct tokenizer_config *t, const char *dir, struct err *e)
{
    init_empty(t);
    if (read_jinja(t, dir, e) == 0 && read_file(t, dir, NAME, read_config, e) == 0 &&
        read_file(t, dir, MAP_NAME, read_tokens, e) == 0)
        return 0;
    tokenizer_config_release(t);
    return -1;
}

int tokenizer_config_parse(struct tokenizer_config *t, const char *text, size_t len, struct err *e)
{
    init_empty(t);
    if (read_doc(t, json_parse(text, len, NAME, &json_rules_config, e), read_config, e) == 0)
        return 0;
    tokenizer_config_release(t);
    return -1;
}

void tokenizer_config_release(struct tokenizer_config *t)
{
    arena_release(&t->arena);
    t->n_template = 0;
}

const char *tokenizer_config_template(const struct tokenizer_config *t, const char *name)
{
    for (int i = 0; i < t->n_template; i++)
        if (strcmp(t->template[i].name, name ? name : DEFAULT_NAME) == 0)
            return t->template[i].text;
    return !name && t->n_template == 1 ? t->template[0].text : NULL;
}
