/* SPDX-License-Identifier: Apache-2.0
 *
 * How long rows of trainings stay, and whose turn it is. Catches: a session that goes though its
 * client asks for things; an answer that goes before it was there for its time; weights that
 * outlive theirs; bodies of samples that nobody reads again; a key whose many models or samples
 * hold up another's.
 */
#include "tests/server/store/home.h"

#include "server/store/store_loop.h"

enum { SAMPLE = 6, PASS = 2 };

static const struct loop_most most = {.requests = 100, .bytes = 1 << 20, .models = 100};

static struct store *store_with_session(void)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    assert_good(s ? 0 : -1, &e);
    assert_good(store_loop_session_add(s, "one", "ann", 1000, 10, &e), &e);
    const struct loop_sampler m = {.id = "one:sample:0", .owner = "ann", .session = "one"};
    assert_good(store_loop_sampler_add(s, &m, 2, &e), &e);
    return s;
}

static void put_for(struct store *s, const char *owner, const char *session, const char *line,
                    const char *id, int64_t kind, int64_t now)
{
    struct err e = ERR_INIT;
    bool is_new;
    const struct loop_request r = {.id = id,
                                   .owner = owner,
                                   .line = line,
                                   .seq = 0,
                                   .kind = kind,
                                   .body = "body",
                                   .n_body = 4,
                                   .created = now};
    const struct loop_model m = {.id = line,
                                 .owner = owner,
                                 .session = session,
                                 .base = "base",
                                 .fingerprint = "print",
                                 .created = now};
    assert_good(store_loop_put(s, &r, kind == PASS ? &m : NULL, &most, &is_new, &e), &e);
    assert_true(is_new);
}

static void put(struct store *s, const char *line, const char *id, int64_t kind, int64_t now)
{
    put_for(s, "ann", "one", line, id, kind, now);
}

static bool is_old(struct store *s, int64_t since)
{
    struct err e = ERR_INIT;
    const char *id;
    int rc = store_loop_session_old(s, since, since, &arena, &id, &e);
    assert_true(!rc || e.code == ERR_NOT_FOUND);
    return !rc;
}

static void requests_are_signs(void **state)
{
    struct store *s = store_with_session();
    (void)state;
    assert_true(is_old(s, 1001));
    put(s, "one:sample:0", "a", SAMPLE, 2000);
    assert_false(is_old(s, 2000));
    put(s, "one:train:0", "b", PASS, 3000);
    assert_false(is_old(s, 3000));
    assert_true(is_old(s, 3001));
    store_free(s);
}

/* One that was finished stays so. */
static void an_end_is_no_sign(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_with_session();
    (void)state;
    assert_good(store_loop_session_end(s, "one", "ann", &e), &e);
    put(s, "one:sample:0", "a", SAMPLE, 2000);
    assert_true(is_old(s, 1));
    store_free(s);
}

static void answers_stay_from_their_end_on(void **state)
{
    struct loop_request r, open;
    struct err e = ERR_INIT;
    struct store *s = store_with_session();
    (void)state;
    put(s, "one:sample:0", "a", SAMPLE, 2000);
    const struct loop_request done = {.id = "a",
                                      .line = "one:sample:0",
                                      .kind = SAMPLE,
                                      .state = LOOP_DONE,
                                      .answer = "said",
                                      .n_answer = 4,
                                      .created = 9000};
    assert_good(store_loop_end(s, &(struct loop_end){.request = &done}, &e), &e);
    assert_good(store_loop_expire(s, 9000, &e), &e);
    assert_good(store_loop_get(s, "ann", "a", &arena, &r, &e), &e);
    assert_good(store_loop_ran(s, "one:sample:0", 0, &arena, &open, &e), &e);
    assert_null(open.body);
    assert_good(store_loop_expire(s, 9001, &e), &e);
    assert_int_equal(store_loop_get(s, "ann", "a", &arena, &r, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    store_free(s);
}

static void what_runs_again_keeps_its_body(void **state)
{
    struct loop_request r;
    struct err e = ERR_INIT;
    struct store *s = store_with_session();
    (void)state;
    put(s, "one:train:0", "a", PASS, 1);
    put(s, "one:train:1", "b", PASS, 1);
    const struct loop_request a = {.id = "a", .line = "one:train:0", .state = LOOP_DONE};
    const struct loop_request b = {.id = "b", .line = "one:train:1", .state = LOOP_DONE};
    assert_good(store_loop_end(s, &(struct loop_end){.request = &a, .runs_again = true}, &e), &e);
    assert_good(store_loop_end(s, &(struct loop_end){.request = &b}, &e), &e);
    assert_good(store_loop_ran(s, "one:train:0", 0, &arena, &r, &e), &e);
    assert_memory_equal(r.body, "body", 4);
    assert_good(store_loop_ran(s, "one:train:1", 0, &arena, &r, &e), &e);
    assert_null(r.body);
    store_free(s);
}

static void weights_have_their_time(void **state)
{
    static const struct {
        const char *path;
        int64_t expires;
    } of[] = {{"never", 0}, {"soon", 50}, {"late", 90}};
    struct err e = ERR_INIT;
    struct loop_weights *list;
    size_t n;
    struct store *s = store_with_session();
    (void)state;
    put(s, "one:train:0", "b", PASS, 1);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const struct loop_request q = {.id = "b", .line = "one:train:0", .state = LOOP_DONE};
        const struct loop_weights w = {.path = of[i].path,
                                       .owner = "ann",
                                       .model = "one:train:0",
                                       .dir = "d",
                                       .base = "base",
                                       .fingerprint = "print",
                                       .expires = of[i].expires,
                                       .is_named = true};
        assert_good(store_loop_end(s, &(struct loop_end){.request = &q, .weights = &w}, &e), &e);
    }
    assert_good(store_loop_weights_over(s, 49, &arena, &list, &n, &e), &e);
    assert_int_equal(n, 0);
    assert_good(store_loop_weights_over(s, 50, &arena, &list, &n, &e), &e);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].path, "soon");
    store_free(s);
}

/* Bob comes when three models of ann's wait, and is the next but one at most. */
static void keys_take_turns(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_with_session();
    const char *said[] = {"a0", "b0", "a1", "a2"};
    (void)state;
    assert_good(store_loop_session_add(s, "two", "bob", 1000, 10, &e), &e);
    put(s, "one:train:0", "a0", PASS, 1);
    put(s, "one:train:1", "a1", PASS, 1);
    put(s, "one:train:2", "a2", PASS, 1);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct loop_request r;
        assert_good(store_loop_next(s, "print", &arena, &r, &e), &e);
        assert_string_equal(r.id, said[i]);
        r.state = LOOP_DONE;
        assert_good(store_loop_end(s, &(struct loop_end){.request = &r}, &e), &e);
        if (i == 0)
            put_for(s, "bob", "two", "two:train:0", "b0", PASS, 1);
    }
    store_free(s);
}

static void samples_are_a_keys(void **state)
{
    struct err e = ERR_INIT;
    struct loop_request *list;
    size_t n;
    struct store *s = store_with_session();
    const struct loop_sampler m = {.id = "two:sample:0", .owner = "bob", .session = "two"};
    (void)state;
    assert_good(store_loop_session_add(s, "two", "bob", 1000, 10, &e), &e);
    assert_good(store_loop_sampler_add(s, &m, 2, &e), &e);
    put(s, "one:sample:0", "a0", SAMPLE, 1);
    put(s, "one:sample:0", "a1", SAMPLE, 1);
    put_for(s, "bob", "two", "two:sample:0", "b0", SAMPLE, 1);
    assert_good(store_loop_samples(s, "ann", 0, 1, &arena, &list, &n, &e), &e);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].id, "a0");
    assert_good(store_loop_samples(s, "ann", list[0].place, 9, &arena, &list, &n, &e), &e);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].id, "a1");
    assert_good(store_loop_samples(s, "bob", 0, 9, &arena, &list, &n, &e), &e);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].id, "b0");
    store_free(s);
}

/* Faults: samplers without end; one that was made before and is refused. */
static void samplers_have_an_end(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_with_session();
    struct loop_sampler m = {.id = "one:sample:1", .owner = "ann", .session = "one"};
    (void)state;
    assert_good(store_loop_sampler_add(s, &m, 2, &e), &e);
    m.id = "one:sample:2";
    assert_err(store_loop_sampler_add(s, &m, 2, &e), &e, ERR_NO_SPACE, "2 samplers");
    e = (struct err)ERR_INIT;
    m.id = "one:sample:0";
    assert_good(store_loop_sampler_add(s, &m, 2, &e), &e);
    assert_good(store_loop_session_add(s, "two", "bob", 1000, 10, &e), &e);
    m = (struct loop_sampler){.id = "two:sample:0", .owner = "bob", .session = "two"};
    assert_good(store_loop_sampler_add(s, &m, 1, &e), &e);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_are_signs, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_is_no_sign, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_stay_from_their_end_on, setup, teardown),
        cmocka_unit_test_setup_teardown(what_runs_again_keeps_its_body, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_have_their_time, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(samples_are_a_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(samplers_have_an_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
