/* SPDX-License-Identifier: Apache-2.0
 *
 * clients/hub/spec.h: names that people give, and names that become paths.
 */
#include "clients/hub/spec.h"

#include <stdlib.h>

#include "clients/hub/pull.h"
#include "tests/lib/test.h"

static void expect(const char *text, const char *repo, const char *rev, const char *what)
{
    struct hub_spec s;
    struct err e = ERR_INIT;
    assert_true(hub_spec_is_like(text));
    assert_good(hub_spec_parse(&s, text, &e), &e);
    assert_string_equal(s.repo, repo);
    assert_string_equal(s.rev, rev);
    if (what)
        assert_string_equal(s.what, what);
    else
        assert_null(s.what);
    hub_spec_release(&s);
}

static void names_have_their_parts(void **state)
{
    (void)state;
    expect("org/name", "org/name", "main", NULL);
    expect("Org_1/na.me-2@v1.0", "Org_1/na.me-2", "v1.0", NULL);
    expect("a/b:Q4_K_M", "a/b", "main", "Q4_K_M");
    expect("a/b@refs/pr/7:sub/x y.gguf", "a/b", "refs/pr/7", "sub/x y.gguf");
}

/* Fault: a word becomes a path that leads elsewhere, or an address that says more. */
static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const text[] = {
        "",       "a",        "/b",         "a/",         "a/b/c",     "../b",       "a/..",
        "./b",    "-a/b",     "a--b/c",     "a/b..c",     "a b/c",     "a/b?x",      "a/b#x",
        "a/b%2f", "a/b@",     "a/b@../x",   "a/b@x/../y", "a/b@x y",   "a/b:",       "a/b:../x",
        "a/b:/x", "a/b:x//y", "a/b:x\\\\y", "a/b:x\ny",   "a/b:..x/y", "a\xc3\xa9/b"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct hub_spec s;
        struct err e = ERR_INIT;
        if (hub_spec_parse(&s, text[i], &e) == 0)
            fail_msg("taken: %s", text[i]);
        assert_int_equal(e.code, ERR_BAD_INPUT);
        hub_spec_release(&s);
    }
}

static void paths_lead_below(void **state)
{
    (void)state;
    assert_true(hub_path_is_safe("a"));
    assert_true(hub_path_is_safe("a/.b/c...d"));
    assert_false(hub_path_is_safe("a/b/.."));
    assert_false(hub_path_is_safe("a/./b"));
    assert_false(hub_path_is_safe("a/"));
    assert_false(hub_path_is_safe("/a"));
    assert_false(hub_path_is_safe("a\x7f"));
}

static void expect_name(const char *path, const char *want)
{
    char *name = hub_name_of(path);
    if (want)
        assert_string_equal(name, want);
    else
        assert_null(name);
    free(name);
}

/* Faults: a model is served under no name at all, or under a part of its path. */
static void paths_of_a_cache_have_names(void **state)
{
    (void)state;
    expect_name("/c/models--org--tiny/snapshots/1f/m.gguf", "tiny");
    expect_name("/c/models--org--a--b/snapshots/1f", "a--b");
    expect_name("/c/models--org--/snapshots/1f", NULL);
    expect_name("/c/models--org/snapshots/1--f", NULL);
    expect_name("/c/models--org--tiny", NULL);
    expect_name("/models/tiny", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_their_parts),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(paths_lead_below),
        cmocka_unit_test(paths_of_a_cache_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
