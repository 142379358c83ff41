/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations. Faults it can catch: parts joined wrongly or taken though they are no text, a
 * role that the template does not know, arguments of a tool call that stay a string, a field that
 * is lost on the way to the template, an error that names the wrong place.
 */
#include "api/request.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static struct api_request q;
static struct api_error error;
static struct api_limits limits;

static int setup(void **state)
{
    (void)state;
    arena_init(&own_arena, 8 << 20);
    limits = (struct api_limits){.n_vocab = 100};
    return 0;
}

static int parse(const char *messages)
{
    char body[2048];
    snprintf(body, sizeof body, "{\"messages\":%s}", messages);
    error = (struct api_error){.status = 0};
    return api_request_parse(API_CHAT, body, strlen(body), &limits, &own_arena, &q, &error);
}

static void good(const char *messages)
{
    if (parse(messages))
        fail_msg("%s: %s", messages, error.message);
}

static void bad(const char *messages, const char *param)
{
    if (!parse(messages) || error.status != 400 || strcmp(error.param, param) != 0)
        fail_msg("%s: status %d, param '%s': %s", messages, error.status, error.param,
                 error.message);
}

static const struct jvalue *get(const struct jvalue *v, const char *key)
{
    const struct jvalue *x = jv_dict_get(v, key);
    if (!x)
        fail_msg("no member %s", key);
    return x;
}

static void assert_text(const struct jvalue *v, const char *want)
{
    assert_int_equal(v->type, JT_STR);
    assert_int_equal(v->s->len, strlen(want));
    assert_memory_equal(v->s->p, want, strlen(want));
}

static const struct jvalue *message(size_t i)
{
    assert_true(i < q.messages.l->n);
    return &q.messages.l->at[i];
}

static void test_content(void **state)
{
    (void)state;
    good("[{\"role\":\"user\",\"content\":\"\\u00e9\"},"
         "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],"
         "\"role\":\"user\"},"
         "{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]},"
         "{\"role\":\"user\",\"content\":[]}]");
    assert_text(get(message(0), "content"), "\xc3\xa9");
    assert_int_equal(get(message(0), "content")->s->n_cp, 1);
    assert_text(get(message(1), "content"), "a\nb");
    assert_text(get(message(1), "role"), "user");
    assert_text(get(message(2), "content"), "no");
    assert_text(get(message(3), "content"), "");
}

static void test_roles(void **state)
{
    (void)state;
    good("[{\"role\":\"developer\",\"content\":\"x\"}]");
    assert_text(get(message(0), "role"), "system");
    limits.knows_developer = true;
    good("[{\"role\":\"developer\",\"content\":\"x\"}]");
    assert_text(get(message(0), "role"), "developer");
}

static void test_tool_calls(void **state)
{
    (void)state;
    good(
        "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": [1, 2.5], \\\"b\\\": {}}\"}},"
        "{\"function\":{\"name\":\"g\",\"arguments\":\"not json\"}},"
        "{\"function\":{\"name\":\"h\",\"arguments\":{\"x\":1}}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}]");
    assert_int_equal(get(message(0), "content")->type, JT_NONE);
    const struct jvalue *calls = get(message(0), "tool_calls");
    assert_int_equal(calls->l->n, 3);
    assert_text(get(&calls->l->at[0], "id"), "c1");
    const struct jvalue *fn = get(&calls->l->at[0], "function");
    assert_text(get(fn, "name"), "f");
    assert_int_equal(get(fn, "arguments")->type, JT_DICT);
    assert_int_equal(get(get(fn, "arguments"), "a")->l->n, 2);
    assert_text(get(get(&calls->l->at[1], "function"), "arguments"), "not json");
    assert_int_equal(get(get(get(&calls->l->at[2], "function"), "arguments"), "x")->i, 1);
    assert_text(get(message(1), "tool_call_id"), "c1");
    good(
        "[{\"role\":\"assistant\",\"content\":null,\"function_call\":{\"name\":\"f\",\"arguments\":"
        "\"{}\"}}]");
    assert_int_equal(get(get(message(0), "function_call"), "arguments")->type, JT_DICT);
}

/* Templates read names that this program has never heard of. */
static void test_other_fields_pass(void **state)
{
    (void)state;
    good("[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"hm\",\"name\":\"n\","
         "\"deep\":{\"a\":[true,null,1]},\"gone\":null}]");
    assert_text(get(message(0), "reasoning_content"), "hm");
    assert_int_equal(get(get(message(0), "deep"), "a")->l->n, 3);
    assert_null(jv_dict_get(message(0), "gone"));
}

static void test_errors_name_the_place(void **state)
{
    (void)state;
    bad("[]", "messages");
    bad("{}", "messages");
    bad("\"x\"", "messages");
    bad("[1]", "messages[0]");
    bad("[{\"role\":\"user\",\"content\":\"x\"},{\"content\":\"x\"}]", "messages[1].role");
    bad("[{\"role\":\"wizard\",\"content\":\"x\"}]", "messages[0].role");
    bad("[{\"role\":1,\"content\":\"x\"}]", "messages[0].role");
    bad("[{\"role\":\"user\"}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":null}]", "messages[0].content");
    bad("[{\"role\":\"assistant\",\"tool_calls\":[]}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":1}]", "messages[0].content");
    bad("[{\"role\":\"user\",\"content\":[1]}]", "messages[0].content[0]");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x/\"}}]}]",
        "messages[0].content[1]");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "messages[0].content[0]");
    bad("[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"x\"}]}]",
        "messages[0].content[0]");
    bad("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]",
        "messages[0].tool_calls[0]");
    bad("[{\"role\":\"assistant\",\"tool_calls\":[1]}]", "messages[0].tool_calls[0]");
    bad("[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":1}]", "messages[0].tool_calls");
    bad("[{\"role\":\"assistant\",\"content\":\"x\",\"audio\":{\"id\":\"x\"}}]",
        "messages[0].audio");
}

/* JSON in the arguments of many calls counts against one bound. */
static void test_arguments_are_bounded(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 64 << 20);
    buf_str(&b, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int i = 0; i < 400; i++) {
        buf_str(&b, i ? ",{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[0"
                      : "{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[0");
        for (int k = 0; k < 10000; k++)
            buf_str(&b, ",0");
        buf_str(&b, "]}\"}}");
    }
    buf_str(&b, "]}]}");
    assert_false(b.failed);
    arena_release(&own_arena);
    arena_init(&own_arena, (size_t)512 << 20);
    assert_int_equal(api_request_parse(API_CHAT, b.data, b.len, &limits, &own_arena, &q, &error),
                     0);
    const struct jvalue *calls = get(message(0), "tool_calls");
    size_t n_dict = 0;
    for (size_t i = 0; i < calls->l->n; i++)
        n_dict += get(get(&calls->l->at[i], "function"), "arguments")->type == JT_DICT;
    assert_true(n_dict > 100 && n_dict < 300);
    buf_release(&b);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, own_arena_free)
    const struct CMUnitTest tests[] = {
        T(test_content),
        T(test_roles),
        T(test_tool_calls),
        T(test_other_fields_pass),
        T(test_errors_name_the_place),
        T(test_arguments_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
