/* SPDX-License-Identifier: Apache-2.0
 *
 * Training files as people make them, and as they break. Faults: a line end, a byte order mark or a
 * blank line that counts as a row or is part of one; a bad row that crashes, is taken, or is told
 * without its number and its field; a line without end that is read into memory; a row that is
 * rendered otherwise than a conversation that is served.
 */
#include "engine/train/train_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "api/train_row.h"
#include "engine/base/aside.h"
#include "engine/load/tokenizer_config.h"
#include "tests/lib/test.h"

static const char model_dir[] = "tests/golden/models/llama_tied";

struct world {
    struct tokenizer *tok;
    struct template *template;
    struct dataset data;
    struct train_file f;
    struct train_said said;
    struct err e;
    char *dir, *path;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct err e = ERR_INIT;
    w->dir = test_dir_new();
    w->path = malloc(strlen(w->dir) + 16);
    snprintf(w->path, strlen(w->dir) + 16, "%s/rows.jsonl", w->dir);
    w->tok = tokenizer_load(model_dir, &e);
    assert_good(w->tok ? 0 : -1, &e);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    dataset_release(&w->data);
    template_unref(w->template);
    tokenizer_free(w->tok);
    test_dir_free(w->dir);
    free(w->path);
    free(w);
    return 0;
}

static void use_template(struct world *w, const char *text)
{
    struct err e = ERR_INIT;
    template_unref(w->template);
    assert_good(template_compile(text, strlen(text), &w->template, &e), &e);
}

#define PLAIN                                                                                      \
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"                    \
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"

/* Reads n bytes as a file: what train_file_read says. */
static int read_bytes(struct world *w, const char *text, size_t n)
{
    struct err e = ERR_INIT;
    dataset_release(&w->data);
    dataset_init(&w->data, &(struct dataset_options){
                               .tokenizer = w->tok, .template = w->template, .max_tok = 64});
    w->e = (struct err)ERR_INIT;
    assert_good(aside_put(w->path, text, n, &e), &e);
    const struct train_reader r = {.fn = api_train_read, .ctx = &w->said};
    return train_file_read(train_file_open(w->path, &w->e), &r, &w->data, &w->f, &w->e);
}

static int read_text(struct world *w, const char *text)
{
    return read_bytes(w, text, strlen(text));
}

#define ROW "{\"prompt\":\"a\",\"completion\":\"b\"}"
#define CHAT                                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}"

static void ends_of_lines(void **state)
{
    static const struct {
        const char *text;
        int64_t n_example, n_line;
    } row[] = {{ROW, 1, 1},
               {ROW "\n", 1, 1},
               {ROW "\n" ROW, 2, 2},
               {ROW "\r\n" ROW "\r\n", 2, 2},
               {"\xef\xbb\xbf" ROW "\n" ROW, 2, 2},
               {"\xef\xbb\xbf\r\n" ROW, 1, 2},
               {"\n\n  \t\r\n" ROW "\n\n" ROW "\n\n", 2, 7},
               {"", 0, 0},
               {"\n", 0, 1},
               {"\xef\xbb\xbf", 0, 1}};
    struct world *w = *state;
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (read_text(w, row[i].text))
            fail_msg("case %zu: %s", i, w->e.msg);
        assert_int_equal(w->f.n_example, row[i].n_example);
        assert_int_equal(w->f.n_line, row[i].n_line);
        assert_int_equal(w->data.row.n, row[i].n_example);
        if (row[i].n_example == 1 && digest)
            assert_true(w->data.digest == digest); /* the same row, whatever stood around it */
        digest = row[i].n_example == 1 ? w->data.digest : digest;
    }
}

static void bad_rows(void **state)
{
    static const struct {
        const char *row, *word;
    } row[] = {
        {"{", "column 1"},
        {"{\"prompt\":\"a\",}", "column 15"},
        {"[]", "must be a JSON object"},
        {"null", "JSON"},
        {"7", "JSON"},
        {"\"messages\"", "JSON"},
        {"{}", "prompt/completion"},
        {"{\"messages\":null}", "messages"},
        {"{\"messages\":{}}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":[7]}", "messages"},
        {"{\"messages\":[{}]}", "role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"b\"}]}", "role"},
        {"{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "role"},
        {"{\"messages\":[{\"role\":7,\"content\":\"a\"}]}", "role"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":7}]}", "content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "assistant"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":2}]}", "weight"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0.5}]}", "weight"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":\"1\"}]}", "weight"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":{}}", "tools"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[7]}]}",
         "tool_calls"},
        {"{\"prompt\":\"a\"}", "prompt/completion"},
        {"{\"prompt\":7,\"completion\":\"a\"}", "prompt"},
        {"{\"prompt\":\"a\",\"completion\":null}", "completion"},
        {"{\"prompt\":\"a\",\"completion\":[\"a\"]}", "completion"},
        {"{\"prompt\":\"a\",\"prompt\":\"b\",\"completion\":\"a\"}", "twice"},
        {"{\"prompt\":\"\xff\xfe\",\"completion\":\"a\"}", "UTF-8"},
        {"{\"prompt\":\"\xed\xa0\x80\",\"completion\":\"a\"}", "UTF-8"},
        {"{\"prompt\":\"\\ud800\",\"completion\":\"a\"}", "JSON"},
        {"{\"prompt\":\"\\udc00\\ud800\",\"completion\":\"a\"}", "JSON"},
        {"{\"pro\\u0000mpt\":\"a\",\"completion\":\"a\"}", "NUL"},
        {"{\"prompt\":\"a\x01\",\"completion\":\"a\"}", "JSON"},
        {"{\"prompt\":NaN,\"completion\":\"a\"}", "JSON"},
        {"{\"prompt\":\"a\",\"completion\":\"b\"} " ROW, "behind its end"},
        {"{\"input\":{\"messages\":[]},\"preferred_output\":[],\"non_preferred_output\":[]}",
         "preference"},
    };
    struct world *w = *state;
    char text[1024];
    use_template(w, PLAIN);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(text, sizeof text, ROW "\n\r\n%s\r\n" CHAT "\n", row[i].row);
        if (!read_text(w, text))
            fail_msg("taken: %s", row[i].row);
        if (!strstr(w->e.msg, "Example 2 (line 3): ") || !strstr(w->e.msg, row[i].word))
            fail_msg("%s: %s", row[i].row, w->e.msg);
        assert_int_equal(w->f.fault,
                         strstr(row[i].word, "preference") ? TRAIN_FAULT_FORMAT : TRAIN_FAULT_ROW);
        assert_int_equal(w->e.code, ERR_BAD_INPUT);
    }
}

#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define CALLING                                                                                      \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null," \
    "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"cat\",\"arguments\":\"{}\"}}]}"

/* Faults: a call that the template does not show is trained as the text "None"; tools or what they
 * answered are dropped without a word; what the template does show is refused, or a list of no
 * calls. */
static void tools(void **state)
{
    static const char deaf[] = "{% for m in messages %}{% if m.role != 'tool' %}<|{{ m.role }}|>"
                               "{{ m.content }}<|end|>{% endif %}{% endfor %}";
    static const char hears[] = "{% for t in tools or [] %}<|{{ t.function.name }}|>{% endfor %}"
                                "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}"
                                "{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}"
                                "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
                                "{% if add_generation_prompt %}<|assistant|>{% endif %}";
    static const struct {
        const char *row, *word; /* of the refusal under a template without tools */
    } row[] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
         "\"content\":\"b\"}]," TOOLS "}",
         "'tools'"},
        {CALLING "]}", "'messages[1].tool_calls'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":"
         "\"7\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
         "'messages[1]'"},
    };
    struct world *w = *state;
    char text[1024];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(text, sizeof text, ROW "\n\n%s\n", row[i].row);
        use_template(w, deaf);
        assert_int_equal(read_text(w, text), -1);
        if (!strstr(w->e.msg, "Example 2 (line 3): ") || !strstr(w->e.msg, row[i].word) ||
            !strstr(w->e.msg, "chat template"))
            fail_msg("%s: %s", row[i].row, w->e.msg);
        assert_int_equal(w->f.fault, TRAIN_FAULT_ROW);
        use_template(w, hears);
        if (read_text(w, text))
            fail_msg("%s: %s", row[i].row, w->e.msg);
        assert_true(w->data.row.at[1].n_learn > 0);
    }
    use_template(w, deaf);
    assert_int_equal(read_text(w, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                                  "{\"role\":\"assistant\",\"content\":\"b\","
                                  "\"tool_calls\":[]}],\"tools\":[]}"),
                     0);
    use_template(w, hears);
    assert_int_equal(read_text(w, CALLING "]}"), 0);
    uint64_t bare = w->data.digest;
    assert_int_equal(read_text(w, CALLING "]," TOOLS "}"), 0);
    assert_true(w->data.digest != bare); /* the tools are in the row */
}

/* A NUL is text where JSON escapes it, and a fault where it stands bare. */
static void zeros(void **state)
{
    static const char bare[] = "{\"prompt\":\"a\0b\",\"completion\":\"a\"}";
    struct world *w = *state;
    assert_int_equal(read_text(w, "{\"prompt\":\"a\\u0000b\",\"completion\":\"\\u0000\"}"), 0);
    assert_int_equal(read_bytes(w, bare, sizeof bare - 1), -1);
    assert_non_null(strstr(w->e.msg, "Example 1: "));
    assert_int_equal(read_bytes(w, "\0\0\0\n", 4), -1);
    assert_non_null(strstr(w->e.msg, "Example 1: "));
}

static char *repeated(const char *head, const char *piece, size_t n, const char *tail)
{
    struct buf b;
    buf_init(&b, SIZE_MAX >> 1);
    buf_str(&b, head);
    for (size_t i = 0; i < n; i++)
        buf_str(&b, piece);
    buf_str(&b, tail);
    return buf_take(&b);
}

static void huge_rows(void **state)
{
    struct world *w = *state;
    char *deep = repeated("{\"messages\":", "[", 1000000, "");
    char *nested =
        repeated(ROW "\n{\"prompt\":\"a\",\"completion\":\"b\",\"x\":", "{\"a\":", 63, "7");
    char *wide = repeated("{\"messages\":[", "{},", 3 << 20, "{}]}");
    char *endless = repeated(ROW "\n{\"prompt\":\"", "0123456789abcdef", 3 << 20, "");
    char *large = repeated("{\"completion\":\"b\",\"prompt\":\"", "a b ", 10 << 18, "\"}");
    assert_int_equal(read_text(w, deep), -1);
    assert_non_null(strstr(w->e.msg, "Example 1: The row is nested too deep"));
    assert_int_equal(read_text(w, nested), -1);
    assert_non_null(strstr(w->e.msg, "Example 2: "));
    assert_int_equal(read_text(w, wide), -1);
    assert_non_null(strstr(w->e.msg, "too many values"));
    assert_int_equal(read_text(w, endless), -1);
    assert_non_null(strstr(w->e.msg, "Example 2: it has more than the"));
    assert_int_equal(read_text(w, large), 0); /* of 10 MB: cut, and counted */
    assert_true(w->data.n_cut == 1 && w->data.longest == 64);
    assert_int_equal(w->data.n_barren, 1); /* its completion was behind the cut */
    assert_true(w->data.n_tok_cut > 1 << 20);
    free(deep);
    free(nested);
    free(wide);
    free(endless);
    free(large);
}

/* What a template raises, or the limits that it runs into, are the row's fault. */
static void templates(void **state)
{
    static const struct {
        const char *text, *word;
    } row[] = {
        {"{{ raise_exception('Roles must alternate') }}", "Roles must alternate"},
        {"{% if messages[0].role != 'system' %}{{ raise_exception('No system') }}{% endif %}",
         "No system"},
        {"{{ messages[5].content }}", "no element 5"},
        {"{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", ""},
        {"{% set ns = namespace(s='x' * 1000) %}{% for a in range(99999) %}"
         "{% set ns.s = ns.s + ns.s %}{% endfor %}",
         ""},
    };
    struct world *w = *state;
    assert_int_equal(read_text(w, ROW "\n" CHAT "\n"), -1); /* no template */
    assert_non_null(strstr(w->e.msg, "Example 2: the model has no chat template"));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        use_template(w, row[i].text);
        assert_int_equal(read_text(w, ROW "\n" CHAT "\n"), -1);
        if (!strstr(w->e.msg, "Example 2: ") || !strstr(w->e.msg, row[i].word))
            fail_msg("%s: %s", row[i].text, w->e.msg);
    }
}

/* A developer speaks as such where the template knows the role, as in serving. */
static void developer(void **state)
{
    static const char row[] = "{\"messages\":[{\"role\":\"%s\",\"content\":\"a\"},"
                              "{\"role\":\"assistant\",\"content\":\"b\"}]}";
    static const char knows[] = "{% if messages[0].role == 'developer' %}1{% endif %}" PLAIN;
    struct world *w = *state;
    char text[256];
    for (int i = 0; i < 2; i++) {
        uint64_t digest[2];
        use_template(w, i ? knows : PLAIN);
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, row, k ? "developer" : "system");
            assert_int_equal(read_text(w, text), 0);
            digest[k] = w->data.digest;
        }
        assert_true((digest[0] != digest[1]) == i);
    }
}

static void no_tokenizer(void **state)
{
    struct world *w = *state;
    use_template(w, PLAIN);
    tokenizer_free(w->tok);
    w->tok = NULL;
    assert_int_equal(read_text(w, ROW), -1);
    assert_non_null(strstr(w->e.msg, "no tokenizer"));
    assert_int_equal(read_text(w, CHAT), -1);
    assert_non_null(strstr(w->e.msg, "no tokenizer"));
}

static void one_line(void **state)
{
    struct world *w = *state;
    struct buf b;
    use_template(w, PLAIN);
    assert_int_equal(read_text(w, ROW "\n\n" CHAT "\r\n" ROW), 0);
    buf_init(&b, 1 << 20);
    assert_int_equal(train_file_line(train_file_open(w->path, &w->e), 2, 4096, &b, &w->f, &w->e),
                     0);
    assert_string_equal(b.data, CHAT);
    assert_int_equal(train_file_line(train_file_open(w->path, &w->e), 2, 20, &b, &w->f, &w->e), -1);
    assert_non_null(strstr(w->e.msg, "Example 2 (line 3): it has more than the 20 bytes"));
    assert_int_equal(train_file_line(train_file_open(w->path, &w->e), 4, 4096, &b, &w->f, &w->e),
                     -1);
    assert_true(w->f.n_example == 3 && w->f.fault == TRAIN_FAULT_NONE);
    assert_int_equal(train_file_line(train_file_open("/nowhere", &w->e), 1, 4096, &b, &w->f, &w->e),
                     -1);
    assert_int_equal(w->e.code, ERR_NOT_FOUND);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_of_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(tools, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(huge_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(templates, setup, teardown),
        cmocka_unit_test_setup_teardown(developer, setup, teardown),
        cmocka_unit_test_setup_teardown(no_tokenizer, setup, teardown),
        cmocka_unit_test_setup_teardown(one_line, setup, teardown),
    };
    api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
