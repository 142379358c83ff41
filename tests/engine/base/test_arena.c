/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces, ceilings and clean-ups of the arena.
 */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/base/arena.h"

/* Faults: pieces that overlap, are not aligned, or carry what stood there before a reset. */
static void pieces_are_apart_aligned_zeroed(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0);
    for (int round = 0; round < 3; round++) {
        unsigned char *piece[300];
        for (size_t i = 0; i < 300; i++) {
            piece[i] = arena_alloc(&a, i * 7);
            assert_int_equal((uintptr_t)piece[i] % 16, 0);
            for (size_t j = 0; j < i * 7; j++)
                assert_int_equal(piece[i][j], 0);
            memset(piece[i], (int)i & 0xff, i * 7);
        }
        for (size_t i = 0; i < 300; i++)
            for (size_t j = 0; j < i * 7; j++)
                assert_int_equal(piece[i][j], i & 0xff);
        arena_reset(&a);
        assert_int_equal(a.used_bytes, 0);
    }
    arena_release(&a);
}

/* Faults: a ceiling off by one; a product that wraps; program sizes refused by the ceiling. */
static void ceiling_bounds_try(void **state)
{
    (void)state;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, 100);
    assert_non_null(arena_try(&a, 10, 9, &e));
    assert_null(arena_try(&a, 11, 1, &e));
    assert_err(-1, &e, ERR_TOO_LARGE, "limit of 100");
    assert_non_null(arena_try(&a, 10, 1, &e));
    assert_null(arena_try(&a, SIZE_MAX / 2, 3, &e));
    assert_non_null(arena_alloc(&a, 50));
    assert_null(arena_try(&a, 1, 1, &e));
    arena_reset(&a);
    assert_non_null(arena_try(&a, 100, 1, &e));
    arena_release(&a);
}

struct note {
    struct arena *a;
    char *log, c;
};

static void append(void *arg)
{
    struct note *n = arg;
    size_t len = strlen(n->log);
    n->log[len] = n->c;
    if (n->c == 'c')
        arena_defer(n->a, append, n - 2);
}

/* Faults: clean-ups in the wrong order, run twice, or not when one of them adds another. */
static void deferred_run_backwards_once(void **state)
{
    (void)state;
    struct arena a;
    char log[16] = "";
    struct note note[3] = {{&a, log, 'a'}, {&a, log, 'b'}, {&a, log, 'c'}};
    arena_init(&a, 0);
    for (int i = 0; i < 3; i++)
        arena_defer(&a, append, &note[i]);
    arena_reset(&a);
    assert_string_equal(log, "caba"); /* c defers a once more */
    arena_release(&a);
    assert_string_equal(log, "caba");
}

/* Fault: strings without a terminator, or read past the n given. */
static void strings(void **state)
{
    (void)state;
    struct arena a;
    static const char raw[2] = {'x', 'y'};
    arena_init(&a, 0);
    assert_string_equal(arena_strdup(&a, "hello"), "hello");
    assert_string_equal(arena_strndup(&a, raw, 2), "xy");
    assert_string_equal(arena_strndup(&a, "hello", 99), "hello");
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "z"), "7-z");
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(pieces_are_apart_aligned_zeroed),
        cmocka_unit_test(ceiling_bounds_try),
        cmocka_unit_test(deferred_run_backwards_once),
        cmocka_unit_test(strings),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
