/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of lists of breakers: it is what is found anew, a vocabulary is looked through once
 * for each list, and no more lists are kept than there is room for.
 */
#include "server/answer/breakers.h"

#include <pthread.h>

#include "engine/base/mem.h"
#include "tests/engine/token/fixture.h"

enum { MOST = 3, N_THREAD = 4, N_ROUND = 60 };

static struct tokenizer *tokenizer[2];
static struct breakers *kept;

struct list {
    struct gen_text text[MOST];
    size_t n;
};

static struct list list_of(const char *a, const char *b, const char *c)
{
    const char *all[MOST] = {a, b, c};
    struct list l = {.n = 0};
    for (; l.n < MOST && all[l.n]; l.n++)
        l.text[l.n] = (struct gen_text){.p = all[l.n], .n = (uint32_t)strlen(all[l.n])};
    return l;
}

static struct breakers_found find(struct breakers *b, size_t t, const struct list *l,
                                  struct arena *a)
{
    struct breakers_found f;
    struct err e = ERR_INIT;
    size_t n = tokenizer_size(tokenizer[t]) + 70; /* a model's head may have more */
    assert_good(breakers_find(b, tokenizer[t], n, l->text, l->n, a, &f, &e), &e);
    return f;
}

/* Fault: what is kept of another list, or of another tokenizer. */
static void check(size_t t, const struct list *l)
{
    struct arena a;
    arena_init(&a, 16 << 20);
    struct breakers_found got = find(kept, t, l, &a), want = find(NULL, t, l, &a);
    size_t n_word = (tokenizer_size(tokenizer[t]) + 70 + 31) / 32;
    assert_memory_equal(got.breaks, want.breaks, n_word * sizeof *got.breaks);
    assert_int_equal(got.n, want.n);
    if (want.n)
        assert_memory_equal(got.list, want.list, (size_t)want.n * sizeof *got.list);
    arena_release(&a);
}

static void each_list_is_looked_for_once(void **state)
{
    (void)state;
    const struct list list[] = {list_of("\n", ":", "\""), list_of("\n", NULL, NULL),
                                list_of("ab", "c", NULL), list_of("a", "bc", NULL),
                                list_of("abc", NULL, NULL)};
    size_t n = sizeof list / sizeof *list;
    kept = breakers_new();
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < n; i++)
            for (size_t t = 0; t < 2; t++)
                check(t, &list[i]);
    assert_int_equal(breakers_looks(kept), 2 * n);
    breakers_free(kept);
}

/* Fault: a store that grows with each list that a client thinks of. */
static void the_oldest_make_place(void **state)
{
    (void)state;
    char text[BREAKERS_KEPT + 1][12];
    struct list list[BREAKERS_KEPT + 1], first = list_of("\n", NULL, NULL);
    kept = breakers_new();
    check(0, &first);
    for (int i = 0; i < BREAKERS_KEPT + 1; i++) {
        snprintf(text[i], sizeof text[i], "%d", i);
        list[i] = list_of(text[i], NULL, NULL);
        check(0, &list[i]);
        check(0, &first); /* asked for often, so it stays */
    }
    assert_int_equal(breakers_looks(kept), BREAKERS_KEPT + 2);
    check(0, &list[0]);
    assert_int_equal(breakers_looks(kept), BREAKERS_KEPT + 3);
    breakers_free(kept);
}

static void *ask(void *of)
{
    const struct list *l = of;
    for (int i = 0; i < N_ROUND; i++)
        check((size_t)i % 2, &l[i % 3]);
    return NULL;
}

static void many_ask_at_once(void **state)
{
    (void)state;
    struct list list[] = {list_of("\n", ":", NULL), list_of("the", NULL, NULL),
                          list_of(" a", "e", NULL)};
    pthread_t thread[N_THREAD];
    kept = breakers_new();
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, list), 0);
    for (int i = 0; i < N_THREAD; i++)
        pthread_join(thread[i], NULL);
    assert_in_range(breakers_looks(kept), 6, 6 * N_THREAD);
    breakers_free(kept);
}

static int begin(void **state)
{
    (void)state;
    tokenizer[0] = golden_tokenizer("gpt2");
    tokenizer[1] = golden_tokenizer("llama3");
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        tokenizer_free(tokenizer[i]);
    return mem_stat().n_block == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_list_is_looked_for_once),
                                       cmocka_unit_test(the_oldest_make_place),
                                       cmocka_unit_test(many_ask_at_once)};
    return cmocka_run_group_tests(tests, begin, end);
}
