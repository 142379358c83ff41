/* SPDX-License-Identifier: Apache-2.0
 *
 * The published texts and ids of real tokenizers (test data outside the tree; absent: said and
 * skipped). Catches any departure from the reference in what real files use: alphabets, splits,
 * merges, normalizers, special tokens, templates, decoders.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/load/json.h"
#include "engine/token/tokenizer.h"
#include "tests/lib/test.h"

static const char *const names[] = {"bert-base-uncased", "cl100k_base",  "gpt2",  "llama2",
                                    "llama3.2",          "mistral-v0.3", "phi-3", "starcoder"};

static const char *data_dir(void)
{
    const char *dir = getenv("TANDEM_TEST_DATA");
    return dir ? dir : "../shared/data";
}

static bool same_ids(const struct json *want, const struct tok_list *got)
{
    struct json v;
    size_t i = 0;
    json_each(v, *want)
    {
        int64_t id = -1;
        if (i == got->n || json_as_int(&v, 0, INT32_MAX, &id, NULL) || id != got->id[i])
            return false;
        i++;
    }
    return i == got->n;
}

/* What the reference's users see is its decoder's text with some spaces removed afterwards, for
 * tokenizers that ask for it; here that is not done. */
static void clean_up(char *s)
{
    static const char *const gone[] = {" .",  " ?",  " !",   " ,",  " n't",
                                       " 'm", " 's", " 've", " 're"};
    char *at;
    while ((at = strstr(s, " ' ")))
        at[0] = '\'', memmove(at + 1, at + 3, strlen(at + 3) + 1);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        while ((at = strstr(s, gone[i])))
            memmove(at, at + 1, strlen(at));
}

static bool same_text(const struct tokenizer *t, const struct tok_list *ids, bool skip,
                      const char *want, size_t len)
{
    struct buf out;
    struct err e = ERR_INIT;
    buf_init(&out, 1 << 20);
    assert_good(tokenizer_decode(t, ids->id, ids->n, skip, &out, &e), &e);
    char *got = out.data ? out.data : (char[]){""};
    bool same = out.len == len && !memcmp(got, want, len);
    if (!same) {
        clean_up(got);
        same = !strcmp(got, want);
    }
    buf_release(&out);
    return same;
}

static void check_vector(const struct tokenizer *t, const struct json *v)
{
    struct tok_list out;
    struct err e = ERR_INIT;
    struct json text, ids, decoded = json_member(v, "decoded");
    const char *s;
    size_t len;
    bool add_special;
    assert_good(json_get(v, "text", JSON_STRING, &text, &e), &e);
    assert_good(json_as_bytes(&text, &s, &len, &e), &e);
    assert_good(json_get(v, "ids", JSON_ARRAY, &ids, &e), &e);
    assert_good(json_get_bool(v, "add_special", &add_special, &e), &e);
    tok_list_init(&out, 1 << 20, false);
    assert_good(tokenizer_encode(t, s, len, true, add_special, &out, &e), &e);
    if (!same_ids(&ids, &out))
        fail_msg("wrong ids for \"%s\"", s);
    if (json_is(&decoded, JSON_STRING)) {
        assert_good(json_as_bytes(&decoded, &s, &len, &e), &e);
        if (!same_text(t, &out, false, s, len) && !same_text(t, &out, true, s, len))
            fail_msg("wrong text for the ids of \"%s\"", s);
    }
    tok_list_release(&out);
}

static size_t check_tokenizer(const char *name)
{
    char path[4096];
    struct err e = ERR_INIT;
    struct json v;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/tokenizers/%s", data_dir(), name);
    struct tokenizer *t = tokenizer_load(path, &e);
    if (!t)
        fail_msg("%s", e.msg);
    snprintf(path, sizeof path, "%s/tokenizers/%s/vectors.json", data_dir(), name);
    struct json_doc *doc = json_read(path, "vectors.json", &json_rules_tokenizer, &e);
    if (!doc)
        fail_msg("%s", e.msg);
    struct json root = json_root(doc);
    json_each(v, root)
    {
        check_vector(t, &v);
        n++;
    }
    json_free(doc);
    tokenizer_free(t);
    return n;
}

static void real_tokenizers_give_their_published_ids(void **state)
{
    (void)state;
    size_t n = 0;
    if (access(data_dir(), R_OK) != 0) {
        print_message("%s is absent: the published vectors are not checked\n", data_dir());
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        n += check_tokenizer(names[i]);
    print_message("%zu vectors\n", n);
    assert_int_equal(n, 591);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_tokenizers_give_their_published_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
