/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of Ollama's API that the other routes have otherwise: conversations whose calls of tools
 * have no ids, a prompt that is a message of the user, and options. Here they become what a chat
 * has, and from there on there is one way.
 *
 * Templates may want ids of calls. Where a call has none it gets one by its number; a result that
 * names no call belongs to the first call of its tool that has no result yet.
 */
#include <stdio.h>
#include <string.h>

#include "api/value.h"
#include "api/walk.h"

/* ---- the conversation ---------------------------------------------------------------------- */

/* A call that has no result yet. */
struct call {
    const char *id, *name;
    struct call *next;
};

struct talk {
    struct walk w;
    struct call *first, *last;
    size_t n_call;
    const json_t *empty; /* a text of no bytes */
};

static const char *make_id(struct talk *t)
{
    return arena_printf(t->w.r->arena, "call%05zu", t->n_call % 100000);
}

/* Content may be missing beside calls and thoughts; a text of no bytes is as good as none. */
static const json_t *read_text(struct talk *t, const json_t *v, const char *key)
{
    const json_t *s = value_member(v, key);
    if (s && !json_is_string(s)) {
        walk_bad(&t->w, "", "has a '%s' that is not a string", key);
        return NULL;
    }
    return s ? s : t->empty;
}

static int keep_call(struct talk *t, const char *id, const char *name)
{
    struct call *c = arena_try(t->w.r->arena, 1, sizeof *c, &t->w.turns.e);
    if (!c)
        return -1;
    *c = (struct call){.id = id, .name = name};
    if (t->last)
        t->last->next = c;
    else
        t->first = c;
    t->last = c;
    t->n_call++;
    return 0;
}

static int read_call(struct talk *t, const json_t *v)
{
    struct walk *w = &t->w;
    const json_t *f = json_object_get(v, "function"), *input = value_member(f, "arguments");
    struct jvalue arguments;
    if (!json_is_object(f))
        return walk_bad(w, "", "must be an object with a 'function'");
    const char *name = walk_name(w, f, "name");
    const char *id = !name ? NULL : value_member(v, "id") ? walk_name(w, v, "id") : make_id(t);
    if (!id)
        return -1;
    if (!json_is_object(input))
        return walk_bad(w, "", "has no 'arguments' that are an object");
    return api_jvalue(w->r->arena, input, &arguments, &w->turns.e) ||
                   turns_add_call(&w->turns, id, name, arguments) || keep_call(t, id, name)
               ? -1
               : 0;
}

static int read_calls(struct talk *t, const json_t *calls)
{
    struct walk *w = &t->w;
    size_t n = strlen(w->where);
    if (calls && !json_is_array(calls))
        return walk_bad(w, ".tool_calls", "must be an array");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        snprintf(w->where + n, sizeof w->where - n, ".tool_calls[%zu]", i);
        if (read_call(t, json_array_get(calls, i)))
            return -1;
    }
    w->where[n] = 0;
    return 0;
}

/* The id that a result says, or the one of the call that it must be of. */
static const char *result_id(struct talk *t, const json_t *v)
{
    const char *key = value_member(v, "tool_name") ? "tool_name" : "name";
    bool has_name = value_member(v, key) != NULL;
    if (value_member(v, "tool_call_id"))
        return walk_name(&t->w, v, "tool_call_id");
    const char *name = has_name ? walk_name(&t->w, v, key) : NULL;
    if (has_name && !name)
        return NULL;
    for (struct call *c = t->first; c; c = c->next) {
        if (!c->id || (name && strcmp(c->name, name) != 0))
            continue;
        const char *id = c->id;
        c->id = NULL;
        return id;
    }
    const char *made = make_id(t);
    t->n_call++;
    return made;
}

static int read_result(struct talk *t, const json_t *v)
{
    const char *id = result_id(t, v);
    const json_t *text = id ? read_text(t, v, "content") : NULL;
    struct turns_texts texts = {.n = 0};
    return text && !turns_text(&t->w.turns, &texts, text)
               ? turns_add_result(&t->w.turns, id, &texts)
               : -1;
}

static int read_words(struct talk *t, const char *role, const json_t *v)
{
    struct walk *w = &t->w;
    const json_t *calls = value_member(v, "tool_calls");
    const json_t *text = read_text(t, v, "content");
    const json_t *thought = text ? read_text(t, v, "thinking") : NULL;
    if (!thought || turns_begin(&w->turns, role))
        return -1;
    bool has_text = json_string_length(text) > 0 || !json_array_size(calls);
    if (json_string_length(thought) && turns_add_thought(&w->turns, thought))
        return -1;
    return (has_text && turns_add_text(&w->turns, text)) || read_calls(t, calls) ? -1 : 0;
}

static int read_turn(struct talk *t, const json_t *v)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const json_t *role = json_object_get(v, "role"), *images = value_member(v, "images");
    size_t i = 0;
    if (!json_is_object(v))
        return walk_bad(&t->w, "", "must be an object");
    while (i < 4 && !value_is_word(role, roles[i]))
        i++;
    if (i == 4)
        return walk_bad(&t->w, ".role", "must be one of system, user, assistant, tool");
    if (images && !(json_is_array(images) && !json_array_size(images)))
        return walk_bad(&t->w, ".images", "cannot be shown: the models here read text alone");
    return i == 3 ? read_result(t, v) : read_words(t, roles[i], v);
}

static int read_talk(struct talk *t)
{
    struct api_reader *r = t->w.r;
    if (turns_init(&t->w.turns, r->arena))
        return -1;
    t->empty = api_json_keep(r->arena, json_string(""));
    if (!t->empty)
        return err_set(&t->w.turns.e, ERR_NO_MEMORY, "there is no memory for the messages now");
    for (size_t i = 0; i < json_array_size(r->turns); i++) {
        snprintf(t->w.where, sizeof t->w.where, "messages[%zu]", i);
        if (read_turn(t, json_array_get(r->turns, i)))
            return -1;
    }
    return turns_end(&t->w.turns);
}

/* A prompt is a message of the user, behind one of the system where that was given. */
static int read_prompt(struct talk *t)
{
    struct api_reader *r = t->w.r;
    struct turns *turns = &t->w.turns;
    if (turns_init(turns, r->arena))
        return -1;
    if (r->system && (turns_begin(turns, "system") || turns_add_text(turns, r->system)))
        return -1;
    return turns_begin(turns, "user") || turns_add_text(turns, r->prompt) || turns_end(turns) ? -1
                                                                                              : 0;
}

/* What stands around a prompt that is taken as it is cannot be shown. */
static int take_raw(struct api_reader *r)
{
    struct api_request *q = r->out;
    const char *name = r->system                               ? "system"
                       : q->sets_thinking && q->wants_thinking ? "think"
                                                               : NULL;
    if (name)
        return param_bad(r, name, "wants a chat template, and this prompt is taken as it is");
    if (param_read_text(r, "prompt", r->prompt))
        return -1;
    q->route = API_OLLAMA_RAW;
    q->adds_special = true;
    q->sets_thinking = false;
    return 0;
}

int api_ollama_settle(struct api_reader *r)
{
    struct api_request *q = r->out;
    struct talk t = {.w = {.r = r}};
    bool is_chat = q->route == API_OLLAMA_CHAT;
    q->asks_nothing = is_chat ? !json_array_size(r->turns) : !json_string_length(r->prompt);
    if (q->asks_nothing)
        return 0;
    if (!is_chat && (q->is_raw || q->gap.is_there || !r->limits->has_template))
        return take_raw(r);
    if (is_chat ? read_talk(&t) : read_prompt(&t))
        return walk_fail(&t.w, is_chat ? "messages" : "prompt");
    q->messages = t.w.turns.list;
    return 0;
}

int param_read_ollama_messages(struct api_reader *r, const char *name, const json_t *v)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return param_type(r, name, "an array of messages", v);
    if (n > API_MESSAGES_MAX)
        return param_bad(r, name, "holds %zu messages: the limit is %d", n, API_MESSAGES_MAX);
    r->turns = v;
    return 0;
}

int param_read_ollama_prompt(struct api_reader *r, const char *name, const json_t *v)
{
    r->prompt = v;
    return json_is_string(v) ? 0 : param_type(r, name, "a string", v);
}

int param_read_ollama_system(struct api_reader *r, const char *name, const json_t *v)
{
    r->system = json_string_length(v) ? v : NULL;
    return json_is_string(v) ? 0 : param_type(r, name, "a string", v);
}

/* ---- around it ----------------------------------------------------------------------------- */

/* "json", or a schema. */
int param_read_ollama_format(struct api_reader *r, const char *name, const json_t *v)
{
    if (json_is_object(v))
        return param_read_guided_json(r, name, v);
    if (!json_is_string(v))
        return param_type(r, name, "\"json\" or a JSON schema", v);
    if (!json_string_length(v))
        return 0;
    return value_is_word(v, "json") ? param_read_guided_json_object(r, name, json_true())
                                    : param_bad(r, name, "must be \"json\" or a JSON schema");
}

/* Whether the model thinks, or how much. False is kept to: what comes all the same is not told. */
int param_read_ollama_think(struct api_reader *r, const char *name, const json_t *v)
{
    struct api_request *q = r->out;
    if (!json_is_boolean(v) && !json_is_string(v))
        return param_type(r, name, "a boolean, or one of low, medium, high", v);
    if (!json_is_false(v) && !r->limits->may_think)
        return param_bad(r, name, "cannot be had: this model does not support thinking");
    if (json_is_string(v))
        return param_read_effort(r, name, v);
    q->sets_thinking = r->limits->turns_thinking;
    q->wants_thinking = q->shows_thoughts = json_is_true(v);
    return 0;
}

/* A model is here as long as the server is. */
int param_read_keep_alive(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v) && !json_is_number(v))
        return param_type(r, name, "a duration, as \"5m\", or a number of seconds", v);
    return params_ignore(r, name);
}

int param_read_ollama_cut(struct api_reader *r, const char *name, const json_t *v)
{
    r->out->cut = json_is_false(v) ? API_CUT_NEVER : API_CUT_ALWAYS;
    return json_is_boolean(v) ? 0 : param_type(r, name, "a boolean", v);
}

/* ---- options ------------------------------------------------------------------------------- */

int param_read_ollama_options(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    return params_read_members(r, API_OLLAMA_OPTIONS, v);
}

/* -1 and -2: as much as the context leaves. */
int param_read_num_predict(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t n;
    if (param_int(r, name, v, -2, INT32_MAX, &n))
        return -1;
    if (!n)
        return param_bad(r, name, "must be at least 1, or -1 for what the context leaves");
    r->out->gen.max_new = n < 0 ? -1 : n;
    return 0;
}

/* The context is the server's; one that is smaller would only have texts cut. */
int param_read_num_ctx(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t n;
    if (param_int(r, name, v, 1, INT32_MAX, &n))
        return -1;
    if (n > r->limits->ctx)
        return param_bad(r, name, "is more than this server's context of %lld tokens",
                         (long long)r->limits->ctx);
    return params_ignore(r, name);
}

/* -1 is as good as none. */
int param_read_ollama_seed(struct api_reader *r, const char *name, const json_t *v)
{
    if (param_read_seed(r, name, v))
        return -1;
    r->out->has_seed = r->out->seed != -1;
    return 0;
}

/* Penalties are of the whole text here (-1); 0 means none. */
int param_read_repeat_last_n(struct api_reader *r, const char *name, const json_t *v)
{
    int64_t n;
    if (param_int(r, name, v, -1, INT32_MAX, &n))
        return -1;
    r->repeats_freely = n == 0;
    return n > 0 ? params_ignore(r, name) : 0;
}
