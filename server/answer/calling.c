/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of calls are random: what a client sends back with a tool's result only has to be its own.
 * Where a form numbers calls, its templates show ids, and these are made as the model knows them.
 */
#include "server/answer/calling.h"

#include <stdio.h>
#include <string.h>

#include "api/face.h"
#include "engine/base/letters.h"
#include "engine/template/template.h"

/* ---- what the text is held to -------------------------------------------------------------- */

static int no_format(const struct engine *g, struct api_error *e)
{
    struct template *t = engine_template(g);
    if (!t || !template_uses(t, "tools"))
        return api_fail(e, 400, "unsupported_parameter", "tools",
                        "'tools' is refused: this model's chat template does not show tools.");
    return api_fail(e, 400, "unsupported_parameter", "tools",
                    "'tools' is refused: how this model writes calls cannot be told from its chat "
                    "template. The server's --tool-format can say it: %s.",
                    tool_format_names());
}

static bool is_held(const struct api_request *q)
{
    bool holds = q->tool_mode == TOOL_MODE_REQUIRED || q->has_one_call;
    for (size_t i = 0; i < q->n_tool; i++)
        holds |= q->tool[i].is_strict || !q->tool[i].is_allowed;
    return holds;
}

/* The form of a text without calls may be JSON alone; any other says what the whole text is. */
static int take_form(const struct api_request *q, struct tool_ask *ask, struct api_error *e)
{
    const struct constraint *c = &q->constraint;
    if (c->kind == CONSTRAINT_NONE)
        return 0;
    if (c->kind != CONSTRAINT_SCHEMA && c->kind != CONSTRAINT_OBJECT)
        return api_fail(e, 400, "invalid_value", c->field,
                        "'%s' cannot be had with 'tools': what a text without calls must be can be "
                        "said as JSON alone.",
                        c->field);
    ask->has_form = true;
    ask->form = c->kind == CONSTRAINT_SCHEMA ? c->schema : NULL;
    return 0;
}

/* All that the grammar depends on. */
static struct gen_text key_of(const struct tool_format *f, const struct tool_ask *ask,
                              const struct api_request *q, struct arena *a, struct err *e)
{
    size_t n_form = ask->has_form ? q->constraint.text.n : 0, n_name = strlen(f->name) + 1;
    size_t n = 5 + q->n_tool + n_name + n_form + q->tools_text.n;
    char *key = arena_try(a, n, 1, e), *p = key;
    if (!key)
        return (struct gen_text){.p = NULL};
    *p++ = (char)('0' + ask->is_asked);
    *p++ = (char)('0' + ask->may_repeat);
    *p++ = (char)('0' + ask->keeps_all);
    *p++ = (char)('0' + ask->has_form + (ask->form != NULL));
    for (size_t i = 0; i < q->n_tool; i++)
        *p++ = (char)('0' + q->tool[i].is_allowed);
    memcpy(p, f->name, n_name);
    p += n_name;
    if (n_form)
        memcpy(p, q->constraint.text.p, n_form);
    p += n_form;
    *p++ = 0;
    memcpy(p, q->tools_text.p, q->tools_text.n);
    return (struct gen_text){.p = key, .n = (uint32_t)n};
}

static int hold(struct calling *t, const struct engine *g, const struct api_request *q,
                struct arena *a, struct api_error *e)
{
    const struct think_marks *think = engine_info(g)->think;
    struct err why = ERR_INIT;
    bool is_asked = q->tool_mode == TOOL_MODE_REQUIRED;
    struct tool_ask ask = {.tool = q->tool,
                           .n_tool = q->n_tool,
                           .is_asked = is_asked,
                           .say = think ? think->say : NULL,
                           .keeps_all = is_asked,
                           .may_repeat = !q->has_one_call && !t->format->is_single};
    if (!is_asked && take_form(q, &ask, e))
        return -1;
    if (!ask.has_form && !is_held(q))
        return 0;
    t->constraint = (struct constraint){.kind = CONSTRAINT_CALLS, .field = "tools"};
    t->constraint.calls = tool_format_grammar(t->format, &ask, a, &why);
    t->constraint.text =
        t->constraint.calls ? key_of(t->format, &ask, q, a, &why) : (struct gen_text){.p = NULL};
    return t->constraint.text.p ? 0 : api_fail_err(e, &why, "tools");
}

int calling_begin(struct calling *t, struct engine *g, const struct api_request *q, struct arena *a,
                  struct api_error *e)
{
    *t = (struct calling){.q = q, .constraint = q->constraint};
    if (q->tool_mode == TOOL_MODE_NONE)
        return 0;
    const struct tool_format *f = engine_info(g)->tool_format;
    if (!f || !template_uses(engine_template(g), "tools"))
        return no_format(g, e);
    t->format = f;
    return hold(t, g, q, a, e);
}

/* ---- what it says -------------------------------------------------------------------------- */

/* A stream that has pieces of calls cannot take them back where they turn out to be none. */
static bool tells_whole(const struct calling *t)
{
    return api_face(t->q->route)->has_whole_calls;
}

void calling_listen(const struct calling *t, struct choice *c)
{
    if (t->format)
        c->reads =
            tool_reader_new(t->format, t->q->tool, t->q->n_tool, t->q->stream && !tells_whole(t));
}

bool calling_called(const struct choice *c)
{
    return c->reads && tool_reader_n_whole(c->reads);
}

static void make_id(const struct tool_format *f, struct tool_call *call)
{
    if (*call->id) /* it was told */
        return;
    if (f->is_numbered) {
        snprintf(call->id, sizeof call->id, "functions.%s:%lld", call->tool->name,
                 (long long)call->number);
        return;
    }
    const char *prefix = f->id_len ? "" : "call_";
    size_t n = strlen(prefix);
    memcpy(call->id, prefix, n);
    letters_draw(call->id + n, f->id_len ? (size_t)f->id_len : 24);
}

const struct api_call *calling_whole(const struct calling *t, struct choice *c, struct arena *a,
                                     size_t *n, struct err *e)
{
    struct tool_call *call = tool_reader_calls(c->reads, n);
    struct api_call *out = arena_try(a, *n, sizeof *out, e);
    for (size_t i = 0; out && i < *n; i++) {
        make_id(t->format, &call[i]);
        out[i] = (struct api_call){.index = (int64_t)i,
                                   .id = call[i].id,
                                   .name = call[i].tool->name,
                                   .arguments = call[i].arguments.data,
                                   .n_arguments = call[i].arguments.len};
    }
    return out;
}

static void tell_name(const struct calling *t, struct tool_call *call, struct api_call *out)
{
    make_id(t->format, call);
    out->id = call->id;
    out->name = call->tool->name;
    call->is_told = true;
}

bool calling_next(const struct calling *t, struct choice *c, struct api_call *out)
{
    size_t n;
    struct tool_call *call = tool_reader_calls(c->reads, &n);
    for (size_t i = 0; i < n; i++) {
        *out = (struct api_call){.index = (int64_t)i};
        if (tells_whole(t) && !call[i].is_whole)
            return false;
        if (!call[i].is_told) {
            tell_name(t, &call[i], out);
            if (!tells_whole(t))
                return true;
        }
        if (call[i].n_told < call[i].arguments.len) {
            out->arguments = call[i].arguments.data + call[i].n_told;
            out->n_arguments = call[i].arguments.len - call[i].n_told;
            call[i].n_told = call[i].arguments.len;
            return true;
        }
    }
    return false;
}
