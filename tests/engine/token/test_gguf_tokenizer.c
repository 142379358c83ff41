/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers of GGUF files' metadata against the tokenizer.json that they were made of, on odd
 * texts, and metadata that is not understood.
 */
#include "engine/load/gguf_tokenizer.h"

#include "engine/export/gguf_writer.h"
#include "tests/engine/token/fixture.h"

/* What a file's metadata cannot say of its added tokens: the white space that they take. */
static void make_plain(char *json)
{
    static const char *const flag[] = {
        "\"lstrip\":", "\"rstrip\":", "\"single_word\":", "\"normalized\":"};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        for (char *p = json; (p = strstr(p, flag[i]));) {
            p += strlen(flag[i]);
            p += *p == ' ';
            if (!memcmp(p, "true", 4))
                memcpy(p, "null", 4);
        }
}

static struct tokenizer *plain_tokenizer(const char *kind)
{
    char path[256];
    static char json[1 << 20];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, GOLDEN "%s.json", kind);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(json, 1, sizeof json - 1, f);
    fclose(f);
    json[n] = 0;
    make_plain(json);
    struct tokenizer *t = tokenizer_parse(json, n, &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

static struct tokenizer *gguf_tokenizer(const char *kind)
{
    char path[256];
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, "tests/golden/gguf/tok_%s.gguf", kind);
    struct tokenizer *t = tokenizer_load(path, &e);
    if (!t)
        fail_msg("%s: %s", path, e.msg);
    return t;
}

static void expect_decoded(const struct tokenizer *a, const struct tokenizer *b,
                           const struct tok_list *l)
{
    struct buf x, y;
    struct err e = ERR_INIT;
    buf_init(&x, 1 << 20);
    buf_init(&y, 1 << 20);
    assert_good(tokenizer_decode(a, l->id, l->n, false, &x, &e), &e);
    assert_good(tokenizer_decode(b, l->id, l->n, false, &y, &e), &e);
    assert_int_equal(x.len, y.len);
    if (x.len)
        assert_memory_equal(x.data, y.data, x.len);
    buf_release(&x);
    buf_release(&y);
}

static void expect_same(const struct tokenizer *a, const struct tokenizer *b, const char *text,
                        size_t len, const char *kind)
{
    for (int trusted = 0; trusted < 2; trusted++) {
        struct tok_list x, y;
        struct err e = ERR_INIT;
        tok_list_init(&x, 1 << 20, false);
        tok_list_init(&y, 1 << 20, false);
        assert_good(tokenizer_encode(a, text, len, trusted, true, &x, &e), &e);
        assert_good(tokenizer_encode(b, text, len, trusted, true, &y, &e), &e);
        if (x.n != y.n || (x.n && memcmp(x.id, y.id, x.n * sizeof *x.id) != 0))
            fail_msg("%s: other ids for (%.80s)", kind, text);
        expect_decoded(a, b, &x);
        tok_list_release(&x);
        tok_list_release(&y);
    }
}

/* Fault: another cut, another merge, a special token that is none, a beginning that is not added.
 */
static void metadata_gives_the_same_ids(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2", "llama3", "qwen2", "llama2"};
    struct json_doc *doc = golden_read("texts.json");
    struct json root = json_root(doc), v;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct tokenizer *a = plain_tokenizer(kinds[i]), *b = gguf_tokenizer(kinds[i]);
        assert_int_equal(tokenizer_size(a), tokenizer_size(b));
        json_each(v, root)
        {
            struct err e = ERR_INIT;
            const char *p;
            size_t len;
            assert_good(json_as_bytes(&v, &p, &len, &e), &e);
            expect_same(a, b, p, len, kinds[i]);
        }
        tokenizer_free(a);
        tokenizer_free(b);
    }
    json_free(doc);
}

/* Fault: templates with names of their own that are not read, or refused. */
static void templates_have_names(void **state)
{
    char *dir = test_dir_new();
    const char *path = test_path(dir, "x.gguf");
    const int64_t dim[1] = {1};
    const float one = 1;
    struct err e = ERR_INIT;
    struct buf text;
    (void)state;
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_STRING, 2);
    gguf_writer_put_str(w, "a", 1);
    gguf_writer_put_str(w, "aa", 2);
    gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_writer_put_str(w, "a a", 3);
    gguf_writer_str(w, "tokenizer.chat_template", "plain");
    gguf_writer_array(w, "tokenizer.chat_templates", GGUF_STRING, 1);
    gguf_writer_put_str(w, "tool_use", 8);
    gguf_writer_str(w, "tokenizer.chat_template.tool_use", "with tools");
    gguf_writer_add(w, "one", 0, 1, dim);
    assert_good(gguf_writer_open(w, path, &e), &e);
    assert_good(gguf_writer_write(w, &one, sizeof one, &e), &e);
    assert_good(gguf_writer_commit(w, &e), &e);
    gguf_writer_free(w);
    struct gguf *g = gguf_open(path, &e);
    assert_good(g ? 0 : -1, &e);
    buf_init(&text, 1 << 16);
    assert_good(gguf_tokenizer_config_text(g, &text, &e), &e);
    assert_non_null(strstr(text.data,
                           "\"chat_template\":[{\"name\":\"default\",\"template\":\"plain\"},"
                           "{\"name\":\"tool_use\",\"template\":\"with tools\"}]"));
    buf_release(&text);
    gguf_close(g);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(metadata_gives_the_same_ids),
                                       cmocka_unit_test(templates_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
