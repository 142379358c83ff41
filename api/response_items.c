/* SPDX-License-Identifier: Apache-2.0
 *
 * Items with ids; contents that are texts become parts.
 */
#include "api/response_items.h"

#include <stdio.h>
#include <string.h>

#include "api/jout.h"
#include "api/json.h"

enum { ID_BYTES = 96 };

struct items {
    const char *id; /* the response's */
    const json_t *at;
    size_t n;
    bool is_chat; /* messages */
};

static const json_t *item_at(const struct items *l, size_t i)
{
    return json_array_get(l->at, i);
}

static const char *id_of(const struct items *l, size_t i, char id[ID_BYTES])
{
    const json_t *item = item_at(l, i), *own = json_object_get(item, "id");
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *rest = strchr(l->id, '_');
    if (l->is_chat) {
        snprintf(id, ID_BYTES, "%.80s-%zu", l->id, i);
        return id;
    }
    if (json_is_string(own) && json_string_length(own) < ID_BYTES) {
        snprintf(id, ID_BYTES, "%s", json_string_value(own));
        return id;
    }
    const char *prefix = !type || strcmp(type, "message") == 0 ? "msg"
                         : strcmp(type, "reasoning") == 0      ? "rs"
                         : strcmp(type, "function_call") == 0  ? "fc"
                                                               : "fco";
    snprintf(id, ID_BYTES, "%s_%s_in%zu", prefix, rest ? rest + 1 : l->id, i);
    return id;
}

static void put_text(struct jout *j, const char *role, const json_t *text)
{
    jout_open(j, '[');
    jout_open(j, '{');
    jout_put_str(j, "type", strcmp(role, "assistant") == 0 ? "output_text" : "input_text");
    jout_key(j, "text");
    jout_bytes(j, json_string_value(text), json_string_length(text));
    if (strcmp(role, "assistant") == 0) {
        jout_key(j, "annotations");
        jout_raw(j, "[]");
    }
    jout_close(j, '}');
    jout_close(j, ']');
}

static int put_value(struct jout *j, struct arena *a, const json_t *v, struct api_error *e)
{
    struct err why = ERR_INIT;
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY, n = json_dumpb(v, NULL, 0, flags);
    char *p = arena_try(a, n + 1, 1, &why);
    if (!p)
        return api_fail_err(e, &why, NULL);
    jout_json(j, p, json_dumpb(v, p, n, flags));
    return 0;
}

static void put_begin(struct jout *j, const struct items *l, size_t i, const char *type)
{
    char id[ID_BYTES];
    jout_open(j, '{');
    jout_put_str(j, "id", id_of(l, i, id));
    jout_put_str(j, "type", type);
}

static int put_message(struct jout *j, struct arena *a, const json_t *item, struct api_error *e)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    const json_t *content = json_object_get(item, "content");
    jout_put_str(j, "status", "completed");
    jout_put_str(j, "role", role);
    jout_key(j, "content");
    if (!json_is_string(content))
        return put_value(j, a, content, e);
    put_text(j, role, content);
    return 0;
}

static int put_others(struct jout *j, struct arena *a, const json_t *item, struct api_error *e)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)item, key, v)
    {
        if (strcmp(key, "id") == 0 || strcmp(key, "type") == 0)
            continue;
        jout_key(j, key);
        if (put_value(j, a, v, e))
            return -1;
    }
    return 0;
}

static int put_item(struct jout *j, struct arena *a, const struct items *l, size_t i,
                    struct api_error *e)
{
    const json_t *item = item_at(l, i);
    const char *type = json_string_value(json_object_get(item, "type"));
    bool is_message = !type || strcmp(type, "message") == 0;
    put_begin(j, l, i, is_message ? "message" : type);
    if (is_message ? put_message(j, a, item, e) : put_others(j, a, item, e))
        return -1;
    jout_close(j, '}');
    return 0;
}

/* As OpenAI tells them: parts apart from a text. */
static int put_chat(struct jout *j, struct arena *a, const struct items *l, size_t i,
                    struct api_error *e)
{
    char id[ID_BYTES];
    const json_t *content = json_object_get(item_at(l, i), "content");
    const char *key;
    json_t *v;
    bool has_parts = json_is_array(content);
    jout_open(j, '{');
    jout_put_str(j, "id", id_of(l, i, id));
    json_object_foreach((json_t *)(uintptr_t)item_at(l, i), key, v)
    {
        bool is_parts = v == content && has_parts;
        if (strcmp(key, "id") == 0)
            continue;
        jout_key(j, is_parts ? "content_parts" : key);
        if (put_value(j, a, v, e))
            return -1;
    }
    jout_put_null(j, has_parts ? "content" : "content_parts");
    jout_close(j, '}');
    return 0;
}

/* The place behind `after`, counted in the page's order. */
static int begin_of(const struct items *l, const struct api_items_page *page, size_t *from,
                    struct api_error *e)
{
    char id[ID_BYTES];
    *from = 0;
    for (size_t k = 0; page->after && k < l->n; k++) {
        size_t i = page->ascending ? k : l->n - 1 - k;
        if (strcmp(id_of(l, i, id), page->after) == 0) {
            *from = k + 1;
            return 0;
        }
    }
    return page->after
               ? api_fail(e, 400, "invalid_value", "after", "'after' is no item of this list.")
               : 0;
}

static void put_end(struct jout *j, const char *key, const struct items *l,
                    const struct api_items_page *page, size_t k, bool is_there)
{
    char id[ID_BYTES];
    jout_put_str(j, key, is_there ? id_of(l, page->ascending ? k : l->n - 1 - k, id) : NULL);
}

static int write_page(struct arena *a, struct items l, const char *input,
                      const struct api_items_page *page, struct buf *out, struct api_error *e)
{
    struct err why = ERR_INIT;
    int values = API_JSON_VALUES_MAX;
    size_t from, to;
    l.at = api_json_inner(a, input, strlen(input), &values, &why);
    if (!l.at)
        return api_fail(e, 500, NULL, NULL, "what was kept cannot be read");
    l.n = json_array_size(l.at);
    if (begin_of(&l, page, &from, e))
        return -1;
    to = l.n - from > (size_t)page->limit ? from + (size_t)page->limit : l.n;
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "object", "list");
    jout_key(&j, "data");
    jout_open(&j, '[');
    for (size_t k = from; k < to; k++) {
        size_t i = page->ascending ? k : l.n - 1 - k;
        if (l.is_chat ? put_chat(&j, a, &l, i, e) : put_item(&j, a, &l, i, e))
            return -1;
    }
    jout_close(&j, ']');
    put_end(&j, "first_id", &l, page, from, to > from);
    put_end(&j, "last_id", &l, page, to - 1, to > from);
    jout_put_bool(&j, "has_more", to < l.n);
    jout_close(&j, '}');
    return 0;
}

int api_input_items_write(struct arena *a, const char *id, const char *input,
                          const struct api_items_page *page, struct buf *out, struct api_error *e)
{
    return write_page(a, (struct items){.id = id}, input, page, out, e);
}

int api_chat_messages_write(struct arena *a, const char *id, const char *input,
                            const struct api_items_page *page, struct buf *out, struct api_error *e)
{
    return write_page(a, (struct items){.id = id, .is_chat = true}, input, page, out, e);
}
