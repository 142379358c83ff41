/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop strings against a naive search of the whole text.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/rng.h"
#include "engine/sample/stop.h"

enum { TEXT_MAX = 200 };

struct naive {
    int index;
    size_t begin, end;
};

/* By the definition: the least end at or behind `from`, the longest of equals. */
static struct naive search(const struct stop_string *s, int n, const char *text, size_t len,
                           size_t from)
{
    for (size_t end = from + 1; end <= len; end++) {
        struct naive best = {.index = -1};
        for (int i = 0; i < n; i++) {
            if (s[i].n <= end && memcmp(text + end - s[i].n, s[i].p, s[i].n) == 0 &&
                (best.index < 0 || s[i].n > end - best.begin))
                best = (struct naive){i, end - s[i].n, end};
        }
        if (best.index >= 0)
            return best;
    }
    return (struct naive){.index = -1};
}

/* The text less its longest end that begins a string, as a proper begin. */
static size_t safe(const struct stop_string *s, int n, const char *text, size_t len)
{
    size_t held = 0;
    for (int i = 0; i < n; i++)
        for (size_t k = 1; k < s[i].n && k <= len; k++)
            if (memcmp(text + len - k, s[i].p, k) == 0 && k > held)
                held = k;
    return len - held;
}

/* Cuts the text at random places; the first part that counts begins at `from`. */
static void one_case(const struct stop_string *s, int n, const char *text, size_t len, size_t from,
                     uint64_t seed)
{
    struct err e = ERR_INIT;
    struct stop *st = stop_new(s, n, &e);
    struct naive want = search(s, n, text, len, from);
    assert_non_null(st);
    bool found = false;
    for (size_t at = 0, step = 0; at < len && !found; step++) {
        size_t part = rng_below(seed, 1, step, 9);
        part = part > len - at ? len - at : part;
        if (at < from && at + part > from)
            part = from - at;
        found = stop_push(st, text + at, part, at >= from);
        at += part;
        assert_int_equal(found, want.index >= 0 && want.end <= at);
        if (!found)
            assert_int_equal(stop_safe(st), safe(s, n, text, at));
    }
    assert_int_equal(stop_index(st), want.index);
    if (want.index >= 0) {
        assert_int_equal(stop_safe(st), want.begin);
        assert_int_equal(stop_end(st), want.end);
        assert_true(stop_push(st, "more", 4, true));
        assert_int_equal(stop_safe(st), want.begin);
    }
    stop_free(st);
}

/* Faults: a fall-back that skips a begin, a match lost or moved at a cut, text held back that could
 * be shown or shown that should be held, a shorter string that wins, a string that counts too soon.
 */
static void like_a_naive_search(void **state)
{
    char text[TEXT_MAX], pool[STOP_MAX][12];
    struct stop_string s[STOP_MAX];
    uint64_t at = 0;
    (void)state;
    for (uint64_t trial = 0; trial < 20000; trial++) {
        int n = 1 + (int)rng_below(7, 0, at++, STOP_MAX);
        uint64_t letters = 2 + rng_below(7, 0, at++, 3);
        size_t len = rng_below(7, 0, at++, TEXT_MAX);
        for (int i = 0; i < n; i++) {
            s[i] = (struct stop_string){pool[i], 1 + rng_below(7, 0, at++, 2 + trial % 10)};
            for (size_t k = 0; k < s[i].n; k++)
                pool[i][k] = (char)('a' + rng_below(7, 0, at++, letters));
        }
        for (size_t k = 0; k < len; k++)
            text[k] = (char)('a' + rng_below(7, 0, at++, letters));
        one_case(s, n, text, len, trial % 3 ? 0 : len / 2, trial);
    }
}

/* Faults: bytes taken as signed, a NUL that ends a string. */
static void any_byte_is_text(void **state)
{
    static const char text[] = "x\0\xff\x80\0y";
    struct stop_string s[] = {{"\0y", 2}, {"\xff\x80\0y", 4}};
    struct err e = ERR_INIT;
    (void)state;
    struct stop *st = stop_new(s, 2, &e);
    assert_true(stop_push(st, text, sizeof text - 1, true));
    assert_int_equal(stop_index(st), 1);
    assert_int_equal(stop_safe(st), 2);
    stop_free(st);
}

/* Of this thread, whoever else the CPU has to serve. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds for a text of which every byte falls back in strings of so many bytes. */
static double time_of(const char *text, size_t n, const char *a, size_t bytes)
{
    struct stop_string s[STOP_MAX];
    struct err e = ERR_INIT;
    for (size_t i = 0; i < STOP_MAX; i++)
        s[i] = (struct stop_string){a + STOP_BYTES_MAX - bytes + i, bytes - i};
    struct stop *st = stop_new(s, STOP_MAX, &e);
    double begin = cpu_s();
    assert_false(stop_push(st, text, n, true));
    double took = cpu_s() - begin;
    assert_int_equal(stop_safe(st), n - (bytes - 1));
    assert_true(stop_push(st, "b", 1, true));
    assert_int_equal(stop_index(st), 0);
    stop_free(st);
    return took;
}

/* Fault: work that grows with the length of the strings, or with text times string. */
static void the_worst_text_costs_a_step_a_byte(void **state)
{
    enum { N = 1 << 20, SHORT = 2 * STOP_MAX };
    char *text = malloc(N), *a = malloc(STOP_BYTES_MAX);
    (void)state;
    memset(text, 'a', N);
    memset(a, 'a', STOP_BYTES_MAX);
    a[STOP_BYTES_MAX - 1] = 'b';
    double few = time_of(text, N, a, SHORT), many = time_of(text, N, a, STOP_BYTES_MAX);
    assert_true(many < 0.2 * (STOP_BYTES_MAX / SHORT) * few + 1);
    free(text);
    free(a);
}

/* Faults: a limit off by one, an empty string that stops everything. */
static void limits(void **state)
{
    static char big[STOP_BYTES_MAX + 1];
    struct stop_string s[STOP_MAX + 1];
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i <= STOP_MAX; i++)
        s[i] = (struct stop_string){big, STOP_BYTES_MAX};
    struct stop *st = stop_new(s, STOP_MAX, &e);
    assert_non_null(st);
    stop_free(st);
    assert_err(stop_new(s, STOP_MAX + 1, &e) == NULL, &e, ERR_TOO_LARGE, "16");
    assert_err(stop_new(s, 0, &e) == NULL, &e, ERR_TOO_LARGE, "stop");
    s[0].n = STOP_BYTES_MAX + 1;
    assert_err(stop_new(s, 1, &e) == NULL, &e, ERR_TOO_LARGE, "1025");
    s[0].n = 0;
    assert_err(stop_new(s, 1, &e) == NULL, &e, ERR_BAD_INPUT, "0 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_naive_search),
        cmocka_unit_test(any_byte_is_text),
        cmocka_unit_test(the_worst_text_costs_a_step_a_byte),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
