/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of training files. Faults: a row that is read as something else, a weight that a template
 * sees or that is taken for another number, an error without its field, a crash on what is not a
 * row.
 */
#include "api/train_row.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

static int read_line(const char *line, struct train_example *row, struct api_error *e)
{
    struct train_said said = {.unread = ""};
    int rc = api_train_row(&own_arena, line, strlen(line),
                           (struct train_wants){.knows_developer = true}, row, &said);
    *e = said.error;
    return rc;
}

static void conversations(void **state)
{
    struct train_example row;
    struct api_error e;
    (void)state;
    assert_int_equal(read_line("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                               "{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0},"
                               "{\"role\":\"assistant\",\"content\":\"b\",\"weight\":1}],"
                               "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                               "\"parallel_tool_calls\":false}",
                               &row, &e),
                     0);
    assert_int_equal(row.kind, TRAIN_CHAT);
    assert_int_equal(row.n_weight, 3);
    assert_true(row.weight[0] == 1 && row.weight[1] == 0 && row.weight[2] == 1);
    assert_true(row.has_tools);
    assert_int_equal(row.messages.l->n, 3);
    assert_null(jv_dict_get(&row.messages.l->at[1], "weight"));
    assert_int_equal(read_line("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],"
                               "\"functions\":[{\"name\":\"f\"}]}",
                               &row, &e),
                     0);
    assert_non_null(jv_dict_get(&row.tools.l->at[0], "function"));
}

static void completions(void **state)
{
    struct train_example row;
    struct api_error e;
    (void)state;
    assert_int_equal(read_line("{\"prompt\":\"p\\u0000\",\"completion\":\"\"}", &row, &e), 0);
    assert_int_equal(row.kind, TRAIN_TEXT);
    assert_int_equal(row.n_prompt, 2);
    assert_int_equal(row.n_completion, 0);
    assert_int_equal(
        read_line("{\"input\":{},\"preferred_output\":[],\"non_preferred_output\":[]}", &row, &e),
        0);
    assert_int_equal(row.kind, TRAIN_PREFERENCE);
}

/* Faults: a weight of a row that is dropped, or taken for a message's. */
static void row_weights(void **state)
{
    static const struct {
        const char *line;
        double weight;
    } rows[] = {
        {"{\"prompt\":\"\",\"completion\":\"\",\"weight\":0.25}", 0.25},
        {"{\"prompt\":\"\",\"completion\":\"\",\"weight\":null}", 0},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"weight\":1}],\"weight\":3}",
         3},
        {"{\"instruction\":\"a\",\"output\":\"b\",\"weight\":2}", 2},
        {"{\"text\":\"a\",\"weight\":2}", 2},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
         "\"b\"}],\"weight\":2}",
         2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_example row;
        struct api_error e;
        assert_int_equal(read_line(rows[i].line, &row, &e), 0);
        assert_true(row.row_weight == rows[i].weight);
    }
}

/* Faults: a column of a file of others refused, or dropped without a word; a name told twice, cut
 * in silence, or with bytes that break the text it is told in; one of no bytes, looked for behind
 * the text's end. */
static void unread_members(void **state)
{
    (void)state;
    struct train_example row;
    struct train_said said = {.unread = ""};
    static const char *const lines[] = {
        "{\"prompt\":\"\",\"completion\":\"\",\"id\":7,\"weight\":null,\"label\":3}",
        "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"prompt\":\"x\",\"id\":7,"
        "\"tools\":null,\"parallel_tool_calls\":true,\"system\":\"\",\"a\\\"b\":1}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(api_train_row(&own_arena, lines[i], strlen(lines[i]),
                                       (struct train_wants){.knows_developer = true}, &row, &said),
                         0);
    assert_string_equal(said.unread, "id, label, prompt, system, a?b");
    for (int i = 0; i < 100; i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"prompt\":\"\",\"completion\":\"\",\"column-%d\":7}", i);
        assert_int_equal(api_train_row(&own_arena, line, strlen(line),
                                       (struct train_wants){.knows_developer = true}, &row, &said),
                         0);
    }
    assert_non_null(strstr(said.unread, "column-9, "));
    assert_string_equal(said.unread + strlen(said.unread) - 5, ", ...");
    said = (struct train_said){.unread = ""};
    static const char nameless[] = "{\"prompt\":\"\",\"completion\":\"\",\"id\":7,\"\":7}";
    assert_int_equal(api_train_row(&own_arena, nameless, strlen(nameless),
                                   (struct train_wants){.knows_developer = true}, &row, &said),
                     0);
    assert_string_equal(said.unread, "id, ?");
}

#define USER   "{\"role\":\"user\",\"content\":\"Hi\"}"
#define ANSWER "\"role\":\"assistant\",\"content\":\"Yes\""
#define LOGPROBS                                                                                   \
    "{\"content\":[{\"token\":\"Y\",\"logprob\":-0.5,\"bytes\":[89],\"top_logprobs\":"             \
    "[{\"token\":\"Y\",\"logprob\":-0.5,\"bytes\":null},{\"token\":\"N\",\"logprob\":-2}]},"       \
    "{\"token\":\"?\",\"logprob\":0.001,\"bytes\":[101,115]}],\"refusal\":null}"

/* Faults: a teacher's word that is dropped, that a template sees, or that is another message's;
 * bytes that are taken from a token's spelling, or refused where a token, as an end, has none. */
static void teachers(void **state)
{
    static const char *const lines[] = {
        "{\"messages\":[" USER ",{" ANSWER ",\"logprobs\":" LOGPROBS "}]}",
        "{\"messages\":[" USER ",{" ANSWER "}],\"logprobs\":" LOGPROBS "}",
        "{\"messages\":[" USER "],\"choices\":[{\"index\":0,\"message\":{" ANSWER
        ",\"refusal\":null},\"logprobs\":" LOGPROBS "}],\"id\":\"chatcmpl-1\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct train_example row;
        struct api_error e;
        assert_int_equal(read_line(lines[i], &row, &e), 0);
        assert_true(row.kind == TRAIN_CHAT && row.n_teacher == 1 && row.messages.l->n == 2);
        const struct train_teacher *t = row.teacher;
        assert_true(t->message == 1 && t->n == 2);
        assert_true(t->at[0].is.logprob == -0.5 && t->at[0].n_top == 2 && t->at[1].n_top == 0);
        assert_true(t->at[0].top[1].n == 1 && t->at[0].top[1].p[0] == 'N');
        assert_true(t->at[1].is.n == 2 && memcmp(t->at[1].is.p, "es", 2) == 0);
        assert_true(t->at[1].is.logprob == 0);
        assert_null(jv_dict_get(&row.messages.l->at[1], "logprobs"));
    }
    struct train_example row;
    struct api_error e;
    assert_int_equal(read_line("{\"messages\":[{" ANSWER "}],\"logprobs\":{\"content\":[{\"token\":"
                               "\"<end>\",\"logprob\":-1,\"bytes\":[]}]}}",
                               &row, &e),
                     0);
    assert_true(row.n_teacher == 1 && row.teacher->at[0].is.n == 0);
    assert_int_equal(read_line("{\"messages\":[{" ANSWER
                               ",\"logprobs\":null}],\"logprobs\":{\"content\":"
                               "null}}",
                               &row, &e),
                     0);
    assert_int_equal(row.n_teacher, 0);
}

/* Faults: what is no log-probability taken for one, an error without its place; a teacher of a row
 * that no teacher is for. */
static void teachers_refused(void **state)
{
    static const struct {
        const char *line, *param;
    } bad[] = {
        {"{\"messages\":[{" ANSWER ",\"logprobs\":[]}]}", "messages[0].logprobs"},
        {"{\"messages\":[{" ANSWER ",\"logprobs\":{\"content\":{}}}]}", "messages[0].logprobs"},
        {"{\"messages\":[{" ANSWER "}],\"logprobs\":{\"content\":[7]}}", "logprobs.content[0]"},
        {"{\"messages\":[{" ANSWER "}],\"logprobs\":{\"content\":[{\"token\":\"Yes\"}]}}",
         "logprobs.content[0]"},
        {"{\"messages\":[{" ANSWER
         "}],\"logprobs\":{\"content\":[{\"token\":\"Yes\",\"logprob\":0.5}]}}",
         "logprobs.content[0]"},
        {"{\"messages\":[{" ANSWER
         "}],\"logprobs\":{\"content\":[{\"logprob\":-1,\"bytes\":[256]}]}}",
         "logprobs.content[0]"},
        {"{\"messages\":[{" ANSWER
         "}],\"logprobs\":{\"content\":[{\"token\":\"Yes\",\"logprob\":-1,"
         "\"top_logprobs\":[{\"token\":\"a\"}]}]}}",
         "logprobs.content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"logprobs\":" LOGPROBS "},{" ANSWER
         "}]}",
         "messages[0].logprobs"},
        {"{\"messages\":[" USER "],\"choices\":[]}", "messages"},
        {"{\"messages\":[" USER "],\"choices\":[{\"message\":{" ANSWER "}},{\"message\":{" ANSWER
         "}}]}",
         "choices"},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"logprobs\":" LOGPROBS "}", "logprobs"}};
    struct train_example row;
    struct train_said said = {.unread = ""};
    struct api_error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_line(bad[i].line, &row, &e), -1);
        assert_string_equal(e.param, bad[i].param);
    }
    static const char judged[] =
        "{\"messages\":[{" ANSWER "}],\"label\":true,\"logprobs\":" LOGPROBS "}";
    assert_int_equal(api_train_row(&own_arena, judged, strlen(judged),
                                   (struct train_wants){.has_verdicts = true}, &row, &said),
                     -1);
    assert_string_equal(said.error.param, "logprobs");
    static const char pair[] =
        "{\"input\":{\"messages\":[" USER "]},\"preferred_output\":[{" ANSWER
        ",\"logprobs\":" LOGPROBS "}],\"non_preferred_output\":[{" ANSWER "}]}";
    assert_int_equal(api_train_row(&own_arena, pair, strlen(pair),
                                   (struct train_wants){.has_pairs = true}, &row, &said),
                     -1);
    assert_string_equal(said.error.param, "preferred_output");
}

static int read_text(const char *line, bool has_anchors, struct train_example *row,
                     struct train_said *said)
{
    *said = (struct train_said){.unread = ""};
    return api_train_row(
        &own_arena, line, strlen(line),
        (struct train_wants){.has_anchors = has_anchors, .has_labels = !has_anchors}, row, said);
}

/* Faults: a text under another's name; a label that is lost; a member that asks for something else
 * and is passed over. */
static void texts(void **state)
{
    static const struct {
        bool has_anchors;
        const char *line, *param;
    } bad[] = {{true, "{\"anchor\":\"a\"}", "positive"},
               {true, "{\"anchor\":\"a\",\"positive\":null}", "positive"},
               {true, "{\"anchor\":[],\"positive\":\"b\"}", "anchor"},
               {true, "{\"anchor\":\"a\",\"positive\":\"b\",\"negative\":1}", "negative"},
               {true, "{\"anchor\":\"a\",\"positive\":\"b\",\"weight\":2}", "weight"},
               {false, "{\"text\":\"a\"}", "label"},
               {false, "{\"text\":\"a\",\"label\":null}", "label"},
               {false, "{\"text\":\"a\",\"label\":[{}]}", "label"},
               {false, "{\"text\":\"a\",\"text_pair\":2,\"label\":1}", "text_pair"}};
    struct train_example row;
    struct train_said said;
    (void)state;
    assert_int_equal(read_text("{\"query\":\"a\",\"positive\":\"bb\",\"negative\":\"c\",\"id\":3}",
                               true, &row, &said),
                     0);
    assert_true(row.kind == TRAIN_TEXTS && row.n_text == 3 && row.text[1].n == 2);
    assert_string_equal(said.unread, "id");
    assert_int_equal(
        read_text("{\"text\":\"a\",\"text_pair\":\"b\",\"label\":[\"x\",0.5]}", false, &row, &said),
        0);
    assert_true(row.n_text == 2 && row.has_labels && row.n_label == 2);
    assert_string_equal(row.label[0].name, "x");
    assert_true(!row.label[1].name && row.label[1].number == 0.5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_text(bad[i].line, bad[i].has_anchors, &row, &said), -1);
        assert_string_equal(said.error.param, bad[i].param);
    }
}

#define SAID(role, text) "[{\"role\":\"" role "\",\"content\":\"" text "\"}]"

static int read_pair(const char *line, struct train_example *row, struct api_error *e)
{
    struct train_said said = {.unread = ""};
    int rc =
        api_train_row(&own_arena, line, strlen(line),
                      (struct train_wants){.knows_developer = true, .has_pairs = true}, row, &said);
    *e = said.error;
    return rc;
}

/* Faults: an output without what was asked, or with the other one; a fault that is not named. */
static void preferences(void **state)
{
    static const struct {
        const char *line, *param;
    } bad[] = {
        {"{\"preferred_output\":[],\"non_preferred_output\":[]}", "input"},
        {"{\"input\":7,\"preferred_output\":[],\"non_preferred_output\":[]}", "input"},
        {"{\"input\":{},\"preferred_output\":[],\"non_preferred_output\":[]}", "input.messages"},
        {"{\"input\":{\"messages\":[]},\"preferred_output\":[],\"non_preferred_output\":[]}",
         "input.messages"},
        {"{\"input\":{\"messages\":" SAID("user", "a") "},\"preferred_output\":[],"
                                                       "\"non_preferred_output\":" SAID("assistant",
                                                                                        "b") "}",
         "preferred_output"},
        {"{\"input\":{\"messages\":" SAID("user", "a") "},\"preferred_output\":" SAID("assistant",
                                                                                      "b") "}",
         "non_preferred_output"},
        {"{\"input\":{\"messages\":" SAID("user", "a") "},\"preferred_output\":" SAID(
             "assistant", "b") ",\"non_preferred_output\":" SAID("user", "c") "}",
         "non_preferred_output"},
        {"{\"input\":{\"messages\":" SAID("user", "a") ",\"tools\":7},\"preferred_output\":" SAID(
             "assistant", "b") ",\"non_preferred_output\":" SAID("assistant", "c") "}",
         "input.tools"},
    };
    struct train_example row;
    struct api_error e;
    (void)state;
    assert_int_equal(
        read_pair("{\"input\":{\"messages\":" SAID(
                      "user", "a") "},"
                                   "\"preferred_output\":" SAID(
                                       "assistant",
                                       "b") ","
                                            "\"non_preferred_output\":" SAID("assistant", "c") "}",
                  &row, &e),
        0);
    assert_int_equal(row.kind, TRAIN_PREFERENCE);
    assert_true(row.n_shared == 1 && row.messages.l->n == 2 && row.other.l->n == 2);
    const struct jvalue *said = jv_dict_get(&row.other.l->at[1], "content");
    assert_true(said->s->len == 1 && *said->s->p == 'c');
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!read_pair(bad[i].line, &row, &e))
            fail_msg("taken: %s", bad[i].line);
        assert_string_equal(e.param, bad[i].param);
    }
}

static const char *said_at(const struct train_example *row, size_t i, const char *key)
{
    return jv_dict_get(&row->messages.l->at[i], key)->s->p;
}

/* Faults: a speaker with another role, an input that is left out, a text behind a prompt of its
 * own; a turn that is not understood, and dropped. */
static void dialects(void **state)
{
    static const struct {
        const char *line, *param;
    } bad[] = {
        {"{\"conversations\":[{\"from\":\"observation\",\"value\":\"a\"}]}", "conversations"},
        {"{\"conversations\":[{\"from\":\"gpt\",\"value\":7}]}", "conversations"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"}]}", "messages"},
        {"{\"conversations\":[]}", "messages"},
        {"{\"instruction\":7,\"output\":\"a\"}", "instruction"},
        {"{\"instruction\":\"a\",\"output\":[]}", "output"},
        {"{\"text\":7}", "text"}};
    struct train_example row;
    struct api_error e;
    (void)state;
    assert_int_equal(read_line("{\"conversations\":[{\"from\":\"system\",\"value\":\"s\"},"
                               "{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\","
                               "\"value\":\"a\"}],\"id\":\"7\"}",
                               &row, &e),
                     0);
    assert_true(row.kind == TRAIN_CHAT && row.messages.l->n == 3);
    assert_memory_equal(said_at(&row, 0, "role"), "system", 6);
    assert_memory_equal(said_at(&row, 1, "role"), "user", 4);
    assert_memory_equal(said_at(&row, 2, "role"), "assistant", 9);
    assert_memory_equal(said_at(&row, 2, "content"), "a", 1);
    assert_int_equal(
        read_line("{\"instruction\":\"Add.\",\"input\":\"1 2\",\"output\":\"3\"}", &row, &e), 0);
    assert_true(row.kind == TRAIN_CHAT && row.messages.l->n == 2);
    assert_memory_equal(said_at(&row, 0, "content"), "Add.\n\n1 2", 9);
    assert_memory_equal(said_at(&row, 1, "content"), "3", 1);
    assert_int_equal(read_line("{\"instruction\":\"Hi\",\"input\":\"\",\"output\":\"a\","
                               "\"system\":\"s\"}",
                               &row, &e),
                     0);
    assert_true(row.messages.l->n == 3);
    assert_memory_equal(said_at(&row, 1, "content"), "Hi", 2);
    assert_int_equal(read_line("{\"text\":\"all of it\"}", &row, &e), 0);
    assert_true(row.kind == TRAIN_TEXT && row.n_prompt == 0 && row.n_completion == 9);
    assert_int_equal(read_line("{\"prompt\":\"p\",\"completion\":\"c\",\"text\":\"pc\"}", &row, &e),
                     0);
    assert_true(row.n_prompt == 1 && row.n_completion == 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!read_line(bad[i].line, &row, &e))
            fail_msg("taken: %s", bad[i].line);
        assert_string_equal(e.param, bad[i].param);
    }
}

static void faults(void **state)
{
    static const struct {
        const char *line, *param, *words;
    } bad[] = {
        {"", "", ""},
        {"[]", "", ""},
        {"{\"messages\"", "", ""},
        {"{}", "", "prompt/completion pairs or chat messages"},
        {"{\"messages\":[]}", "messages", "1 to"},
        {"{\"messages\":{}}", "messages", "array"},
        {"{\"messages\":[{\"content\":\"x\"}]}", "messages[0].role", "is missing"},
        {"{\"messages\":[{\"role\":\"assistant\"}]}", "messages[0].content", "is missing"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "messages", "assistant"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"weight\":0.5}]}", "messages",
         "0 or 1"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"weight\":true}]}", "messages",
         "0 or 1"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"tools\":{}}", "tools",
         "array"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"functions\":1}", "functions",
         "array"},
        {"{\"prompt\":1,\"completion\":\"\"}", "prompt", "string"},
        {"{\"prompt\":\"\",\"completion\":[]}", "completion", "string"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"weight\":0}", "weight", "0.001"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"weight\":1001}", "weight", "1000"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"weight\":true}", "weight",
         "number"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"label\":true}", "label", "preferences"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"system\":\"Be brief\"}",
         "system", "whose role"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct train_example row;
        struct api_error e;
        if (read_line(bad[i].line, &row, &e) == 0 || strcmp(e.param, bad[i].param) != 0 ||
            !strstr(e.message, bad[i].words))
            fail_msg("%s: param '%s', %s", bad[i].line, e.param, e.message);
    }
}

static int read_judged(const char *line, struct train_example *row, struct train_said *said)
{
    const struct train_wants wants = {.has_verdicts = true};
    *said = (struct train_said){.unread = ""};
    return api_train_row(&own_arena, line, strlen(line), wants, row, said);
}

/* Faults: a label that is taken for the other, or dropped; a turn before the last that is judged.
 */
static void verdicts(void **state)
{
    static const struct {
        const char *label;
        bool is_undesirable;
    } good[] = {
        {"true", false}, {"\"desirable\"", false}, {"false", true}, {"\"undesirable\"", true}};
    static const struct {
        const char *line, *param, *words;
    } bad[] = {
        {"{\"prompt\":\"\",\"completion\":\"\"}", "label", "needed"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"label\":1}", "label", "true or false"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"label\":\"good\"}", "label", "desirable"},
        {"{\"prompt\":\"\",\"completion\":\"\",\"label\":true,\"weight\":2}", "weight", "alike"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"},"
         "{\"role\":\"user\",\"content\":\"x\"}],\"label\":true}",
         "messages", "end with"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"weight\":0}],\"label\":true}",
         "messages", "must not be 0"},
    };
    struct train_example row;
    struct train_said said;
    char line[512];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(line, sizeof line,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                 "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"},"
                 "{\"role\":\"assistant\",\"content\":\"d\"}],\"id\":1,\"label\":%s}",
                 good[i].label);
        assert_int_equal(read_judged(line, &row, &said), 0);
        assert_true(row.kind == TRAIN_CHAT && row.is_undesirable == good[i].is_undesirable);
        assert_true(row.n_weight == 4 && row.weight[1] == 0 && row.weight[3] == 1);
        assert_string_equal(said.unread, "id");
        snprintf(line, sizeof line, "{\"prompt\":\"a\",\"completion\":\"b\",\"label\":%s}",
                 good[i].label);
        assert_int_equal(read_judged(line, &row, &said), 0);
        assert_true(row.kind == TRAIN_TEXT && row.is_undesirable == good[i].is_undesirable);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_judged(bad[i].line, &row, &said) == 0 ||
            strcmp(said.error.param, bad[i].param) != 0 ||
            !strstr(said.error.message, bad[i].words))
            fail_msg("%s: param '%s', %s", bad[i].line, said.error.param, said.error.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(conversations, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(texts, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(preferences, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(dialects, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(completions, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(row_weights, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(teachers, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(teachers_refused, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(unread_members, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(verdicts, own_arena_new, own_arena_free),
        cmocka_unit_test_setup_teardown(faults, own_arena_new, own_arena_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
