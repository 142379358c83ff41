/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts with calls of tools. Faults it can catch: a call with arguments that are not the tool's
 * schema's, words before a call that was asked for, a second call where one was allowed, words that
 * are held to a call's form; a form of tool_format.def whose grammar is not what it says.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/arena.h"
#include "engine/template/jvalue.h"
#include "engine/tools/tool_format.h"
#include "tests/engine/grammar/run.h"
#include "tests/lib/own_arena.h"

static struct jvalue schema;
static struct tool_spec tool[2] = {{.name = "f", .parameters = &schema, .is_allowed = true},
                                   {.name = "g", .is_allowed = true, .is_strict = true}};

/* {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]} */
static int setup(void **state)
{
    struct err e = ERR_INIT;
    struct jvalue type, props, x, bool_type, list, name;
    int rc = own_arena_new(state);
    struct arena *a = &own_arena;
    rc = rc || jv_dict(a, &schema, &e) || jv_dict(a, &props, &e) || jv_dict(a, &x, &e) ||
         jv_list(a, &list, &e) || jv_str(a, "object", 6, &type, &e) ||
         jv_str(a, "boolean", 7, &bool_type, &e) || jv_str(a, "x", 1, &name, &e) ||
         jv_list_add(a, &list, name, &e) || jv_dict_put(a, &x, "type", 4, bool_type, &e) ||
         jv_dict_put(a, &props, "x", 1, x, &e) || jv_dict_put(a, &schema, "type", 4, type, &e) ||
         jv_dict_put(a, &schema, "properties", 10, props, &e) ||
         jv_dict_put(a, &schema, "required", 8, list, &e);
    return rc;
}

static struct grammar *make(const char *format, struct tool_ask ask)
{
    struct err e = ERR_INIT;
    ask.tool = tool;
    ask.n_tool = 2;
    const struct grammar_calls *c =
        tool_format_grammar(tool_format_find(format), &ask, &own_arena, &e);
    assert_non_null(c);
    struct grammar *g = grammar_calls(c, NULL, &e);
    if (!g)
        fail_msg("%s: %s", format, e.msg);
    return g;
}

static void holds(const struct grammar *g, const char *text, enum verdict want)
{
    enum verdict v = verdict_of(g, text, strlen(text));
    if (v != want)
        fail_msg("%s: %d, not %d", text, v, want);
}

#define F "{\"name\": \"f\", \"arguments\": {\"x\": true}}"
#define G "{\"name\": \"g\", \"arguments\": {}}"

static void test_asked(void **state)
{
    (void)state;
    struct grammar *g =
        make("hermes", (struct tool_ask){.is_asked = true, .may_repeat = true, .keeps_all = true});
    holds(g, "<tool_call>\n" F "\n</tool_call>", MATCHES);
    holds(g, "<tool_call>\n" F "\n</tool_call>\n<tool_call>\n" G "\n</tool_call>", MATCHES);
    holds(g, "<tool_call>\n" F "\n</tool_call>\n", BEGINS);
    holds(g, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1", REFUSED);
    holds(g, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}", REFUSED);
    holds(g, "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"", REFUSED);
    holds(g, "<tool_call>\n{\"name\": \"h", REFUSED);
    holds(g, "w", REFUSED);
    grammar_unref(g);
    g = make("hermes", (struct tool_ask){.is_asked = true, .keeps_all = true});
    holds(g, "<tool_call>\n" F "\n</tool_call>", MATCHES);
    holds(g, "<tool_call>\n" F "\n</tool_call>\n", REFUSED);
    grammar_unref(g);
}

/* f is not strict: any object. */
static void test_words(void **state)
{
    (void)state;
    struct grammar *g = make("hermes", (struct tool_ask){.may_repeat = true});
    holds(g, "", MATCHES);
    holds(g, "I say <tool_cal, no.\xc3", MATCHES);
    holds(g, "So: <tool_call>\n" F "\n</tool_call>", MATCHES);
    holds(g, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"y\": [1]}}\n</tool_call>", MATCHES);
    holds(g, "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"", REFUSED);
    holds(g, "So: <tool_call>x", REFUSED);
    holds(g, "<tool_call>\n" F "\n</tool_call>x", REFUSED);
    grammar_unref(g);
    g = make("llama3_json", (struct tool_ask){.may_repeat = false});
    holds(g, "", MATCHES);
    holds(g, "Hello {", MATCHES);
    holds(g, "{\"name\": \"g\", \"parameters\": {}}", MATCHES);
    holds(g, "{\"a", REFUSED);
    holds(g, " {", REFUSED);
    grammar_unref(g);
}

static void test_form(void **state)
{
    (void)state;
    struct grammar *g = make("mistral", (struct tool_ask){.has_form = true, .form = &schema});
    holds(g, "{\"x\": false}", MATCHES);
    holds(g, "[TOOL_CALLS][" F "]", MATCHES);
    holds(g, "[TOOL_CALLS][" F ",", REFUSED);
    holds(g, "so", REFUSED);
    grammar_unref(g);
}

/* Every form, with two calls where it has them. */
static void test_forms(void **state)
{
    static const struct {
        const char *name, *text;
    } form[] = {
        {"mistral_args", "[TOOL_CALLS]f[ARGS]{\"x\": true}[TOOL_CALLS]g[ARGS]{}"},
        {"mistral", "[TOOL_CALLS][" F ", " G "]"},
        {"granite", "<|tool_call|>[" F ", " G "]"},
        {"phi4_mini", "<|tool_call|>[" F ", " G "]<|/tool_call|>"},
        {"apriel", "<tool_calls>[" F ", " G "]</tool_calls>"},
        {"deepseek_v3",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": true}\n"
         "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n"
         "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
        {"deepseek_v31",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": true}<｜tool▁call▁end｜>"
         "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": {\"x\": true}}; {\"name\": \"g\", "
                        "\"parameters\": {}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        struct grammar *g =
            make(form[i].name,
                 (struct tool_ask){.is_asked = true, .may_repeat = true, .keeps_all = true});
        holds(g, form[i].text, MATCHES);
        grammar_unref(g);
    }
}

/* Thoughts before a constraint: those that have begun must end, others may stand there. */
static void test_behind(void **state)
{
    const struct grammar_text open = {"<t>", 3}, close = {"</t>", 4};
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct grammar *g = i == 0   ? grammar_schema(&schema, false, NULL, &e)
                            : i == 1 ? grammar_regex("\\{(a|b){40,90}x?\\}", 18, NULL, &e)
                                     : grammar_gbnf("root ::= \"{\" root? \"}\"", 22, NULL, &e);
        struct grammar *inside = g ? grammar_behind(g, open, close, true, NULL, &e) : NULL;
        struct grammar *may = g ? grammar_behind(g, open, close, false, NULL, &e) : NULL;
        if (!inside || !may)
            fail_msg("%d: %s", i, e.msg);
        const char *const good[] = {"{\"x\": true}",
                                    "{abababababababababababababababababababababab}", "{{{}}}"};
        char text[100];
        holds(may, good[i], MATCHES);
        holds(inside, good[i], BEGINS);
        snprintf(text, sizeof text, "<t>{hm <t> </t>\n\n%s", good[i]);
        holds(may, text, MATCHES);
        holds(inside, text, MATCHES);
        snprintf(text, sizeof text, "hm {</t>%s", good[i]);
        holds(may, text, REFUSED);
        holds(inside, text, MATCHES);
        holds(inside, "</t>\n\n\n", REFUSED);
        holds(inside, "</t>x", REFUSED);
        grammar_unref(g);
        grammar_unref(inside);
        grammar_unref(may);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_asked), T(test_words), T(test_form), T(test_forms),
                                       T(test_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
