/* SPDX-License-Identifier: Apache-2.0
 *
 * The generating routes on a real engine, without a socket (tests/fake). Faults it can catch: a
 * stream that says other than the whole answer; text of a user that becomes a special token; a
 * seed, a stop string, an echo or a log-probability that goes to the wrong choice; answers that
 * live on when a client is gone; a notification that outlives its call.
 */
#include "server/answer/generate.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/jout.h"
#include "api/params.h"
#include "engine/token/tokenizer.h"
#include "server/http/route.h"
#include "tests/engine/load/st_make.h"
#include "tests/fake/call.h"
#include "tests/lib/json_at.h"
#include "tests/lib/test.h"

enum { MAX_TEXT = 32 }; /* tokens of a text that becomes a vector */

extern char **environ;

static struct engine *engine, *encoder;

/* POST /v1/chat/completions, of which nothing is kept. */
static void chat(struct call *c)
{
    generate(c, API_CHAT);
}

/* ---- reading answers ----------------------------------------------------------------------- */

static char *ask(void (*route)(struct call *), const char *body, int status)
{
    struct call *c = fake_post(route, body, (struct fake_client){.leaves = false});
    if (c->status != status)
        fail_msg("%s: status %d, %s", body, c->status, c->body.data);
    char *text = buf_take(&c->body);
    fake_free(c);
    return text;
}

static json_t *ask_json(void (*route)(struct call *), const char *body, int status)
{
    char *text = ask(route, body, status);
    json_t *v = json_of(text, strlen(text));
    free(text);
    return v;
}

/* The texts of the choices of a stream put together, and what its events have in common. */
struct streamed {
    struct buf text[4];
    const char *finish[4];
    int n_event, n_usage;
    bool has_role[4], is_done;
    int64_t total;
};

static void take_choice(struct streamed *s, const json_t *c)
{
    size_t i = (size_t)json_int_at(c, "index");
    const json_t *text = json_at(c, "text") ? json_at(c, "text") : json_at(c, "delta.content");
    assert_true(i < 4 && !s->finish[i]);
    if (json_at(c, "delta")) /* the first event of a choice says whose turn it is, and no other */
        assert_true(s->has_role[i] == !json_at(c, "delta.role"));
    s->has_role[i] = true;
    if (text)
        buf_add(&s->text[i], json_string_value(text), json_string_length(text));
    const char *why = json_string_value(json_at(c, "finish_reason"));
    s->finish[i] = !why ? NULL : strcmp(why, "stop") == 0 ? "stop" : "length";
}

static void take_event(struct streamed *s, const json_t *v)
{
    s->n_event++;
    if (json_is_object(json_at(v, "usage")) && !json_array_size(json_at(v, "choices"))) {
        s->n_usage++;
        s->total = json_int_at(v, "usage.total_tokens");
        return;
    }
    assert_int_equal(json_count_at(v, "choices"), 1);
    take_choice(s, json_at(v, "choices.0"));
}

static struct streamed read_stream(const char *body)
{
    struct streamed s = {.n_event = 0};
    for (int i = 0; i < 4; i++)
        buf_init(&s.text[i], 1 << 20);
    for (const char *p = body, *end; *p; p = end + 2) {
        end = strstr(p, "\n\n");
        assert_non_null(end);
        assert_memory_equal(p, "data: ", 6);
        assert_false(s.is_done);
        if (strncmp(p + 6, "[DONE]", 6) == 0) {
            s.is_done = true;
            continue;
        }
        json_t *v = json_of(p + 6, (size_t)(end - p) - 6);
        take_event(&s, v);
        json_decref(v);
    }
    return s;
}

static void release_streamed(struct streamed *s)
{
    for (int i = 0; i < 4; i++)
        buf_release(&s->text[i]);
}

static void assert_idle(void)
{
    struct engine_stat s = engine_stat(engine);
    for (int i = 0; (s.n_running || s.n_waiting || s.cell_used) && i < 12000; i++) {
        usleep(5000);
        s = engine_stat(engine);
    }
    assert_int_equal(s.n_running + s.n_waiting, 0);
    assert_int_equal(s.cell_used, 0);
}

/* ---- whole and streamed -------------------------------------------------------------------- */

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
#define CHAT  HELLO ",\"temperature\":0"

/* Whatever way it is sent, the text is the same. */
static void test_streams_say_what_whole_answers_say(void **state)
{
    static const struct {
        void (*route)(struct call *);
        const char *body;
    } cases[] = {
        {chat, CHAT ",\"max_tokens\":40"},
        {chat, HELLO ",\"max_tokens\":40,\"n\":3,\"temperature\":1.5,\"seed\":5"},
        {route_completions, "\"prompt\":\"abc\",\"temperature\":0,\"max_tokens\":33"},
        {route_completions,
         "\"prompt\":[\"abc\",\"x\"],\"n\":2,\"seed\":1,\"temperature\":2,\"max_tokens\":20"},
        {route_completions, "\"prompt\":[[5,6,7]],\"echo\":true,\"seed\":1,\"max_tokens\":20"},
        {route_completions,
         "\"prompt\":\"q\",\"seed\":3,\"max_tokens\":60,\"stop\":[\"e\",\" t\"]"},
        {route_completions, "\"prompt\":[[85,86],[87]],\"echo\":true,\"logprobs\":3,\"seed\":1,"
                            "\"max_tokens\":30,\"return_token_ids\":true,\"n\":2"},
        {chat, CHAT ",\"max_tokens\":9,\"logprobs\":true,\"top_logprobs\":20"},
        {route_completions, "\"prompt\":\"q\",\"seed\":3,\"max_tokens\":60,\"stop\":[\"e\"],"
                            "\"include_stop_str_in_output\":true"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body, "{%s}", cases[i].body);
        json_t *whole = ask_json(cases[i].route, body, 200);
        snprintf(body, sizeof body,
                 "{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", cases[i].body);
        for (int slow = 0; slow < 2; slow++) {
            struct call *c =
                fake_post(cases[i].route, body, (struct fake_client){.reads_slowly = slow});
            assert_int_equal(c->status, 200);
            struct streamed s = read_stream(c->body.data);
            assert_true(s.is_done && s.n_usage == 1);
            assert_int_equal(s.total, json_int_at(whole, "usage.total_tokens"));
            for (size_t k = 0; k < json_count_at(whole, "choices"); k++) {
                const json_t *choice = json_array_get(json_at(whole, "choices"), k);
                const json_t *text = json_at(choice, "text") ? json_at(choice, "text")
                                                             : json_at(choice, "message.content");
                assert_int_equal(s.text[k].len, json_string_length(text));
                assert_memory_equal(s.text[k].len ? s.text[k].data : "", json_string_value(text),
                                    s.text[k].len);
                assert_string_equal(s.finish[k], json_text_at(choice, "finish_reason"));
            }
            release_streamed(&s);
            fake_free(c);
        }
        json_decref(whole);
    }
    assert_idle();
}

static void test_a_chat(void **state)
{
    (void)state;
    json_t *v = ask_json(chat, "{" CHAT ",\"max_tokens\":5,\"ignore_eos\":true,\"wot\":1}", 200);
    assert_string_equal(json_text_at(v, "object"), "chat.completion");
    assert_string_equal(json_text_at(v, "id"), "chatcmpl-id-1");
    assert_string_equal(json_text_at(v, "model"), engine_info(engine)->name);
    assert_string_equal(json_text_at(v, "choices.0.finish_reason"), "length");
    assert_int_equal(json_int_at(v, "usage.completion_tokens"), 5);
    assert_true(json_int_at(v, "usage.prompt_tokens") > 5);
    json_decref(v);
    struct call *c = fake_post(chat, "{" CHAT ",\"max_tokens\":1,\"wot\":1}",
                               (struct fake_client){.leaves = false});
    assert_string_equal(c->headers, "x-tandem-ignored: wot\n");
    assert_true(c->tok_in > 5 && c->tok_out == 1);
    fake_free(c);
}

/* ---- seeds, choices ------------------------------------------------------------------------ */

static void test_seeds(void **state)
{
    static const char body[] = "{\"prompt\":[\"a\",\"a\"],\"n\":2,\"seed\":9,\"temperature\":2,"
                               "\"max_tokens\":12}";
    (void)state;
    json_t *a = ask_json(route_completions, body, 200);
    json_t *b = ask_json(route_completions, body, 200);
    json_t *one =
        ask_json(route_completions,
                 "{\"prompt\":\"a\",\"seed\":9,\"temperature\":2,\"max_tokens\":12}", 200);
    assert_true(json_equal(json_at(a, "choices"), json_at(b, "choices")));
    /* the two choices differ; the second prompt, which is the same, has the same two */
    assert_string_not_equal(json_text_at(a, "choices.0.text"), json_text_at(a, "choices.1.text"));
    assert_string_equal(json_text_at(a, "choices.0.text"), json_text_at(a, "choices.2.text"));
    assert_string_equal(json_text_at(a, "choices.1.text"), json_text_at(a, "choices.3.text"));
    assert_string_equal(json_text_at(a, "choices.0.text"), json_text_at(one, "choices.0.text"));
    assert_int_equal(json_int_at(a, "choices.3.index"), 3);
    json_decref(a);
    json_decref(b);
    json_decref(one);
    a = ask_json(route_completions, "{\"prompt\":\"a\",\"n\":2,\"temperature\":2}", 200);
    assert_string_not_equal(json_text_at(a, "choices.0.text"), json_text_at(a, "choices.1.text"));
    json_decref(a);
}

/* Choice 0 draws with the seed as it was sent: what the engine gives for it, whoever asks. */
static void test_the_seed_is_the_engines(void **state)
{
    static const int32_t prompt[] = {97, 98};
    struct gen_params p = {.sample = SAMPLE_PARAMS_INIT, .max_new = 8, .ignore_eos = true};
    const struct gen_req r = {.prompt = prompt, .n_prompt = 2, .params = &p, .salt = 99};
    struct answer *a;
    struct err e = ERR_INIT;
    (void)state;
    p.sample.seed = 1234567;
    p.sample.temperature = 2;
    assert_good(engine_submit(engine, &r, 1, (struct gen_notify){.ctx = NULL}, &a, &e), &e);
    json_t *v = ask_json(route_completions,
                         "{\"prompt\":[97,98],\"seed\":1234567,\"temperature\":2,\"max_tokens\":8,"
                         "\"ignore_eos\":true,\"return_token_ids\":true}",
                         200);
    while (answer_state(a) == GEN_RUNS)
        usleep(1000);
    assert_int_equal(json_count_at(v, "choices.0.token_ids"), answer_count(a));
    for (size_t i = 0; i < answer_count(a); i++)
        assert_int_equal(json_integer_value(json_array_get(json_at(v, "choices.0.token_ids"), i)),
                         answer_token(a, i)->id);
    answer_unref(a);
    json_decref(v);
}

static double mean_of(const json_t *choice)
{
    const json_t *list = json_at(choice, "logprobs.token_logprobs");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum / (double)json_array_size(list);
}

static void test_best_of(void **state)
{
    (void)state;
    json_t *all = ask_json(route_completions,
                           "{\"prompt\":\"a\",\"n\":4,\"seed\":4,\"temperature\":1,\"logprobs\":0,"
                           "\"ignore_eos\":true,\"max_tokens\":6}",
                           200);
    json_t *best = ask_json(route_completions,
                            "{\"prompt\":\"a\",\"n\":2,\"best_of\":4,\"seed\":4,\"temperature\":1,"
                            "\"logprobs\":0,\"ignore_eos\":true,\"max_tokens\":6}",
                            200);
    assert_int_equal(json_count_at(best, "choices"), 2);
    assert_int_equal(json_int_at(best, "usage.completion_tokens"), 24);
    double first = mean_of(json_at(best, "choices.0")),
           second = mean_of(json_at(best, "choices.1"));
    int n_better = 0;
    assert_true(first >= second);
    for (size_t i = 0; i < 4; i++)
        n_better += mean_of(json_array_get(json_at(all, "choices"), i)) > second;
    assert_true(n_better <= 1);
    json_decref(all);
    json_decref(best);
}

/* ---- stop strings -------------------------------------------------------------------------- */

/* The index of the character behind the one at i. */
static size_t next_char(const char *p, size_t i)
{
    for (i++; (p[i] & 0xc0) == 0x80; i++)
        ;
    return i;
}

static struct buf ask_to_stop(const char *stop, size_t n, bool is_stream)
{
    struct buf body, text;
    buf_init(&body, 1 << 16);
    buf_str(&body,
            "{\"prompt\":\"q\",\"seed\":3,\"max_tokens\":60,\"ignore_eos\":true,\"stop\":\"");
    jout_escape(&body, stop, n);
    buf_str(&body, is_stream ? "\",\"stream\":true}" : "\"}");
    struct call *c = fake_post(route_completions, body.data, (struct fake_client){.leaves = false});
    assert_int_equal(c->status, 200);
    buf_init(&text, 1 << 16);
    if (is_stream) {
        struct streamed s = read_stream(c->body.data);
        buf_add(&text, s.text[0].data, s.text[0].len);
        assert_string_equal(s.finish[0], "stop");
        release_streamed(&s);
    } else {
        json_t *v = json_of(c->body.data, c->body.len);
        const json_t *t = json_at(v, "choices.0.text");
        buf_add(&text, json_string_value(t), json_string_length(t));
        assert_string_equal(json_text_at(v, "choices.0.stop_reason"), stop);
        json_decref(v);
    }
    fake_free(c);
    buf_release(&body);
    return text;
}

/* Every three characters of an answer as the stop string: nothing of it is ever shown. */
static void test_stops_across_tokens(void **state)
{
    char stop[64];
    (void)state;
    json_t *v = ask_json(route_completions,
                         "{\"prompt\":\"q\",\"seed\":3,\"max_tokens\":60,"
                         "\"ignore_eos\":true}",
                         200);
    const json_t *t = json_at(v, "choices.0.text");
    const char *p = json_string_value(t);
    size_t n = json_string_length(t);
    for (size_t i = 0; i < n; i = next_char(p, i)) {
        size_t end = i;
        for (int k = 0; k < 3 && end < n; k++)
            end = next_char(p, end);
        memcpy(stop, p + i, end - i);
        stop[end - i] = 0;
        const char *first = memmem(p, n, stop, end - i);
        for (int is_stream = 0; is_stream < 2 && strlen(stop) == end - i; is_stream++) {
            struct buf text = ask_to_stop(stop, end - i, is_stream);
            assert_int_equal(text.len, first - p);
            assert_memory_equal(text.len ? text.data : "", p, text.len);
            buf_release(&text);
        }
    }
    json_decref(v);
}

/* ---- log-probabilities --------------------------------------------------------------------- */

/* As lm-evaluation-harness asks: the prompt's tokens and one more, the first without. */
static void test_scores_of_prompts(void **state)
{
    (void)state;
    json_t *v = ask_json(route_completions,
                         "{\"prompt\":[[85,86,87,88],[89,90]],\"max_tokens\":1,\"logprobs\":1,"
                         "\"echo\":true,\"temperature\":0,\"seed\":1234,\"ignore_eos\":true}",
                         200);
    json_t *alone =
        ask_json(route_completions,
                 "{\"prompt\":[89,90],\"max_tokens\":0,\"logprobs\":1,\"echo\":true}", 200);
    assert_int_equal(json_count_at(v, "choices"), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *c = json_array_get(json_at(v, "choices"), i);
        size_t n = i ? 3 : 5;
        assert_int_equal(json_int_at(c, "index"), i);
        assert_int_equal(json_count_at(c, "logprobs.tokens"), n);
        assert_int_equal(json_count_at(c, "logprobs.token_logprobs"), n);
        assert_int_equal(json_count_at(c, "logprobs.top_logprobs"), n);
        assert_true(json_is_null(json_at(c, "logprobs.token_logprobs.0")));
        assert_true(json_is_null(json_at(c, "logprobs.top_logprobs.0")));
        for (size_t k = 1; k < n; k++) {
            const json_t *top = json_array_get(json_at(c, "logprobs.top_logprobs"), k);
            const char *token = json_string_value(json_array_get(json_at(c, "logprobs.tokens"), k));
            double p = json_number_value(json_array_get(json_at(c, "logprobs.token_logprobs"), k));
            assert_true(p < 0);
            assert_true(json_number_value(json_object_get(top, token)) == p);
        }
        /* the last is the one that was taken, greedily */
        assert_int_equal(
            json_object_size(json_array_get(json_at(c, "logprobs.top_logprobs"), n - 1)), 1);
    }
    const json_t *c = json_at(alone, "choices.0.logprobs.token_logprobs");
    assert_int_equal(json_array_size(c), 2);
    assert_true(
        json_equal(json_array_get(c, 1), json_at(v, "choices.1.logprobs.token_logprobs.1")));
    assert_int_equal(json_int_at(alone, "usage.completion_tokens"), 0);
    json_decref(v);
    json_decref(alone);
}

/* Whether the prompt's second token, which comes first, is among the two likeliest. */
static bool is_likely(const json_t *v)
{
    const json_t *at = json_at(v, "prompt_logprobs.1");
    char token[32];
    snprintf(token, sizeof token, "%d", (int)json_int_at(v, "choices.0.prompt_token_ids.1"));
    assert_string_equal(json_object_iter_key(json_object_iter((json_t *)(uintptr_t)at)), token);
    return json_int_at(json_at(at, token), "rank") <= 2;
}

static void test_logprobs_of_chats(void **state)
{
    (void)state;
    json_t *v = ask_json(chat,
                         "{" CHAT ",\"max_tokens\":4,\"logprobs\":true,\"top_logprobs\":3,"
                         "\"ignore_eos\":true,\"return_token_ids\":true,\"prompt_logprobs\":2}",
                         200);
    const json_t *list = json_at(v, "choices.0.logprobs.content");
    assert_int_equal(json_array_size(list), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *t = json_array_get(list, i);
        assert_int_equal(json_count_at(t, "top_logprobs"), 3);
        assert_true(json_equal(json_at(t, "logprob"), json_at(t, "top_logprobs.0.logprob")));
        assert_true(json_equal(json_at(t, "bytes"), json_at(t, "top_logprobs.0.bytes")));
    }
    assert_int_equal(json_count_at(v, "choices.0.token_ids"), 4);
    assert_int_equal(json_count_at(v, "prompt_logprobs"), json_int_at(v, "usage.prompt_tokens"));
    assert_int_equal(json_count_at(v, "prompt_logprobs.1"), 2 + !is_likely(v));
    assert_int_equal(json_count_at(v, "choices.0.prompt_token_ids"),
                     json_int_at(v, "usage.prompt_tokens"));
    json_decref(v);
}

/* ---- the template -------------------------------------------------------------------------- */

static json_t *ids_of(const char *content)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":1,"
             "\"return_token_ids\":true}",
             content);
    json_t *v = ask_json(chat, body, 200);
    json_t *ids = json_incref(json_at(v, "choices.0.prompt_token_ids"));
    json_decref(v);
    return ids;
}

/* A message that spells special tokens holds none: as many as a harmless one. */
static void test_messages_cannot_make_special_tokens(void **state)
{
    const struct tokenizer *t = engine_tokenizer(engine);
    json_t *plain = ids_of("xyz");
    size_t n_plain = 0, n_special = 0;
    (void)state;
    for (int32_t id = 0; id < (int32_t)tokenizer_size(t); id++) {
        size_t len;
        const char *piece = tokenizer_piece(t, id, &len);
        if (!piece || !tokenizer_is_special(t, id))
            continue;
        n_special++;
        json_t *ids = ids_of(piece);
        size_t n = 0;
        n_plain = 0;
        for (size_t i = 0; i < json_array_size(ids); i++)
            n += tokenizer_is_special(t, (int32_t)json_integer_value(json_array_get(ids, i)));
        for (size_t i = 0; i < json_array_size(plain); i++)
            n_plain +=
                tokenizer_is_special(t, (int32_t)json_integer_value(json_array_get(plain, i)));
        assert_int_equal(n, n_plain);
        json_decref(ids);
    }
    assert_true(n_special > 0);
    json_decref(plain);
}

static void test_continuing_a_message(void **state)
{
    (void)state;
    json_t *v =
        ask_json(chat,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
                 "\"assistant\",\"content\":\"bcd\"}],\"add_generation_prompt\":false,"
                 "\"continue_final_message\":true,\"max_tokens\":1,\"return_token_ids\":true}",
                 200);
    const json_t *ids = json_at(v, "choices.0.prompt_token_ids");
    struct buf text;
    struct err e = ERR_INIT;
    buf_init(&text, 1 << 16);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        assert_good(tokenizer_decode(engine_tokenizer(engine), &id, 1, false, &text, &e), &e);
    }
    assert_true(text.len > 3);
    assert_string_equal(text.data + text.len - 3, "bcd");
    buf_release(&text);
    json_decref(v);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void test_refusals(void **state)
{
    static const struct {
        void (*route)(struct call *);
        const char *body;
        int status;
        const char *param, *code;
    } cases[] = {
        {chat, "{" CHAT ",\"model\":\"gpt-9\"}", 404, "model", "model_not_found"},
        {chat, "{" CHAT ",\"max_tokens\":100000}", 400, "messages", "context_length_exceeded"},
        {route_completions, "{\"prompt\":\"x\",\"max_tokens\":100000}", 400, "prompt",
         "context_length_exceeded"},
        {route_completions, "{\"prompt\":[999999999]}", 400, "prompt", "invalid_value"},
        {chat, "{" CHAT ",\"chat_template_kwargs\":{\"messages\":1}}", 400, "chat_template_kwargs",
         NULL},
        {chat, "{" CHAT ",\"chat_template_kwargs\":{\"eos_token\":\"x\"}}", 400,
         "chat_template_kwargs", NULL},
        {chat, "{" CHAT ",\"reasoning_effort\":\"high\"}", 400, "reasoning_effort", NULL},
        {route_embeddings, "{\"input\":\"x\"}", 400, "model", "unsupported_model"},
        {chat, "{", 400, NULL, "invalid_json"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = ask_json(cases[i].route, cases[i].body, cases[i].status);
        if (cases[i].param)
            assert_string_equal(json_text_at(v, "error.param"), cases[i].param);
        else
            assert_true(json_is_null(json_at(v, "error.param")));
        if (cases[i].code)
            assert_string_equal(json_text_at(v, "error.code"), cases[i].code);
        assert_non_null(json_text_at(v, "error.message"));
        json_decref(v);
    }
    struct call *c = fake_post(chat,
                               "{" CHAT ",\"max_tokens\":1,\"chat_template_kwargs\":"
                               "{\"enable_thinking\":false}}",
                               (struct fake_client){.leaves = false});
    assert_int_equal(c->status, 200);
    assert_string_equal(c->headers, "x-tandem-ignored: chat_template_kwargs.enable_thinking\n");
    fake_free(c);
}

/* Every number at its bounds and next to them goes through the engine: an answer or a 400. */
static void test_every_bound_runs(void **state)
{
    char body[256];
    size_t n_good = 0;
    (void)state;
    for (size_t i = 0; i < n_param_rows; i++) {
        const struct param_row *row = &param_rows[i];
        const double values[] = {row->min, row->max, row->min + 1, 0, 1e-320};
        if (!(row->routes & API_COMPLETIONS) || (row->kind != PARAM_INT && row->kind != PARAM_NUM))
            continue;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            snprintf(body, sizeof body, "{\"prompt\":\"ab\",\"max_tokens\":2,\"%s\":%.17g}",
                     row->name, values[k]);
            struct call *c =
                fake_post(route_completions, body, (struct fake_client){.leaves = false});
            if (c->status != 200 && c->status != 400)
                fail_msg("%s: %s", body, c->body.data);
            n_good += c->status == 200;
            fake_free(c);
        }
    }
    assert_true(n_good > 20);
    assert_idle();
}

static void test_truncation_keeps_the_end(void **state)
{
    (void)state;
    json_t *v = ask_json(route_completions,
                         "{\"prompt\":[5,6,7,8,9],\"truncate_prompt_tokens\":2,\"max_tokens\":1,"
                         "\"return_token_ids\":true,\"echo\":true}",
                         200);
    assert_int_equal(json_int_at(v, "usage.prompt_tokens"), 2);
    assert_int_equal(json_int_at(v, "choices.0.prompt_token_ids.0"), 8);
    json_decref(v);
}

/* ---- clients that leave -------------------------------------------------------------------- */

static void test_leaving(void **state)
{
    static const char *const bodies[] = {
        "{" CHAT ",\"max_tokens\":400,\"ignore_eos\":true,\"n\":3,\"stream\":true}",
        "{" CHAT ",\"max_tokens\":400,\"ignore_eos\":true,\"n\":3}"};
    int n_left = 0;
    uint64_t was = engine_stat(engine).tok_new;
    (void)state;
    for (size_t i = 0; i < 40; i++) {
        struct call *c =
            fake_post(chat, bodies[i % 2],
                      (struct fake_client){.leaves = true, .leave_at = i % 2 ? 0 : i % 5});
        n_left += !c->is_over; /* on a busy machine all may have come before */
        fake_free(c);
    }
    assert_true(n_left >= 24);
    assert_idle();
    /* of those that left at once, 20 times 1200 tokens, few were made */
    assert_true(engine_stat(engine).tok_new - was < 20 * 1200 + 20 * 400);
}

/* ---- vectors ------------------------------------------------------------------------------- */

/* The inputs come in order, alone and together, as floats and as base64. */
static void test_embeddings(void **state)
{
    (void)state;
    fake_engine(encoder);
    json_t *both = ask_json(route_embeddings, "{\"input\":[\"abc\",\"d e\"]}", 200);
    json_t *one =
        ask_json(route_embeddings, "{\"input\":\"d e\",\"encoding_format\":\"base64\"}", 200);
    size_t n = (size_t)engine_info(encoder)->n_vector;
    assert_string_equal(json_text_at(both, "object"), "list");
    assert_int_equal(json_count_at(both, "data"), 2);
    assert_int_equal(json_count_at(both, "data.1.embedding"), n);
    assert_int_equal(json_int_at(both, "data.1.index"), 1);
    assert_false(json_equal(json_at(both, "data.0.embedding"), json_at(both, "data.1.embedding")));
    assert_true(json_int_at(both, "usage.prompt_tokens") > json_int_at(one, "usage.prompt_tokens"));
    const char *text = json_text_at(one, "data.0.embedding");
    assert_int_equal(strlen(text), (n * 4 + 2) / 3 * 4);
    json_decref(both);
    json_decref(one);
    json_decref(ask_json(chat, "{" CHAT "}", 400));
    fake_engine(engine);
}

/* The vector of a request, which used n tokens. */
static json_t *vector_of(const char *body, long long n)
{
    json_t *v = ask_json(route_embeddings, body, 200);
    json_t *at = json_incref(json_at(v, "data.0.embedding"));
    assert_int_equal(json_int_at(v, "usage.prompt_tokens"), n);
    json_decref(v);
    return at;
}

/* A request of 20,000 words of a letter each. */
static char *long_request(const char *more)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_str(&b, "{\"input\":\"");
    for (int i = 0; i < 20000; i++)
        buf_printf(&b, "%c ", 'a' + i % 26);
    buf_printf(&b, "\"%s}", more);
    return buf_take(&b);
}

/* The first of its words as they stand in the model, with what begins and ends a text. */
static char *first_ids(int n)
{
    const struct tokenizer *t = engine_tokenizer(encoder);
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_printf(&b, "{\"input\":[[%d", (int)tokenizer_id(t, "[CLS]", 5));
    for (int i = 0; i < n - 2; i++)
        buf_printf(&b, ",%d", (int)tokenizer_id(t, (char[]){(char)('a' + i % 26)}, 1));
    buf_printf(&b, ",%d]]}", (int)tokenizer_id(t, "[SEP]", 5));
    return buf_take(&b);
}

/* Fault: a text that is longer than the model was made for is not cut as sentence-transformers cuts
 * it: [CLS], what fits, [SEP]; or fewer tokens than the request asks for itself. */
static void test_long_text_is_cut(void **state)
{
    char *text = long_request(""), *ids = first_ids(MAX_TEXT);
    char *less = long_request(",\"truncate_prompt_tokens\":5");
    (void)state;
    fake_engine(encoder);
    json_t *cut = vector_of(text, MAX_TEXT), *want = vector_of(ids, MAX_TEXT);
    assert_true(json_equal(cut, want));
    json_decref(cut);
    json_decref(want);
    json_decref(vector_of(less, 5));
    free(text);
    free(ids);
    free(less);
    fake_engine(engine);
}

/* ---- a model to ask ------------------------------------------------------------------------ */

static char tool[512];
static char *dir, *encoder_dir;

/* What sentence-transformers writes beside a model, as far as it is read. */
static void put_length(const char *at)
{
    char text[80];
    snprintf(text, sizeof text, "{\"max_seq_length\":%d}", MAX_TEXT);
    put_text(at, "modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"\"}]");
    put_text(at, "sentence_bert_config.json", text);
}

static struct engine *engine_of(const char *at, const char *preset, bool is_encoder)
{
    const char *const argv[] = {tool,  at,         "--preset", preset, "--ctx",
                                "512", "--layers", "2",        NULL};
    const struct engine_options o = {.model = at, .load.threads = 2, .kv_bytes = 64 << 20};
    struct err e = ERR_INIT;
    pid_t pid;
    int status;
    assert_int_equal(posix_spawn(&pid, tool, NULL, NULL, (char *const *)(uintptr_t)argv, environ),
                     0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    if (is_encoder)
        put_length(at);
    struct engine *g = engine_new(&o, &e);
    assert_good(g ? 0 : -1, &e);
    assert_good(engine_start(g, &e), &e);
    return g;
}

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    encoder_dir = test_dir_new();
    engine = engine_of(dir, "tiny", false);
    encoder = engine_of(encoder_dir, "minilm-22m", true);
    fake_engine(engine);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    engine_stop(engine);
    engine_free(engine);
    engine_stop(encoder);
    engine_free(encoder);
    test_dir_free(dir);
    test_dir_free(encoder_dir);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_say_what_whole_answers_say),
        cmocka_unit_test(test_a_chat),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_the_seed_is_the_engines),
        cmocka_unit_test(test_best_of),
        cmocka_unit_test(test_stops_across_tokens),
        cmocka_unit_test(test_scores_of_prompts),
        cmocka_unit_test(test_logprobs_of_chats),
        cmocka_unit_test(test_messages_cannot_make_special_tokens),
        cmocka_unit_test(test_continuing_a_message),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_bound_runs),
        cmocka_unit_test(test_truncation_keeps_the_end),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_long_text_is_cut),
    };
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    snprintf(tool, sizeof tool, "%.*s/../../tools/make_model", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    return cmocka_run_group_tests(tests, setup, teardown);
}
