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
#include "tests/lib/jvalue_json.h"
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
        {"qwen3_coder",
         "<tool_call>\n<function=f>\n<parameter=x>\ntrue\n</parameter>\n</function>\n</tool_call>\n"
         "<tool_call>\n<function=g>\n</function>\n</tool_call>"},
        {"glm47", "<tool_call>f<arg_key>x</arg_key><arg_value>true</arg_value></tool_call>"
                  "<tool_call>g</tool_call>"},
        {"glm45", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>true</arg_value>\n</tool_call>\n"
                  "<tool_call>g\n</tool_call>"},
        {"minimax_m2", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"x\">true"
                       "</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
                       "</minimax:tool_call>"},
        {"deepseek_v32",
         "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" "
         "string=\"false\">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n"
         "</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
        {"deepseek_v4",
         "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
        {"kimi_k2",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
         "{\"x\": true}<|tool_call_end|><|tool_call_begin|>functions.g:12"
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"},
        {"pythonic", "[f(x=True), g()]"},
        {"gemma4", "<|tool_call>call:f{x:true}<tool_call|><|tool_call>call:g{}<tool_call|>"},
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

/* Of calls of one tool with this schema; NULL with an error. */
static struct grammar *of_schema(const char *format, const char *text, bool is_held, struct err *e)
{
    struct jvalue s;
    assert_good(test_jvalue_parse(&own_arena, text, strlen(text), &s, e), e);
    struct tool_spec one = {.name = "t", .parameters = &s, .is_allowed = true};
    struct tool_ask ask = {.tool = &one, .n_tool = 1, .is_asked = true, .keeps_all = is_held};
    const struct grammar_calls *c =
        tool_format_grammar(tool_format_find(format), &ask, &own_arena, e);
    return c ? grammar_calls(c, NULL, e) : NULL;
}

/* Texts of one call of a tool with this schema, each behind + or -, as the reader takes them. */
static void params(const char *format, const char *text, bool is_held, const char *texts)
{
    struct err e = ERR_INIT;
    char whole[600];
    struct grammar *g = of_schema(format, text, is_held, &e);
    if (!g)
        fail_msg("%s: %s", text, e.msg);
    for (const char *p = texts; *p;) {
        size_t n = strcspn(p + 1, "~");
        snprintf(whole, sizeof whole,
                 strcmp(format, "pythonic") == 0 ? "[t(%.*s)]"
                 : strcmp(format, "gemma4") == 0 ? "<|tool_call>call:t{%.*s}<tool_call|>"
                                                 : "<tool_call>t%.*s</tool_call>",
                 (int)n, p + 1);
        holds(g, whole, *p == '+' ? MATCHES : REFUSED);
        p += n + 1 + (p[n + 1] == '~');
    }
    grammar_unref(g);
}

#define V(name, value) "<arg_key>" name "</arg_key><arg_value>" value "</arg_value>"

static void test_marked(void **state)
{
    (void)state;
    params("glm47", "{\"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 3}}}", true,
           "+~+" V("a", "") "~+" V("a", "5") "~+" V("a", "\xc3\xa9\n\"") "~+" V("a", "</a") "~-" V(
               "a", "abcd") "~-" V("b", "1") "~-" V("a", "1") V("a", "2"));
    params("glm47",
           "{\"properties\": {\"a\": {\"enum\": [\"x\", \"5\", 5, null]}, \"b\": {}},"
           " \"required\": [\"a\"]}",
           true,
           "+" V("a", "x") "~+" V("a", "5") "~+" V("a", "null")
               V("b", "{\"q\": [\"</arg_value>\"]}") "~-~-" V("a", "\"x\"") "~-" V("b", "1") "~+" V(
                   "a", "x") V("b", "tell [it]") "~-" V("a", "x") V("b", "[it]"));
    params("glm47",
           "{\"properties\": {\"a\": {\"type\": [\"string\", \"null\"], \"minLength\": 1},"
           " \"n\": {\"type\": \"integer\", \"maximum\": 9}}}",
           true,
           "+" V("a", "nul") V("n", "9") "~+" V("a", "null") "~-" V("a", "") "~-" V("a", " True")
               V("n", "10") "~-" V("n", "x"));
    params("glm47", "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"number\"}}",
           true,
           "+" V("any name", "1.5") V("b", "2") "~-" V("a", "x") "~-" V("", "1") "~-" V("a>", "1"));
    params("glm47",
           "{\"properties\": {\"a\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}},"
           " \"required\": [\"a\"]}",
           false, "+~+" V("a", "[x") V("n", "y") V("z", "1") "~-" V("z", "[x"));
    params("pythonic",
           "{\"properties\": {\"a\": {\"type\": \"string\"}, \"l\": {\"items\": {\"enum\":"
           " [true, null, \"x\"]}}}, \"required\": [\"a\"]}",
           true,
           "+a=\"b\\n\"~+a=\"\", l=[True, None, \"x\"]~-a='b'~-l=[]~-a=\"\", l=[true]~-a=\"\",");
}

#define Q "<|\"|>"

/* Faults: a text with the form's quote in it, or in JSON's; quoted names, or white space, within.
 */
static void test_bare(void **state)
{
    (void)state;
    params("gemma4",
           "{\"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 5}, \"l\": {\"items\":"
           " {\"enum\": [true, null, \"x\", {\"k\": [1, \"y\"]}]}}}, \"required\": [\"a\"]}",
           true,
           "+a:" Q Q "~+a:" Q "{\"\n" Q ",l:[true,null," Q "x" Q ",{k:[1," Q "y" Q "]}]~-a:" Q
           "abcdef" Q "~-a:\"b\"~-~-a:" Q Q ", l:[]~-a:" Q Q ",l:[" Q "y" Q "]~-a:" Q "x" Q "y" Q);
    params("gemma4",
           "{\"properties\": {\"o\": {\"properties\": {\"n\": {\"type\": \"integer\"}},"
           " \"additionalProperties\": {\"pattern\": \"^a+$\"}}}}",
           true,
           "+~+o:{}~+o:{n:3}~+o:{n:3,b c:" Q "aa" Q "}~-o:{\"n\":3}~-o:{n:" Q Q "}~-o:{b:" Q "b" Q
           "}");
    params("gemma4", "{\"properties\": {\"o\": {}}}", false,
           "+o:{a:[1,{b:" Q "<|" Q "}],c:null}~+z:1.5~-o:{a :1}~-o:'x'~-o:{" Q "a" Q ":1}");
}

/* What the form cannot write is an error with its name. */
static void test_names(void **state)
{
    static const char *const row[][3] = {
        {"qwen3_coder", "{\"properties\": {\"a<b\": {}}}", "#/properties/a<b"},
        {"gemma4", "{\"properties\": {\"a\": {\"properties\": {\"b:c\": {}}}}}",
         "#/properties/a/properties/b:c"},
        {"gemma4", "{\"properties\": {\"a\": {\"enum\": [\"x<|\\\"|>\"]}}}", "holds <|\"|>"}};
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_null(of_schema(row[i][0], row[i][1], true, &e));
        assert_non_null(strstr(e.msg, row[i][2]));
    }
    struct grammar *g = of_schema("qwen3_coder", row[0][1], false, &e);
    assert_non_null(g);
    grammar_unref(g);
}

/* Thoughts before a constraint: those that have begun must end, others may stand there. */
static void test_behind(void **state)
{
    struct grammar_part part = {.open = {"<t>", 3}, .close = {"</t>", 4}};
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i < 3; i++) {
        part.is_open = true;
        struct grammar *g = i == 0   ? grammar_schema(&schema, false, NULL, &e)
                            : i == 1 ? grammar_regex("\\{(a|b){40,90}x?\\}", 18, NULL, &e)
                                     : grammar_gbnf("root ::= \"{\" root? \"}\"", 22, NULL, &e);
        struct grammar *inside = g ? grammar_behind(g, &part, NULL, &e) : NULL;
        part.is_open = false;
        struct grammar *may = g ? grammar_behind(g, &part, NULL, &e) : NULL;
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

/* Harmony: the answer has a header of its own, behind thoughts and without them; calls have
 * another. */
static void test_channels(void **state)
{
    const struct think_marks *m = think_marks_told(
        "<|start|>assistant<|channel|>analysis<|message|><|channel|>final<|message|>");
    struct err e = ERR_INIT;
    (void)state;
    assert_non_null(m);
    assert_non_null(m->say);
    const struct grammar_part part = {.open = {m->open, strlen(m->open)},
                                      .close = {m->close, strlen(m->close)},
                                      .say = {m->say, strlen(m->say)}};
    struct grammar *g = grammar_schema(&schema, false, NULL, &e);
    struct grammar *whole = grammar_behind(g, &part, NULL, &e);
    assert_non_null(whole);
    holds(whole, "<|channel|>final<|message|>{\"x\": true}", MATCHES);
    holds(whole,
          "<|channel|>analysis<|message|>Hm <|end|><|start|>assistant<|channel|>final<|message|>"
          "{\"x\": true}",
          MATCHES);
    holds(whole, "{", REFUSED);
    holds(whole, "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant{", REFUSED);
    grammar_unref(g);
    grammar_unref(whole);
    g = make("harmony", (struct tool_ask){.is_asked = true, .keeps_all = true});
    holds(g, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": true}",
          MATCHES);
    holds(g, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": 1", REFUSED);
    holds(g, "<|channel|>final", REFUSED);
    grammar_unref(g);
    g = make("harmony", (struct tool_ask){
                            .keeps_all = true, .has_form = true, .form = &schema, .say = m->say});
    holds(g, "<|channel|>final<|message|>{\"x\": true}", MATCHES);
    holds(g, "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}", MATCHES);
    holds(g, "{\"x\": true}", REFUSED);
    grammar_unref(g);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_asked), T(test_words),  T(test_form),
                                       T(test_forms), T(test_marked), T(test_bare),
                                       T(test_names), T(test_behind), T(test_channels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
