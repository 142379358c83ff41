/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of pieces. The members stand in the order that api_messages gives them: templates that
 * write a message as JSON show it.
 */
#include "api/turns.h"

#include <string.h>

#include "api/messages.h"

int turns_init(struct turns *t, struct arena *a)
{
    *t = (struct turns){.arena = a, .calls = jv_none(), .e = ERR_INIT};
    return jv_list(a, &t->list, &t->e);
}

int turns_text(struct turns *t, struct turns_texts *to, const json_t *v)
{
    struct turns_text *x = arena_try(t->arena, 1, sizeof *x, &t->e);
    if (!x)
        return -1;
    *x = (struct turns_text){.p = json_string_value(v), .n = json_string_length(v)};
    if (to->last)
        to->last->next = x;
    else
        to->first = x;
    to->last = x;
    to->n++;
    to->bytes += x->n;
    return 0;
}

static int join(struct turns *t, const struct turns_texts *texts, struct jvalue *out)
{
    if (texts->n == 1)
        return jv_str_view(t->arena, texts->first->p, texts->first->n, out, &t->e);
    char *all = arena_try(t->arena, texts->bytes + texts->n + 1, 1, &t->e), *p = all;
    if (!all)
        return -1;
    for (const struct turns_text *x = texts->first; x; x = x->next) {
        if (x != texts->first)
            *p++ = '\n';
        memcpy(p, x->p, x->n);
        p += x->n;
    }
    return jv_str_view(t->arena, all, (size_t)(p - all), out, &t->e);
}

static int put(struct turns *t, struct jvalue *dict, const char *key, struct jvalue v)
{
    return jv_dict_put(t->arena, dict, key, strlen(key), v, &t->e);
}

static int put_str(struct turns *t, struct jvalue *dict, const char *key, const char *s)
{
    struct jvalue v;
    return jv_str_view(t->arena, s, strlen(s), &v, &t->e) ? -1 : put(t, dict, key, v);
}

/* Who called tools may have said nothing; templates of most families want that to be none. */
static int put_content(struct turns *t, struct jvalue *message)
{
    struct jvalue v = jv_none();
    if ((t->text.n || t->calls.type == JT_NONE) && join(t, &t->text, &v))
        return -1;
    return put(t, message, "content", v);
}

int turns_end(struct turns *t)
{
    struct jvalue message, thought;
    if (!t->role)
        return 0;
    if (jv_dict(t->arena, &message, &t->e) || put_str(t, &message, "role", t->role) ||
        put_content(t, &message))
        return -1;
    if (t->thought.n &&
        (join(t, &t->thought, &thought) || put(t, &message, "reasoning_content", thought)))
        return -1;
    if (t->calls.type == JT_LIST && put(t, &message, "tool_calls", t->calls))
        return -1;
    t->role = NULL;
    return jv_list_add(t->arena, &t->list, message, &t->e);
}

int turns_begin(struct turns *t, const char *role)
{
    if (turns_end(t))
        return -1;
    t->role = role;
    t->text = t->thought = (struct turns_texts){.n = 0};
    t->calls = jv_none();
    return 0;
}

int turns_add_text(struct turns *t, const json_t *v)
{
    return turns_text(t, &t->text, v);
}

int turns_add_thought(struct turns *t, const json_t *v)
{
    return turns_text(t, &t->thought, v);
}

int turns_add_call(struct turns *t, const char *id, const char *name, struct jvalue arguments)
{
    struct jvalue call, fn;
    if (t->calls.type != JT_LIST && jv_list(t->arena, &t->calls, &t->e))
        return -1;
    if (jv_dict(t->arena, &fn, &t->e) || put_str(t, &fn, "name", name) ||
        put(t, &fn, "arguments", arguments))
        return -1;
    if (jv_dict(t->arena, &call, &t->e) || put_str(t, &call, "id", id) ||
        put_str(t, &call, "type", "function") || put(t, &call, "function", fn))
        return -1;
    return jv_list_add(t->arena, &t->calls, call, &t->e);
}

int turns_add_result(struct turns *t, const char *id, const struct turns_texts *texts)
{
    struct jvalue message, text;
    if (turns_end(t))
        return -1;
    if (jv_dict(t->arena, &message, &t->e) || put_str(t, &message, "role", "tool") ||
        join(t, texts, &text) || put(t, &message, "content", text) ||
        put_str(t, &message, "tool_call_id", id))
        return -1;
    return jv_list_add(t->arena, &t->list, message, &t->e);
}
