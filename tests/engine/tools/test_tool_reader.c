/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools in texts. Faults it can catch: a text that is read otherwise when it comes in
 * other pieces; words lost around calls; a call of a tool that nobody offered; arguments cut or
 * told with what stands around them; a half call that is told as one, or whose bytes are lost; a
 * form that is not read as its own grammar writes it.
 */
#include "tests/engine/tools/reading.h"

static const struct tool_spec tool[] = {{.name = "get_weather", .is_allowed = true},
                                        {.name = "f", .is_allowed = true},
                                        {.name = "hidden"}};
enum { N_TOOL = 3 };

static void reads(const char *format, const char *text, const char *want, bool streams)
{
    reads_with(format, tool, N_TOOL, text, want, streams);
}

static void both(const char *format, const char *text, const char *want)
{
    reads(format, text, want, false);
    reads(format, text, want, true);
}

#define F1 "{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"}\\\"\"}]}}"
#define A1 "f({\"a\": [1, {\"b\": \"}\\\"\"}]})"

static void test_hermes(void **state)
{
    (void)state;
    both("hermes", "<tool_call>\n" F1 "\n</tool_call>", "|" A1);
    both("hermes",
         "Let me see. \n<tool_call>" F1 "</tool_call>\n<tool_call>\n" F1 "\n</tool_call>\n",
         "Let me see.|" A1 "|" A1);
    both("hermes", "<tool_call>{\"arguments\":{\"x\":1},\"name\":\"f\"}</tool_call> so",
         " so|f({\"x\":1})");
    both("hermes", "<tool_call>{\"name\":\"f\"}</tool_call>", "|f({})");
    both("hermes", "<tool_call>{\"id\": 12, \"name\":\"f\", \"parameters\": {}, \"z\": [null]}",
         "|f({})");
    both("hermes", "plain text \n", "plain text \n");
    both("hermes", "a < b, <tool, <<tool_call", "a < b, <tool, <<tool_call");
    both("hermes", "</tool_call> x", "</tool_call> x");
}

static void test_no_call(void **state)
{
    (void)state;
    const char *const text[] = {"<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
                                "<tool_call>{\"name\":\"hidden\",\"arguments\":{}}</tool_call>",
                                "<tool_call>{'name':'f'}</tool_call>",
                                "<tool_call> [1]",
                                "<tool_call>{}",
                                "<tool_call>{\"name\":7}",
                                "<tool_call>{\"arguments\":{},\"arguments\":{}}",
                                "<tool_call>{\"arguments\":\"{}\",\"name\":\"f\"}",
                                "x <tool_call>\n{\"name\": \"f"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        both("hermes", text[i], text[i]);
}

/* As words where the text is told whole; what was told stays where it was told. */
static void test_half(void **state)
{
    (void)state;
    const char *half = "so <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b";
    const char *broken = "<tool_call>{\"name\": \"f\", \"arguments\": {a}}</tool_call>";
    reads("hermes", half, half, false);
    reads("hermes", half, "so|f({\"a\": 1, \"b)?", true);
    reads("hermes", broken, broken, false);
    reads("hermes", broken, "}}</tool_call>|f({a)?", true);
    both("hermes", "<tool_call>" F1 "\n</tool_", "|" A1);
    reads("mistral", "[TOOL_CALLS][" F1 ", {\"name\": \"f\", \"arguments\": {",
          ", {\"name\": \"f\", \"arguments\": {|" A1, false);
}

static void test_lists(void **state)
{
    (void)state;
    both("mistral", "[TOOL_CALLS][" F1 "]", "|" A1);
    both("mistral", "Hm [TOOL_CALLS] [ " F1 " , " F1 " ] ", "Hm|" A1 "|" A1);
    both("mistral", "[TOOL] [1, 2]", "[TOOL] [1, 2]");
    both("granite", "<|tool_call|>[" F1 "]", "|" A1);
    both("phi4_mini", "<|tool_call|>[" F1 "]<|/tool_call|>", "|" A1);
    both("apriel", "<tool_calls>[" F1 "]</tool_calls>", "|" A1);
}

static void test_llama(void **state)
{
    (void)state;
    both("llama3_json", "{\"name\": \"f\", \"parameters\": {\"x\": \"y\"}}", "|f({\"x\": \"y\"})");
    both(
        "llama3_json",
        "\n <|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}",
        "|f({})|f({})");
    both("llama3_json", "{\"name\": \"Ann\", \"age\": 3}", "{\"name\": \"Ann\", \"age\": 3}");
    both("llama3_json", "It is {\"name\": \"f\"}", "It is {\"name\": \"f\"}");
}

static void test_named(void **state)
{
    (void)state;
    both("mistral_args", "[TOOL_CALLS]f[ARGS]{\"x\": 1}[TOOL_CALLS]get_weather[ARGS]{}",
         "|f({\"x\": 1})|get_weather({})");
    both("mistral_args", "[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]g[ARGS]{}");
    both(
        "deepseek_v3",
        "Ja<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": 1}\n"
        "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n"
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Ja|f({\"x\": 1})|get_weather({})");
    both(
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>"
        "f<｜tool▁sep｜>{\"a\":{}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "|f({})|f({\"a\":{}})");
}

/* As channels.h hands them on. */
static void test_harmony(void **state)
{
    (void)state;
    both("harmony",
         "I look.\n\n<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": [1]}",
         "I look.|f({\"x\": [1]})");
    both("harmony",
         "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}\n\n"
         "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"a\": 1}",
         "|f({})|get_weather({\"a\": 1})");
    both("harmony", "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}",
         "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}");
    both("harmony", "A <|channel|> is", "A <|channel|> is");
}

/* Catches: time that grows with the square of what is held back. */
static void test_long(void **state)
{
    (void)state;
    enum { N = 2 << 20 };
    struct err e = ERR_INIT;
    struct tool_reader *r = tool_reader_new(tool_format_find("hermes"), tool, N_TOOL, true);
    char *text = malloc(N);
    memset(text, ' ', N);
    assert_good(tool_reader_push(r, text, N, &e), &e);
    for (size_t i = 0; i < N; i++)
        text[i] = "<tool_call>{\"name\""[i % 18];
    assert_good(tool_reader_push(r, text, N, &e) || tool_reader_end(r, &e), &e);
    assert_int_equal(tool_reader_words(r)->len, 2 * (size_t)N);
    assert_int_equal(tool_reader_n_whole(r), 0);
    tool_reader_free(r);
    free(text);
}

static void test_told(void **state)
{
    (void)state;
    assert_string_equal(tool_format_told("x <tool_call> y")->name, "hermes");
    assert_string_equal(tool_format_told("[TOOL_CALLS][")->name, "mistral");
    assert_string_equal(tool_format_told("[TOOL_CALLS] [ARGS]")->name, "mistral_args");
    assert_null(tool_format_told("<tool_call><function="));
    assert_string_equal(
        tool_format_told("assistant to=functions. <|channel|>commentary json")->name, "harmony");
    assert_null(tool_format_told("nothing"));
    assert_null(tool_format_find("x"));
    assert_non_null(strstr(tool_format_names(), "hermes, granite"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hermes),  cmocka_unit_test(test_no_call),
        cmocka_unit_test(test_half),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_llama),   cmocka_unit_test(test_named),
        cmocka_unit_test(test_harmony), cmocka_unit_test(test_long),
        cmocka_unit_test(test_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
