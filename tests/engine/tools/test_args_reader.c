/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments that are no JSON. Faults it can catch: a value told as another type than its tool's
 * schema lets it be, or with bytes lost, added or not escaped; a mark within a JSON text that ends
 * it; a literal of Python's that JSON does not know; a call that reads otherwise when it is cut
 * otherwise; a half call that is told as one; a form that its maker's template does not tell.
 */
#include "engine/tools/args_reader.h"
#include "tests/engine/tools/reading.h"
#include "tests/lib/jvalue_json.h"
#include "tests/lib/own_arena.h"

static const char schema_text[] =
    "{\"properties\": {\"city\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"},"
    " \"on\": {\"type\": \"boolean\"}, \"at\": {\"type\": \"array\"}, \"o\": {\"type\": \"object\"},"
    " \"maybe\": {\"anyOf\": [{\"$ref\": \"#/$defs/s\"}, {\"type\": \"null\"}]},"
    " \"ref\": {\"$ref\": \"#/$defs/s\"}, \"any\": {}},"
    " \"$defs\": {\"s\": {\"enum\": [\"a\", \"5\"]}}}";

static struct jvalue schema;
static struct tool_spec tool[] = {{.name = "f", .parameters = &schema, .is_allowed = true},
                                  {.name = "now", .is_allowed = true}};

static int setup(void **state)
{
    struct err e = ERR_INIT;
    return own_arena_new(state) ||
           test_jvalue_parse(&own_arena, schema_text, strlen(schema_text), &schema, &e);
}

static void both(const char *format, const char *text, const char *want)
{
    reads_with(format, tool, 2, text, want, false);
    reads_with(format, tool, 2, text, want, true);
}

#define CALL(args)     "<tool_call>\n<function=f>\n" args "</function>\n</tool_call>"
#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

static void test_types(void **state)
{
    (void)state;
    both("qwen3_coder", CALL(P("city", "5")), "|f({\"city\": \"5\"})");
    both("qwen3_coder", CALL(P("n", " 5 ")), "|f({\"n\": 5})");
    both("qwen3_coder", CALL(P("n", "five")), "|f({\"n\": \"five\"})");
    both("qwen3_coder", CALL(P("n", "01")), "|f({\"n\": \"01\"})");
    both("qwen3_coder", CALL(P("on", "True") P("n", "-1.5e3")),
         "|f({\"on\": true, \"n\": -1.5e3})");
    both("qwen3_coder", CALL(P("maybe", "None") P("ref", "5")),
         "|f({\"maybe\": null, \"ref\": \"5\"})");
    both("qwen3_coder", CALL(P("maybe", "5") P("on", "null")),
         "|f({\"maybe\": \"5\", \"on\": \"null\"})");
    both("qwen3_coder", CALL(P("any", "5") P("other", "[1, {}]") P("any", "x")),
         "|f({\"any\": 5, \"other\": [1, {}], \"any\": \"x\"})");
    both("qwen3_coder", CALL(P("city", "[1]") P("n", "[1]")),
         "|f({\"city\": \"[1]\", \"n\": \"[1]\"})");
}

static void test_texts(void **state)
{
    (void)state;
    both("qwen3_coder", CALL(P("city", "a\n\tb \"c\" \\ \x01 \xc3\xa9\n")),
         "|f({\"city\": \"a\\n\\tb \\\"c\\\" \\\\ \\u0001 \xc3\xa9\\n\"})");
    both("qwen3_coder", CALL(P("city", "") P("n", "")), "|f({\"city\": \"\", \"n\": \"\"})");
    both("qwen3_coder", CALL(P("city", "\n\n")), "|f({\"city\": \"\\n\\n\"})");
    both("qwen3_coder", CALL(P("city", "</param\n</parameter\n</</")),
         "|f({\"city\": \"</param\\n</parameter\\n</</\"})");
    both("qwen3_coder",
         CALL(P("o", "{\"a\": \"</parameter>\"}") P("at", "[\"</parameter>\", \"\\\"\"]")),
         "|f({\"o\": {\"a\": \"</parameter>\"}, \"at\": [\"</parameter>\", \"\\\"\"]})");
    both("qwen3_coder", CALL(P("o", "{broken") P("n", "1")), "|f({\"o\": \"{broken\", \"n\": 1})");
}

static void test_around(void **state)
{
    (void)state;
    both("qwen3_coder", "Hm.\n" CALL(P("n", "1")) "\n" CALL("") "\n", "Hm.|f({\"n\": 1})|f({})");
    both("qwen3_coder", "<tool_call><function=f><parameter=n>1</parameter></function></tool_call>",
         "|f({\"n\": 1})");
    both("qwen3_coder", "<tool_call>\n<function=g>\n</function>\n</tool_call>",
         "<tool_call>\n<function=g>\n</function>\n</tool_call>");
    both("qwen3_coder", "a <tool_call> b", "a <tool_call> b");
    reads_with("qwen3_coder", tool, 2, "<tool_call>\n<function=f>\n" P("n", "1") "junk", /* half */
               "<tool_call>\n<function=f>\n" P("n", "1") "junk", false);
    reads_with("qwen3_coder", tool, 2, "so <tool_call>\n<function=f>\n<parameter=city>\nBer",
               "so <tool_call>\n<function=f>\n<parameter=city>\nBer", false);
    reads_with("qwen3_coder", tool, 2, "so <tool_call>\n<function=f>\n<parameter=city>\nBer",
               "so|f({\"city\": \"Ber)?", true);
}

static void test_forms(void **state)
{
    (void)state;
    const char *want = "|f({\"city\": \"Ulm\", \"n\": 2})|now({})";
    both("glm47",
         "<tool_call>f<arg_key>city</arg_key><arg_value>Ulm</arg_value><arg_key>n</arg_key>"
         "<arg_value>2</arg_value></tool_call><tool_call>now</tool_call>",
         want);
    both(
        "glm45",
        "\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n<arg_key>n</arg_key>\n"
        "<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
        want);
    both("minimax_m2",
         "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"city\">Ulm</parameter>\n"
         "<parameter name=\"n\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n"
         "</minimax:tool_call>",
         want);
    both(
        "deepseek_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"city\" "
        "string=\"true\">Ulm</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">2"
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n"
        "</｜DSML｜function_calls>",
        want);
    both("kimi_k2",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
         "{\"city\": \"Ulm\", \"n\": 2}<|tool_call_end|><|tool_call_begin|>functions.now:1"
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
         want);
    both("kimi_k2",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f<|tool_call_argument",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f<|tool_call_argument");
    both("pythonic", "[f(city='Ulm', n=2), now()]", want);
    both(
        "gemma4",
        "<|tool_call>call:f{city:<|\"|>Ulm<|\"|>,n:2}<tool_call|><|tool_call>call:now{}<tool_call|>",
        want);
}

#define Q "<|\"|>"

static void test_bare(void **state)
{
    (void)state;
    both("gemma4",
         "So: <|tool_call>call:f{ city:" Q "a<|\"b{\"\\\n<<|" Q ", n: -2.5,on:true}<tool_call|>",
         "So:|f({\"city\": \"a<|\\\"b{\\\"\\\\\\n<<|\", \"n\": -2.5, \"on\": true})");
    both("gemma4",
         "<|tool_call>call:f{at:[1,[true,None],[],{a:false,b c:{}}],o:{k:" Q Q ",l:[" Q "x" Q
         "]}}<tool_call|>",
         "|f({\"at\": [1, [true, null], [], {\"a\": false, \"b c\": {}}], \"o\": {\"k\": \"\", "
         "\"l\": [\"x\"]}})");
    const char *const words[] = {"<|tool_call>call:f{n:x}<tool_call|>",
                                 "<|tool_call>call:f{{\"n\": 1}}<tool_call|>",
                                 "<|tool_call>call:g{n:1}<tool_call|>",
                                 "<|tool_call>call:f{at:[1}<tool_call|>",
                                 "<|tool_call>call:f{n:1",
                                 "<|tool_call>call:f{city:<|\"x" Q "}<tool_call|>",
                                 "<|tool_call>call:f{:1}<tool_call|>",
                                 "call:f{n:1}",
                                 "<|tool_call>call:f{n:1 o:2}<tool_call|>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        reads_with("gemma4", tool, 2, words[i], words[i], false);
    reads_with("gemma4", tool, 2, "<|tool_call>call:f{city:" Q "Ul<|", "|f({\"city\": \"Ul)?",
               true);
}

static void test_python(void **state)
{
    (void)state;
    both("pythonic", " [f( city = \"a'\\\"\\n\\x41\\u00e9\\U0001f600\\q\", n=-2.5, )]",
         "|f({\"city\": \"a'\\\"\\n\\u0041\\u00e9\\ud83d\\ude00\\\\q\", \"n\": -2.5})");
    both("pythonic", "[f(at=[1, [True, None], (), (2,), {'a': False, \"b\": {}}], o={})]",
         "|f({\"at\": [1, [true, null], [], [2], {\"a\": false, \"b\": {}}], \"o\": {}})");
    const char *const words[] = {"[1, 2]",       "[]",        "[f(1)]",        "[f(a=b)]",
                                 "[f(a=1 b=2)]", "[f(a=[1)]", "[f(a={1: 2})]", "see [now()]",
                                 "[g()]",        "[f(a=1",    "[f(n=0x10)]",   "[f(o={'a': })]"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        reads_with("pythonic", tool, 2, words[i], words[i], false);
    reads_with("pythonic", tool, 2, "[f(city='Ul", "|f({\"city\": \"Ul)?", true);
}

/* Each call's number is its own, though the model wrote one twice. */
static void test_numbers(void **state)
{
    struct err e = ERR_INIT;
    size_t n;
    static const char text[] =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>";
    (void)state;
    struct tool_reader *r = tool_reader_new(tool_format_find("kimi_k2"), tool, 2, false);
    assert_good(tool_reader_push(r, text, strlen(text), &e), &e);
    const struct tool_call *c = tool_reader_calls(r, &n);
    assert_int_equal(n, 2);
    assert_int_equal(c[0].number, 7);
    assert_int_equal(c[1].number, 8);
    tool_reader_free(r);
}

static void test_told(void **state)
{
    static const struct {
        const char *name, *format;
    } row[] = {{"Qwen3-Coder.jinja", "qwen3_coder"},
               {"Qwen3.5-4B.jinja", "qwen3_coder"},
               {"nemotron35_chat_template.jinja2", "qwen3_coder"},
               {"GLM-4.7-Flash.jinja", "glm47"},
               {"laguna_v2_chat_template.jinja2", "glm45"},
               {"deepseek-ai-DeepSeek-V3.2.jinja", "deepseek_v32"},
               {"deepseek-ai-DeepSeek-V4.jinja", "deepseek_v4"},
               {"tool_chat_template_llama3.2_pythonic.jinja", "pythonic"},
               {"tool_chat_template_llama3.1_json.jinja", "llama3_json"},
               {"Qwen-QwQ-32B.jinja", "hermes"},
               {"ibm-granite-granite-3.3-2B-Instruct.jinja", "granite"},
               {"tool_chat_template_deepseekr1.jinja", "deepseek_v3"}};
    struct jvalue all;
    struct arena a;
    struct err e = ERR_INIT;
    char path[4096];
    size_t n_found = 0;
    (void)state;
    const char *dir = getenv("TANDEM_TEST_DATA");
    snprintf(path, sizeof path, "%s/templates/real_templates.json", dir ? dir : "../shared/data");
    arena_init(&a, 64 << 20);
    int rc = test_jvalue_read(&a, path, &all, &e);
    if (rc == 1) {
        arena_release(&a);
        print_message("no real templates here: %s\n", path);
        skip();
    }
    assert_good(rc, &e);
    const struct jvalue *list = jv_dict_get(&all, "templates");
    for (size_t i = 0; i < list->l->n; i++) {
        const char *name = test_jvalue_text(&a, &list->l->at[i], "name");
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            if (strcmp(name, row[k].name) != 0)
                continue;
            const struct tool_format *f =
                tool_format_told(test_jvalue_text(&a, &list->l->at[i], "template"));
            if (!f || strcmp(f->name, row[k].format) != 0)
                fail_msg("%s: %s, not %s", name, f ? f->name : "none", row[k].format);
            n_found++;
        }
    }
    assert_int_equal(n_found, sizeof row / sizeof *row);
    arena_release(&a);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_types),   T(test_texts),  T(test_around),
                                       T(test_forms),   T(test_python), T(test_bare),
                                       T(test_numbers), T(test_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
