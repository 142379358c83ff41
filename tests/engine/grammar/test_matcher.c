/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks against the constraint itself, token by token, for tokenizers of every kind; going back;
 * what is kept and for how long.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/grammar/masks.h"
#include "tests/engine/grammar/run.h"
#include "tests/engine/token/fixture.h"

static struct grammar *regex(const char *text)
{
    struct err e = ERR_INIT;
    struct grammar *g = grammar_regex(text, strlen(text), NULL, &e);
    if (!g)
        fail_msg("%s: %s", text, e.msg);
    return g;
}

static struct token_trie *trie_of(const struct tokenizer *t)
{
    struct err e = ERR_INIT;
    struct token_trie *trie = token_trie_new(t, tokenizer_size(t) + 3, &e);
    if (!trie)
        fail_msg("%s", e.msg);
    return trie;
}

/* What may come next, found by reading each token's bytes. */
static void mask_by_reading(const struct tokenizer *t, const struct token_trie *trie,
                            const struct grammar *g, const struct buf *text, uint32_t *bits)
{
    struct stack s;
    struct place_set here = {0}, start_set = {0}, next = {0};
    struct place start = {g->start, STACK_BOTTOM};
    stack_init(&s, g);
    stack_close(&s, &start, 1, &start_set);
    for (size_t i = 0; i < text->len; i++) {
        stack_step(&s, &start_set, (uint8_t)text->data[i], &next);
        place_set_copy(&start_set, &next);
    }
    memset(bits, 0, (trie->n_id + 31) / 32 * sizeof *bits);
    for (size_t id = 0; id < tokenizer_size(t); id++) {
        size_t len, i = 0;
        const char *p = token_trie_bytes(trie, (int32_t)id, &len);
        place_set_copy(&here, &start_set);
        for (; i < len && here.place.n; i++) {
            stack_step(&s, &here, (uint8_t)p[i], &next);
            place_set_copy(&here, &next);
        }
        if (len && i == len && (here.place.n || here.ends))
            bits[id / 32] |= 1u << id % 32;
    }
    place_set_release(&here);
    place_set_release(&start_set);
    place_set_release(&next);
    stack_release(&s);
}

static int32_t any_allowed(const uint32_t *bits, size_t n_word, uint64_t *seed)
{
    size_t n_bit = n_word * 32, from = rnd(seed, (uint32_t)n_bit);
    for (size_t i = 0; i < n_bit; i++) {
        size_t at = (from + i) % n_bit;
        if (bits[at / 32] >> at % 32 & 1)
            return (int32_t)at;
    }
    return -1;
}

/* One text, its mask checked at each token. */
static void follow(const struct tokenizer *t, struct masks *masks, uint64_t *seed)
{
    const struct token_trie *trie = masks->t;
    size_t n_word = masks_words(masks);
    uint32_t *bits = calloc(n_word, 4), *want = calloc(n_word, 4);
    struct matcher *m = matcher_new(masks, 4);
    struct buf text;
    struct err e = ERR_INIT;
    buf_init(&text, 1 << 20);
    for (int step = 0; step < 25; step++) {
        int32_t only, id;
        if (matcher_must_end(m) || (matcher_may_end(m) && rnd(seed, 4) == 0))
            break;
        if (matcher_mask(m, bits, &only, &e)) { /* words that the tokens cannot spell */
            assert_int_equal(e.code, ERR_UNSUPPORTED);
            break;
        }
        mask_by_reading(t, trie, masks->g, &text, want);
        assert_memory_equal(bits, want, n_word * 4);
        id = any_allowed(bits, n_word, seed);
        if (only >= 0)
            assert_int_equal(only, id);
        assert_false(tokenizer_is_special(t, id));
        assert_good(matcher_accept(m, id, &e), &e);
        size_t len;
        const char *p = token_trie_bytes(trie, id, &len);
        buf_add(&text, p, len);
    }
    buf_release(&text);
    matcher_free(m);
    free(bits);
    free(want);
}

static const char *const constraint[] = {
    "[a-z]{3,40} \\d+",
    "(?s:.{0,300})end",
    "\\p{L}+( \\p{L}+)*\xe2\x82\xac",
    "(yes|no|maybe so)(, (yes|no))*",
    "[^\\x{80}-\\x{10ffff}]*\xf0\x9f\x98\x80?",
    "((a|b)c?){2,5}|(\xc3\xa9|e){9,20}x",
};

/* Faults: a branch left out that could match, one taken that cannot, a token that ends inside a
 * character, a special token, a count that is clamped too early, a mask kept for another place. */
static void test_masks_are_exact(void **state)
{
    (void)state;
    static const char *const kind[] = {"gpt2",      "llama2",  "qwen2", "gemma", "bert",
                                       "metaspace", "mistral", "o200k", "words", "added"};
    uint64_t seed = 88172645463325252u;
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        struct tokenizer *t = golden_tokenizer(kind[k]);
        struct token_trie *trie = trie_of(t);
        for (size_t c = 0; c < sizeof constraint / sizeof *constraint; c++) {
            struct grammar *g = regex(constraint[c]);
            struct masks *m = masks_new(g, trie, c % 2 ? 4 << 10 : 4 << 20);
            grammar_unref(g);
            for (int i = 0; i < 12; i++)
                follow(t, m, &seed);
            masks_unref(m);
        }
        token_trie_unref(trie);
        tokenizer_free(t);
    }
}

struct world {
    struct tokenizer *t;
    struct token_trie *trie;
    struct masks *m;
};

static struct world world_of(const char *kind, const char *text, size_t max_bytes)
{
    struct world w = {.t = golden_tokenizer(kind)};
    struct grammar *g = regex(text);
    w.trie = trie_of(w.t);
    w.m = masks_new(g, w.trie, max_bytes);
    grammar_unref(g);
    return w;
}

static void world_end(struct world *w)
{
    masks_unref(w->m);
    token_trie_unref(w->trie);
    tokenizer_free(w->t);
}

static void accept(struct matcher *m, const char *text)
{
    struct err e = ERR_INIT;
    assert_good(matcher_accept_bytes(m, text, strlen(text), &e), &e);
}

static void check_same_mask(struct matcher *x, struct matcher *y, size_t n_word)
{
    struct err e = ERR_INIT, e2 = ERR_INIT;
    uint32_t *a = calloc(n_word, 4), *b = calloc(n_word, 4);
    int32_t only;
    assert_int_equal(matcher_mask(x, a, &only, &e), matcher_mask(y, b, &only, &e2));
    assert_memory_equal(a, b, n_word * 4);
    assert_int_equal(matcher_may_end(x), matcher_may_end(y));
    free(a);
    free(b);
}

/* Faults: a frame that was cut and is still found, a set of the wrong place, a refused token that
 * moved something. */
static void test_going_back(void **state)
{
    (void)state;
    struct world w = world_of("gpt2", "(?:([a-f]{0,9}|[e-k]{2,})(-[x-z]{1,12})?;)*", 1 << 20);
    static const char letter[] = "aefkx-;z";
    struct matcher *m = matcher_new(w.m, 16);
    struct buf text;
    struct err e = ERR_INIT;
    uint64_t seed = 362436069;
    char refused[] = "!";
    buf_init(&text, 1 << 20);
    for (int round = 0; round < 20000; round++) {
        if (rnd(&seed, 16) == 0 && text.len > 0) {
            size_t n = rnd(&seed, text.len < 16 ? (uint32_t)text.len + 1 : 17);
            if (matcher_back(m, matcher_place(m) - n, &e) == 0)
                text.len -= n;
        }
        char c = letter[rnd(&seed, sizeof letter - 1)];
        if (matcher_accept_bytes(m, &c, 1, &e) == 0)
            buf_char(&text, c);
        assert_err(matcher_accept_bytes(m, refused, 1, &e), &e, ERR_BAD_INPUT, "match");
        assert_int_equal(matcher_place(m), text.len);
        if (round % 100 == 0) {
            struct matcher *fresh = matcher_new(w.m, 0), *copy = matcher_copy(m);
            for (size_t i = 0; i < text.len; i++)
                assert_good(matcher_accept_bytes(fresh, text.data + i, 1, &e), &e);
            check_same_mask(m, fresh, masks_words(w.m));
            check_same_mask(copy, fresh, masks_words(w.m));
            matcher_free(fresh);
            matcher_free(copy);
        }
    }
    assert_true(matcher_place(m) > 100);
    assert_err(matcher_back(m, 0, &e), &e, ERR_BAD_INPUT, "place");
    assert_err(matcher_back(m, matcher_place(m) + 1, &e), &e, ERR_BAD_INPUT, "place");
    buf_release(&text);
    matcher_free(m);
    world_end(&w);
}

/* Faults: frames that are never dropped; dropped ones that a set still stands on. */
static void test_long_counts(void **state)
{
    (void)state;
    struct world w = world_of("gpt2", "(?:[ab]{30000}|[ac]{20000}){0,2}z", 1 << 20);
    struct matcher *m = matcher_new(w.m, 8);
    struct err e = ERR_INIT;
    for (int i = 0; i < 30000; i++)
        accept(m, "a");
    accept(m, "b");
    accept(m, "bbb");
    assert_good(matcher_back(m, matcher_place(m) - 1, &e), &e);
    accept(m, "bb");
    for (int i = 0; i < 29997; i++)
        accept(m, "b");
    accept(m, "z");
    assert_true(matcher_must_end(m));
    matcher_free(m);
    world_end(&w);
}

static void test_forced(void **state)
{
    (void)state;
    struct world w = world_of("gpt2", "\\{\"name\": (true|tree)\\}\xc3\xa9?", 1 << 20);
    struct matcher *m = matcher_new(w.m, 8);
    struct err e = ERR_INIT;
    char out[64];
    assert_int_equal(matcher_forced(m, out, sizeof out), 11);
    assert_memory_equal(out, "{\"name\": tr", 11);
    assert_int_equal(matcher_forced(m, out, 3), 3);
    accept(m, "{\"name\": tre");
    assert_int_equal(matcher_forced(m, out, sizeof out), 2);
    assert_memory_equal(out, "e}", 2);
    accept(m, "e}");
    assert_int_equal(matcher_forced(m, out, sizeof out), 0);
    assert_true(matcher_may_end(m) && !matcher_must_end(m));
    accept(m, "\xc3");
    assert_false(matcher_may_end(m));
    assert_err(matcher_accept(m, -1, &e), &e, ERR_BAD_INPUT, "no text");
    assert_err(matcher_accept(m, 1 << 30, &e), &e, ERR_BAD_INPUT, "no text");
    matcher_free(m);
    world_end(&w);
}

/* Faults: masks kept without end; one dropped while it is in use. */
static void test_kept_masks_are_bounded(void **state)
{
    (void)state;
    struct world w = world_of("gpt2", "([a-z]{1,200}[0-9]{1,200}){1,200}", 20 << 10);
    struct matcher *m = matcher_new(w.m, 0);
    uint32_t *bits = calloc(masks_words(w.m), 4);
    uint64_t seed = 5;
    for (int i = 0; i < 300; i++) {
        struct err e = ERR_INIT;
        int32_t only;
        assert_good(matcher_mask(m, bits, &only, &e), &e);
        assert_good(matcher_accept(m, any_allowed(bits, masks_words(w.m), &seed), &e), &e);
        assert_true(masks_bytes(w.m) <= 20 << 10);
    }
    masks_warm(w.m, 100);
    assert_true(masks_bytes(w.m) <= 20 << 10);
    free(bits);
    matcher_free(m);
    world_end(&w);
}

/* Faults: so many readings that a mask takes for ever, or memory without end. */
static void test_ambiguous(void **state)
{
    (void)state;
    struct world w = world_of("gpt2", "(?:(?:(?:a|b|ab)?){50}(?:a|ba)?){15}", 1 << 20);
    struct matcher *m = matcher_new(w.m, 0);
    uint32_t *bits = calloc(masks_words(w.m), 4);
    int32_t only;
    for (int i = 0; i < (test_is_slow() ? 10 : 300); i++) {
        struct err e = ERR_INIT;
        if (matcher_mask(m, bits, &only, &e) || matcher_accept_bytes(m, "ab", 2, &e)) {
            printf("%d %s\n", i, e.msg);
            assert_int_equal(e.code, ERR_TOO_LARGE);
            break;
        }
    }
    free(bits);
    matcher_free(m);
    world_end(&w);
}

/* Fault: a constraint whose ways cannot even be begun is found out by its first request's mask. */
static void test_too_ambiguous_to_begin(void **state)
{
    (void)state;
    static const char text[] = "(?:(?:(?:a|b|ab)?){90}(?:a|ba)?){90}";
    struct err e = ERR_INIT;
    assert_null(grammar_regex(text, sizeof text - 1, NULL, &e));
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_non_null(strstr(e.msg, "too many ways"));
}

/* What it costs with a vocabulary of 100,000 and more, where test data is there. */
static void test_speed(void **state)
{
    (void)state;
    const char *data = getenv("TANDEM_TEST_DATA");
    char dir[512];
    struct err e = ERR_INIT;
    snprintf(dir, sizeof dir, "%s/tokenizers/llama3.2", data ? data : "../shared/data");
    struct tokenizer *t = tokenizer_load(dir, &e);
    if (!t) {
        printf("no speed: %s\n", e.msg);
        skip();
    }
    int64_t t0 = clock_us();
    struct token_trie *trie = trie_of(t);
    printf("%u tokens, %u nodes, trie made in %.0f ms\n", trie->n_token, trie->n_node,
           (double)(clock_us() - t0) / 1e3);
    for (size_t c = 0; c < sizeof constraint / sizeof *constraint; c++) {
        struct grammar *g = regex(constraint[c]);
        struct masks *masks = masks_new(g, trie, 64 << 20);
        uint32_t *bits = calloc(masks_words(masks), 4);
        uint64_t seed = 7;
        for (int round = 0; round < 2; round++) {
            int64_t spent = 0, worst = 0;
            int n = 0;
            for (int text = 0; text < 20; text++) {
                struct matcher *m = matcher_new(masks, 8);
                for (int i = 0; i < 50 && !matcher_must_end(m); i++, n++) {
                    int32_t only;
                    t0 = clock_ns();
                    assert_good(matcher_mask(m, bits, &only, &e), &e);
                    int64_t took = clock_ns() - t0;
                    spent += took;
                    worst = took > worst ? took : worst;
                    assert_good(matcher_accept(m, any_allowed(bits, masks_words(masks), &seed), &e),
                                &e);
                }
                matcher_free(m);
            }
            printf("%-32.32s round %d: %6.1f us a mask, worst %8.1f us\n", constraint[c], round,
                   (double)spent / 1e3 / n, (double)worst / 1e3);
        }
        free(bits);
        masks_unref(masks);
        grammar_unref(g);
    }
    token_trie_unref(trie);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_are_exact),
        cmocka_unit_test(test_going_back),
        cmocka_unit_test(test_long_counts),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_kept_masks_are_bounded),
        cmocka_unit_test(test_ambiguous),
        cmocka_unit_test(test_too_ambiguous_to_begin),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
