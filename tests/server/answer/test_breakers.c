/* SPDX-License-Identifier: Apache-2.0
 *
 * What is found of lists of breakers is what a look at each token for each breaker finds, and many
 * hardly take longer than one. What is kept of them: it is what is found anew, a vocabulary is
 * looked through once for each list, and no more lists are kept than there is room for.
 */
#include "server/answer/breakers.h"

#include <pthread.h>
#include <time.h>

#include "engine/base/mem.h"
#include "tests/engine/token/fixture.h"

enum { MOST = 3, N_THREAD = 4, N_ROUND = 60, BREAKERS_MAX = 64, TIMES_MOST = 3 };

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

/* ---- what is found --------------------------------------------------------------------------- */

struct plain {
    size_t t;
    const struct breakers_found *found;
    int32_t at; /* of its list, what was not compared yet */
};

/* A token and a breaker by themselves. */
static void look_plainly(struct plain *p, int32_t id, const struct buf *text,
                         const struct gen_text *b, bool *holds)
{
    const int32_t *list = p->found->list;
    struct err e = ERR_INIT;
    if (text->len && memmem(text->data, text->len, b->p, b->n)) {
        *holds = true;
        return;
    }
    for (size_t n = 1; n < b->n && n <= text->len; n++) {
        struct tok_list rest;
        if (memcmp(text->data + text->len - n, b->p, n))
            continue;
        tok_list_init(&rest, b->n + 16, false);
        assert_good(tokenizer_encode(tokenizer[p->t], b->p + n, b->n - n, false, false, &rest, &e),
                    &e);
        assert_true(p->at + 2 + (int32_t)rest.n <= p->found->n);
        assert_int_equal(list[p->at], rest.n + 1);
        assert_int_equal(list[p->at + 1], id);
        assert_memory_equal(&list[p->at + 2], rest.id, rest.n * sizeof *rest.id);
        p->at += 2 + (int32_t)rest.n;
        tok_list_release(&rest);
    }
}

/* Faults: a breaker that is overlooked beside others that begin alike, or in the middle, at the end
 * or over the end of a token; one that is said for a token that does not hold it. */
static void all_is_found(void **state)
{
    (void)state;
    static const struct gen_text list[] = {{"aba", 3},
                                           {"abab", 4},
                                           {"\n", 1},
                                           {"\n\n", 2},
                                           {" qu", 3},
                                           {" qui", 3},
                                           {"zq", 2},
                                           {"z", 1},
                                           {"\xc3\xa9q", 3},
                                           {"\n", 1},
                                           {"Zxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 40}};
    size_t n = sizeof list / sizeof *list, n_byte;
    for (size_t t = 0; t < 2; t++) {
        struct arena a;
        struct err e = ERR_INIT;
        struct breakers_found f;
        struct buf text;
        arena_init(&a, 16 << 20);
        size_t n_vocab = tokenizer_size(tokenizer[t]);
        assert_good(breakers_find(NULL, tokenizer[t], n_vocab, list, n, &a, &f, &e), &e);
        struct plain p = {.t = t, .found = &f};
        struct detok *d = detok_new(tokenizer[t], false);
        buf_init(&text, 1 << 20);
        for (size_t id = 0; id < n_vocab; id++) {
            bool holds = false;
            buf_clear(&text);
            if (tokenizer_piece(tokenizer[t], (int32_t)id, &n_byte))
                assert_good(detok_bytes(d, (int32_t)id, &text, &e), &e);
            for (size_t i = 0; i < n; i++)
                look_plainly(&p, (int32_t)id, &text, &list[i], &holds);
            assert_int_equal(f.breaks[id / 32] >> id % 32 & 1, holds);
        }
        assert_int_equal(p.at, f.n);
        buf_release(&text);
        detok_free(d);
        arena_release(&a);
    }
}

/* Of this thread, in the best of some tries. */
static int64_t cost_ns(struct breakers *b, const struct gen_text *list, size_t n)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct timespec from, to;
        struct arena a;
        struct err e = ERR_INIT;
        struct breakers_found f;
        arena_init(&a, 16 << 20);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        /* a number of ids that was not asked for yet: nothing is kept of it */
        assert_good(breakers_find(b, tokenizer[0], tokenizer_size(tokenizer[0]) + (size_t)i * 40,
                                  list, n, &a, &f, &e),
                    &e);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        int64_t ns = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
        best = ns < best ? ns : best;
        arena_release(&a);
    }
    return best;
}

/* Fault: a list for which the thread that serves others is held for half a second. */
static void many_cost_little_more_than_one(void **state)
{
    (void)state;
    static const char common[] =
        "etaoinshrdlucmfwypvbgkjqxz ETAOINSHRDLUCMFWYPVBGKJQXZ0123456789.,";
    struct gen_text list[BREAKERS_MAX], one = {"\n", 1};
    struct breakers *b = breakers_new();
    breakers_read(b, tokenizer[0]);
    int64_t alone = cost_ns(b, &one, 1);
    for (int i = 0; i < BREAKERS_MAX; i++)
        list[i] = (struct gen_text){common + i, 1};
    int64_t bytes = cost_ns(b, list, BREAKERS_MAX);
    breakers_free(b);
    print_message("one breaker %lld us, 64 %lld us\n", (long long)alone / 1000,
                  (long long)bytes / 1000);
    assert_in_range(bytes, 0, TIMES_MOST * alone);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_found), cmocka_unit_test(many_cost_little_more_than_one),
        cmocka_unit_test(each_list_is_looked_for_once), cmocka_unit_test(the_oldest_make_place),
        cmocka_unit_test(many_ask_at_once)};
    return cmocka_run_group_tests(tests, begin, end);
}
