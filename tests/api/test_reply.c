/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers as bytes. Faults it can catch: a member that clients rely on is missing, null where it
 * must not be, or not JSON at all; a text or a token that breaks its string; log-probabilities that
 * do not read back; a dict with a key twice; floats in the wrong byte order.
 */
#include "api/reply.h"

#include <math.h>
#include <string.h>

#include "api/face.h"
#include "tests/lib/json_at.h"
#include "tests/lib/test.h"

/* Token n is the letter 'a' + n; 5 is half a character, 6 spells as 0 does. */
static void bytes(void *ctx, int32_t id, struct buf *out)
{
    (void)ctx;
    if (id == 5)
        buf_add(out, "\xf0\x9f", 2);
    else
        buf_char(out, (char)('a' + id % 6));
}

static const struct answer_top top[] = {{.id = 1, .logprob = -0.25f}, {.id = 2, .logprob = -2}};
static const struct api_logprob logprobs[] = {
    {.id = 0, .is_unknown = true},
    {.id = 1, .logprob = -0.1f, .top = top, .n_top = 2, .rank = 1},
    {.id = 5, .logprob = -INFINITY, .top = top, .n_top = 2, .rank = 7},
};

struct fixture {
    struct api_reply r;
    struct buf out;
    json_t *root;
};

static void begin(struct fixture *f, enum api_route route)
{
    *f = (struct fixture){.root = NULL};
    api_reply_init(&f->r, route, "x-1", "model \"q\"", 1700000000,
                   (struct api_vocab){.bytes = bytes});
    buf_init(&f->out, 1 << 20);
}

static const json_t *parsed(struct fixture *f, size_t skip)
{
    json_decref(f->root);
    f->root = json_of(f->out.data + skip, f->out.len - skip);
    return f->root;
}

/* The only event in the buffer. */
static const json_t *event(struct fixture *f)
{
    assert_memory_equal(f->out.data, "data: {", 7);
    assert_string_equal(f->out.data + f->out.len - 3, "}\n\n");
    assert_ptr_equal(strchr(f->out.data, '\n'), f->out.data + f->out.len - 2);
    return parsed(f, 6);
}

static void end(struct fixture *f)
{
    json_decref(f->root);
    api_reply_release(&f->r);
    buf_release(&f->out);
}

static const struct api_usage usage = {
    .prompt = 7, .completion = 3, .cached = 4, .accepted = 2, .rejected = 5};

static void test_chat(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, API_CHAT);
    const char said[] = "a \"b\"\n\x01\\ \xc3\xa9";
    const struct api_choice c[] = {
        {.text = said, .n_text = strlen(said), .finish = "stop", .stop_id = -1},
        {.index = 1, .finish = "length", .stop_id = 9}};
    api_reply_write(&f.r, c, 2, &usage, &f.out);
    const json_t *v = parsed(&f, 0);
    assert_string_equal(json_text_at(v, "id"), "x-1");
    assert_string_equal(json_text_at(v, "object"), "chat.completion");
    assert_string_equal(json_text_at(v, "model"), "model \"q\"");
    assert_int_equal(json_integer_value(json_at(v, "created")), 1700000000);
    assert_string_equal(json_text_at(v, "choices.0.message.role"), "assistant");
    assert_string_equal(json_text_at(v, "choices.0.message.content"), said);
    assert_true(json_is_null(json_at(v, "choices.0.message.refusal")));
    assert_true(json_is_null(json_at(v, "choices.0.logprobs")));
    assert_string_equal(json_text_at(v, "choices.0.finish_reason"), "stop");
    assert_string_equal(json_text_at(v, "choices.1.message.content"), "");
    assert_int_equal(json_integer_value(json_at(v, "choices.1.index")), 1);
    assert_int_equal(json_integer_value(json_at(v, "choices.1.stop_reason")), 9);
    assert_int_equal(json_integer_value(json_at(v, "usage.prompt_tokens")), 7);
    assert_int_equal(json_integer_value(json_at(v, "usage.completion_tokens")), 3);
    assert_int_equal(json_integer_value(json_at(v, "usage.total_tokens")), 10);
    assert_int_equal(json_integer_value(json_at(v, "usage.prompt_tokens_details.cached_tokens")),
                     4);
    v = json_at(v, "usage.completion_tokens_details");
    assert_int_equal(json_integer_value(json_at(v, "accepted_prediction_tokens")), 2);
    assert_int_equal(json_integer_value(json_at(v, "rejected_prediction_tokens")), 5);
    end(&f);
}

static void test_tool_calls(void **state)
{
    const struct api_call call[] = {
        {.id = "c1", .name = "f", .arguments = "{\"a\": 1}", .n_arguments = 8},
        {.index = 1, .arguments = "x\"y", .n_arguments = 3}};
    struct fixture f;
    (void)state;
    begin(&f, API_CHAT);
    struct api_choice c = {.call = call, .n_call = 1, .finish = "tool_calls", .stop_id = -1};
    api_reply_write(&f.r, &c, 1, &usage, &f.out);
    const json_t *v = json_at(parsed(&f, 0), "choices.0.message");
    assert_true(json_is_null(json_at(v, "content")));
    assert_string_equal(json_text_at(v, "tool_calls.0.id"), "c1");
    assert_string_equal(json_text_at(v, "tool_calls.0.type"), "function");
    assert_string_equal(json_text_at(v, "tool_calls.0.function.arguments"), "{\"a\": 1}");
    assert_null(json_at(v, "tool_calls.0.index"));

    buf_clear(&f.out);
    c = (struct api_choice){.call = &call[1], .n_call = 1, .stop_id = -1};
    api_event_choice(&f.r, &c, API_USAGE_ABSENT, NULL, &f.out);
    v = json_at(event(&f), "choices.0.delta");
    assert_int_equal(json_object_size(v), 1);
    assert_int_equal(json_object_size(json_at(v, "tool_calls.0")), 2);
    assert_int_equal(json_integer_value(json_at(v, "tool_calls.0.index")), 1);
    assert_string_equal(json_text_at(v, "tool_calls.0.function.arguments"), "x\"y");
    assert_null(json_at(v, "tool_calls.0.function.name"));
    end(&f);
}

static void test_chat_events(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, API_CHAT);
    struct api_choice c = {.text = "hi", .n_text = 2, .is_first = true, .stop_id = -1};
    api_event_choice(&f.r, &c, API_USAGE_NULL, NULL, &f.out);
    const json_t *v = event(&f);
    assert_string_equal(json_text_at(v, "object"), "chat.completion.chunk");
    assert_string_equal(json_text_at(v, "choices.0.delta.role"), "assistant");
    assert_string_equal(json_text_at(v, "choices.0.delta.content"), "hi");
    assert_true(json_is_null(json_at(v, "choices.0.finish_reason")));
    assert_true(json_is_null(json_at(v, "usage")));

    buf_clear(&f.out);
    c = (struct api_choice){.finish = "stop", .stop_id = -1};
    api_event_choice(&f.r, &c, API_USAGE_ABSENT, NULL, &f.out);
    v = event(&f);
    assert_int_equal(json_object_size(json_at(v, "choices.0.delta")), 0);
    assert_string_equal(json_text_at(v, "choices.0.finish_reason"), "stop");
    assert_null(json_at(v, "usage"));

    buf_clear(&f.out);
    api_event_usage(&f.r, &usage, &(struct api_times){1500, 2000, 30000}, &f.out);
    v = event(&f);
    assert_int_equal(json_array_size(json_at(v, "choices")), 0);
    assert_int_equal(json_integer_value(json_at(v, "usage.total_tokens")), 10);
    assert_true(json_number_value(json_at(v, "timings.queue_ms")) == 1.5);
    assert_true(json_number_value(json_at(v, "timings.prompt_ms")) == 2);
    assert_true(json_number_value(json_at(v, "timings.decode_ms")) == 30);
    buf_clear(&f.out);
    api_event_done(&f.out);
    assert_string_equal(f.out.data, "data: [DONE]\n\n");
    end(&f);
}

static void test_chat_logprobs(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, API_CHAT);
    const struct api_choice c = {.stop_id = -1, .logprob = logprobs + 1, .n_logprob = 2};
    api_reply_write(&f.r, &c, 1, &usage, &f.out);
    const json_t *v = json_at(parsed(&f, 0), "choices.0.logprobs");
    assert_string_equal(json_text_at(v, "content.0.token"), "b");
    assert_true((float)json_real_value(json_at(v, "content.0.logprob")) == -0.1f);
    assert_int_equal(json_integer_value(json_at(v, "content.0.bytes.0")), 'b');
    assert_int_equal(json_array_size(json_at(v, "content.0.top_logprobs")), 2);
    assert_string_equal(json_text_at(v, "content.0.top_logprobs.1.token"), "c");
    assert_string_equal(json_text_at(v, "content.1.token"), "\\xf0\\x9f");
    assert_int_equal(json_integer_value(json_at(v, "content.1.bytes.1")), 0x9f);
    assert_int_equal(json_integer_value(json_at(v, "content.1.logprob")), -9999);
    assert_true(json_is_null(json_at(v, "refusal")));
    end(&f);
}

static void test_completion_logprobs(void **state)
{
    struct fixture f;
    struct api_logprob placed[3];
    (void)state;
    begin(&f, API_COMPLETIONS);
    memcpy(placed, logprobs, sizeof placed);
    placed[1].offset = 11;
    const struct api_choice c = {
        .text = "abc", .n_text = 3, .stop_id = -1, .logprob = placed, .n_logprob = 3};
    api_reply_write(&f.r, &c, 1, &usage, &f.out);
    const json_t *v = parsed(&f, 0);
    assert_string_equal(json_text_at(v, "object"), "text_completion");
    assert_string_equal(json_text_at(v, "choices.0.text"), "abc");
    v = json_at(v, "choices.0.logprobs");
    assert_true(json_is_null(json_at(v, "token_logprobs.0")) &&
                json_is_null(json_at(v, "top_logprobs.0")));
    assert_string_equal(json_text_at(v, "tokens.1"), "b");
    assert_int_equal(json_integer_value(json_at(v, "text_offset.1")), 11);
    /* the token that was taken is there once, though it is among the likeliest too */
    assert_int_equal(json_object_size(json_at(v, "top_logprobs.1")), 2);
    assert_int_equal(json_object_size(json_at(v, "top_logprobs.2")), 3);
    assert_non_null(json_object_get(json_at(v, "top_logprobs.2"), "bytes:\\xf0\\x9f"));
    end(&f);
}

/* 0 and 6 are both "a". */
static void test_one_spelling_is_one_key(void **state)
{
    static const struct answer_top twins[] = {{.id = 6, .logprob = -1}, {.id = 0, .logprob = -3}};
    const struct api_logprob p = {.id = 0, .logprob = -3, .top = twins, .n_top = 2};
    struct fixture f;
    (void)state;
    begin(&f, API_COMPLETIONS);
    const struct api_choice c = {.stop_id = -1, .logprob = &p, .n_logprob = 1};
    api_event_choice(&f.r, &c, API_USAGE_ABSENT, NULL, &f.out);
    const json_t *dict = json_at(event(&f), "choices.0.logprobs.top_logprobs.0");
    assert_int_equal(json_object_size(dict), 1);
    assert_true(json_number_value(json_object_get(dict, "a")) == -1);
    end(&f);
}

static void test_vllm_members(void **state)
{
    static const int32_t id[] = {3, 4};
    static const struct gen_text stop = {.p = "END", .n = 3};
    struct fixture f;
    (void)state;
    begin(&f, API_COMPLETIONS);
    f.r.vocab.names_ids = true;
    const struct api_choice c = {.stop_id = -1,
                                 .stop = &stop,
                                 .finish = "stop",
                                 .id = id,
                                 .n_id = 2,
                                 .prompt_id = id,
                                 .n_prompt_id = 1,
                                 .prompt = logprobs,
                                 .n_prompt = 3};
    api_reply_write(&f.r, &c, 1, &usage, &f.out);
    const json_t *v = json_at(parsed(&f, 0), "choices.0");
    assert_string_equal(json_text_at(v, "stop_reason"), "END");
    assert_int_equal(json_integer_value(json_at(v, "token_ids.1")), 4);
    assert_int_equal(json_array_size(json_at(v, "prompt_token_ids")), 1);
    assert_true(json_is_null(json_at(v, "prompt_logprobs.0")));
    assert_int_equal(json_integer_value(json_at(v, "prompt_logprobs.1.1.rank")), 1);
    assert_string_equal(json_text_at(v, "prompt_logprobs.2.5.decoded_token"), "token_id:5");
    assert_int_equal(json_integer_value(json_at(v, "prompt_logprobs.2.5.rank")), 7);
    json_t *last = json_at(v, "prompt_logprobs.2");
    assert_string_equal(json_object_iter_key(json_object_iter(last)), "5");
    end(&f);
}

static void test_vectors(void **state)
{
    static const float x[] = {1.0f, -0.1f, 3e-38f};
    struct fixture f;
    (void)state;
    begin(&f, API_EMBEDDINGS);
    struct jout j = jout_on(&f.out);
    api_vectors_begin(&j);
    api_vector_write(&j, 0, x, 3, false);
    api_vector_write(&j, 1, x, 1, true);
    api_vector_write(&j, 2, x, 2, true);
    api_vectors_end(&j, "m", &usage);
    const json_t *v = parsed(&f, 0);
    assert_string_equal(json_text_at(v, "object"), "list");
    assert_string_equal(json_text_at(v, "data.0.object"), "embedding");
    for (size_t i = 0; i < 3; i++)
        assert_true((float)json_number_value(json_array_get(json_at(v, "data.0.embedding"), i)) ==
                    x[i]);
    assert_string_equal(json_text_at(v, "data.1.embedding"), "AACAPw==");
    assert_string_equal(json_text_at(v, "data.2.embedding"), "AACAP83MzL0=");
    assert_int_equal(json_integer_value(json_at(v, "data.2.index")), 2);
    assert_int_equal(json_integer_value(json_at(v, "usage.total_tokens")), 7);
    end(&f);
}

static size_t count_of(const struct buf *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text->data; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* Fault: a token behind the last piece of text, which shows none, whose log-probability a
 * response's stream leaves out of its deltas. */
static void test_response_tokens_without_text(void **state)
{
    struct fixture f;
    (void)state;
    for (int n = 1; n <= 2; n++) {
        begin(&f, API_RESPONSES);
        const struct api_choice text = {.text = "b",
                                        .n_text = 1,
                                        .is_first = true,
                                        .stop_id = -1,
                                        .logprob = logprobs + 1,
                                        .n_logprob = 1},
                                end_of = {.finish = "stop",
                                          .stop_id = -1,
                                          .logprob = logprobs + 1,
                                          .n_logprob = (size_t)n - 1};
        api_face(API_RESPONSES)->event(&f.r, &text, &usage, &f.out);
        api_face(API_RESPONSES)->event(&f.r, &end_of, &usage, &f.out);
        buf_char(&f.out, 0);
        assert_int_equal(count_of(&f.out, "event: response.output_text.delta"), n);
        assert_int_equal(count_of(&f.out, "\"delta\":\"\""), n - 1);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_tool_calls),
        cmocka_unit_test(test_chat_events),
        cmocka_unit_test(test_chat_logprobs),
        cmocka_unit_test(test_completion_logprobs),
        cmocka_unit_test(test_one_spelling_is_one_key),
        cmocka_unit_test(test_vllm_members),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_response_tokens_without_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
