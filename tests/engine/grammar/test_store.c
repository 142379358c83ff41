/* SPDX-License-Identifier: Apache-2.0
 *
 * Constraints kept by their content: found again, bounded, and each tenant in its own share.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/grammar/store.h"
#include "tests/engine/token/fixture.h"

static struct masks *masks_for(struct token_trie *trie, const char *text)
{
    struct err e = ERR_INIT;
    struct grammar *g = grammar_regex(text, strlen(text), NULL, &e);
    assert_non_null(g);
    struct masks *m = masks_new(g, trie, 64 << 10);
    grammar_unref(g);
    return m;
}

static void add(struct grammar_store *s, struct token_trie *trie, uint64_t tenant, const char *text)
{
    struct masks *m = masks_for(trie, text);
    grammar_store_add(s, tenant, text, strlen(text), m);
    masks_unref(m);
}

static bool has(struct grammar_store *s, uint64_t tenant, const char *text)
{
    struct masks *m = grammar_store_get(s, tenant, text, strlen(text));
    masks_unref(m);
    return m != NULL;
}

/* Faults: one tenant's key found by another; memory without end; the wrong one dropped; another
 * tenant's entries pushed out by many of one. */
static void test_store(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct tokenizer *t = golden_tokenizer("gpt2");
    struct token_trie *trie = token_trie_new(t, tokenizer_size(t), &e);
    struct grammar_store *s = grammar_store_new(64 << 10, 32 << 10);
    char text[64];
    add(s, trie, 1, "[a-z]+");
    add(s, trie, 1, "[a-z]+");
    assert_true(has(s, 1, "[a-z]+"));
    assert_false(has(s, 2, "[a-z]+"));
    assert_false(has(s, 1, "[a-z]*"));
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof text, "(a|b){%d}x%d", i % 20 + 1, i);
        add(s, trie, 2, text);
        assert_true(grammar_store_bytes(s) <= 64 << 10);
    }
    assert_true(has(s, 2, text));
    assert_false(has(s, 2, "(a|b){1}x0"));
    assert_true(has(s, 1, "[a-z]+")); /* older than all of them */
    struct masks *held = grammar_store_get(s, 1, "[a-z]+", 6);
    grammar_store_free(s);
    struct matcher *m = matcher_new(held, 0);
    assert_good(matcher_accept_bytes(m, "abc", 3, &e), &e);
    matcher_free(m);
    masks_unref(held);
    token_trie_unref(trie);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
