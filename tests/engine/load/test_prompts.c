/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts of a model of vectors, as config_sentence_transformers.json has them.
 */
#include "engine/load/prompts.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static int read(const char *dir, const char *text, struct prompts *p, struct err *e)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config_sentence_transformers.json", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return prompts_init(p, dir, e);
}

/* Faults: a prompt under another's name; one that holds though nobody named it. */
static void by_name(void **state)
{
    char *dir = test_dir_new();
    struct prompts p;
    struct err e = ERR_INIT;
    (void)state;
    assert_good(prompts_init(&p, dir, &e), &e);
    assert_string_equal(prompts_find(&p, NULL), "");
    assert_null(prompts_find(&p, "query"));
    prompts_release(&p);
    assert_good(read(dir,
                     "{\"prompts\":{\"query\":\"q: \",\"document\":\"\"},"
                     "\"default_prompt_name\":null,\"similarity_fn_name\":\"cosine\"}",
                     &p, &e),
                &e);
    assert_string_equal(prompts_find(&p, NULL), "");
    assert_string_equal(prompts_find(&p, "query"), "q: ");
    assert_string_equal(prompts_find(&p, "document"), "");
    assert_null(prompts_find(&p, "other"));
    prompts_release(&p);
    assert_good(
        read(dir, "{\"prompts\":{\"query\":\"q: \"},\"default_prompt_name\":\"query\"}", &p, &e),
        &e);
    assert_string_equal(prompts_find(&p, NULL), "q: ");
    prompts_release(&p);
    test_dir_free(dir);
}

static void what_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"[]", "config_sentence_transformers.json"},
        {"{\"prompts\":[]}", "prompts"},
        {"{\"prompts\":{\"query\":1}}", "prompts.query"},
        {"{\"prompts\":{},\"default_prompt_name\":\"query\"}", "'query' is none of the prompts"},
        {"{\"default_prompt_name\":1}", "default_prompt_name"}};
    char *dir = test_dir_new();
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct prompts p;
        struct err e = ERR_INIT;
        assert_int_equal(read(dir, row[i][0], &p, &e), -1);
        if (!strstr(e.msg, row[i][1]))
            fail_msg("%s: %s", row[i][0], e.msg);
        prompts_release(&p);
    }
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
