/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer between its two threads.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/serve/answer_write.h"

enum { N = 20000, N_TOP = 3 };

static struct answer *make(const struct answer_room *room, struct answer_bell *bell)
{
    struct err e = ERR_INIT;
    struct answer *a = answer_new(room, bell, &e);
    assert_good(a ? 0 : -1, &e);
    return a;
}

static void put(struct answer *a, int32_t i)
{
    struct answer_token t = {.at_us = i, .id = i, .logprob = (float)i, .text_safe = UINT64_MAX};
    struct sample_top top[N_TOP] = {{i, 1}, {i + 1, 2}, {i + 2, 3}};
    answer_put(a, &t, top, i % 2 ? N_TOP : 1);
}

static void *write_all(void *arg)
{
    struct answer *a = arg;
    for (int32_t i = 1; i < 9; i++)
        answer_put_prompt(a, i,
                          &(struct sample_taken){
                              .logprob = (float)-i, .rank = i + 1, .n_top = 1, .top = {{i, 0}}});
    for (int32_t i = 0; i < N && !answer_is_cancelled(a); i++)
        put(a, i);
    answer_end_room(a)->end_us = 77;
    answer_close(a, GEN_LENGTH);
    answer_unref(a);
    return NULL;
}

static void check_token(const struct answer *a, size_t i)
{
    const struct answer_token *t = answer_token(a, i);
    const struct answer_top *top = answer_top(a, i);
    if (t->id != (int32_t)i || t->at_us != (int64_t)i || top[0].id != (int32_t)i ||
        top[2].id != (i % 2 ? (int32_t)i + 2 : -1))
        fail_msg("token %zu is %d", i, t->id);
    assert_true(answer_prompt_logprob(a, 8) < -7.5f);
    assert_int_equal(answer_prompt_top(a, 8)[1].id, -1);
}

/* Faults: a count that is seen before the token; an end before the last count; rows of the
 * likeliest that overlap; the block freed under the reader. */
static void readers_see_whole_tokens(void **state)
{
    (void)state;
    struct answer_room room = {.n_prompt = 9, .max_new = N, .n_top = N_TOP, .wants_prompt = true};
    struct answer_bell *bell = answer_bell_new();
    struct answer *a = make(&room, bell);
    pthread_t writer;
    size_t seen = 0;
    pthread_create(&writer, NULL, write_all, answer_ref(a));
    for (enum gen_end end = GEN_RUNS; end == GEN_RUNS;) {
        end = answer_state(a);
        for (size_t n = answer_count(a); seen < n; seen++)
            check_token(a, seen);
    }
    assert_int_equal(seen, N);
    assert_int_equal(answer_end(a)->end_us, 77);
    assert_int_equal(answer_end(a)->stop_id, -1);
    pthread_join(writer, NULL);
    answer_unref(a);
    answer_bell_unref(bell);
}

/* Faults: a cancel that nobody hears, one that is heard twice, one that reaches freed memory when
 * the engine has gone. */
static void cancelling_rings(void **state)
{
    (void)state;
    struct mem_stat before = mem_stat();
    struct answer_bell *bell = answer_bell_new();
    struct answer *a = make(&(struct answer_room){.max_new = 1}, bell);
    struct answer *b = make(&(struct answer_room){.n_vector = 4}, bell);
    assert_false(answer_bell_rang(bell));
    answer_cancel(a);
    answer_cancel(a);
    assert_true(answer_is_cancelled(a));
    assert_false(answer_is_cancelled(b));
    assert_true(answer_bell_rang(bell));
    assert_false(answer_bell_rang(bell));
    answer_bell_unref(bell);
    answer_cancel(b);
    answer_unref(a);
    answer_unref(b);
    assert_int_equal(mem_stat().n_block, before.n_block);
}

/* Faults: a prompt's numbers written again under the reader's eyes after a preemption. */
static void published_numbers_stay(void **state)
{
    (void)state;
    struct answer_bell *bell = answer_bell_new();
    struct answer_room room = {.n_prompt = 3, .max_new = 2, .wants_prompt = true};
    struct answer *a = make(&room, bell);
    answer_put_prompt(a, 1, &(struct sample_taken){.logprob = -1});
    put(a, 0);
    answer_put_prompt(a, 1, &(struct sample_taken){.logprob = -2});
    assert_true(answer_prompt_logprob(a, 1) > -1.5f);
    answer_unref(a);
    answer_bell_unref(bell);
}

/* Faults: room for the longest answer that is paid for when a short one comes. */
static void long_rooms_cost_nothing(void **state)
{
    (void)state;
    enum { MANY = 200 };
    struct answer_bell *bell = answer_bell_new();
    struct answer_room room = {
        .n_prompt = 1 << 17, .max_new = 1 << 17, .n_top = 20, .wants_prompt = true};
    struct answer *a[MANY];
#ifdef __SANITIZE_ADDRESS__
    room.n_prompt = room.max_new = 100;
#endif
    for (int i = 0; i < MANY; i++) { /* 9 GB, were it touched */
        a[i] = make(&room, bell);
        answer_put_prompt(a[i], 5, &(struct sample_taken){.id = 0});
        answer_put(a[i], &(struct answer_token){.id = 3}, NULL, 0);
    }
    for (int i = 0; i < MANY; i++)
        answer_unref(a[i]);
    answer_bell_unref(bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_whole_tokens),
        cmocka_unit_test(cancelling_rings),
        cmocka_unit_test(published_numbers_stay),
        cmocka_unit_test(long_rooms_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
