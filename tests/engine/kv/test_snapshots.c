/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of recurrent states at the ends of cells: found with them, evicted, pinned.
 */
#include "tests/lib/test.h"

#include "engine/base/map.h"
#include "engine/kv/snapshots.h"

enum { CELL = 4, N_CELL = 20, TEXT = 80 };

static struct kv_pool *pool(int64_t n_snapshot)
{
    struct err e = ERR_INIT;
    struct kv_options o = {.n_cell = N_CELL,
                           .cell_tok = CELL,
                           .n_snapshot = n_snapshot,
                           .keeps_prefixes = true,
                           .hash = map_hash};
    struct kv_pool *p = kv_pool_new(&o, &e);
    assert_non_null(p);
    return p;
}

static const int32_t *text(int32_t which)
{
    static int32_t token[3][TEXT];
    for (int32_t i = 0; i < TEXT; i++)
        token[which][i] = 100 * which + i;
    return token[which];
}

static struct kv_table begin(void)
{
    struct kv_table t;
    struct err e = ERR_INIT;
    assert_good(kv_table_init(&t, N_CELL, 1, 0, &e), &e);
    return t;
}

static void end(struct kv_table *t, struct kv_pool *p)
{
    kv_table_release(t, p);
    kv_pool_verify(p);
}

/* n cells of a text are computed, and a snapshot is taken behind the first `at` of them. */
static int32_t visit(struct kv_pool *p, const int32_t *token, int64_t n, int64_t at)
{
    struct kv_table t = begin();
    int32_t from = (kv_table_find(&t, p, token, n * CELL), kv_snapshot_find(p, &t));
    if (from >= 0)
        kv_snapshot_give(p, from);
    assert_true(kv_table_grow(&t, p, n, n));
    kv_table_stood(&t, p, token, n * CELL);
    int32_t taken = kv_snapshot_take(p);
    if (taken >= 0)
        kv_snapshot_keep(p, taken, &t, at - 1);
    end(&t, p);
    return taken;
}

/* Cells that can be gone on from; *snapshot is given back. */
static int64_t found(struct kv_pool *p, const int32_t *token, int64_t n, int32_t *snapshot)
{
    struct kv_table t = begin();
    kv_table_find(&t, p, token, n * CELL);
    *snapshot = kv_snapshot_find(p, &t);
    n = t.n;
    assert_int_equal(t.n_stand, n);
    if (*snapshot >= 0)
        kv_snapshot_give(p, *snapshot);
    end(&t, p);
    return n;
}

/* Faults: a prefix gone on with where no state was kept; the state of another place. */
static void found_as_far_as_the_last_snapshot(void **state)
{
    (void)state;
    struct kv_pool *p = pool(4);
    int32_t at;
    int32_t third = visit(p, text(0), 6, 3), fifth = visit(p, text(0), 6, 5);
    assert_int_equal(found(p, text(0), 6, &at), 5);
    assert_int_equal(at, fifth);
    assert_int_equal(found(p, text(0), 4, &at), 3);
    assert_int_equal(at, third);
    assert_int_equal(found(p, text(0), 2, &at), 0);
    assert_int_equal(at, -1);
    assert_int_equal(found(p, text(1), 6, &at), 0);
    kv_pool_free(p);
}

/* Faults: a snapshot that outlives its cell, or is lost with another one's; the newest evicted
 * before the oldest. */
static void goes_with_its_cell_or_by_age(void **state)
{
    (void)state;
    struct kv_pool *p = pool(2);
    int32_t at, oldest = visit(p, text(0), 3, 3);
    visit(p, text(1), 3, 3);
    assert_int_equal(visit(p, text(2), 3, 2), oldest);
    assert_int_equal(found(p, text(0), 3, &at), 0);
    assert_int_equal(found(p, text(1), 3, &at), 3);
    assert_int_equal(found(p, text(2), 3, &at), 2);
    kv_pool_forget_all(p);
    kv_pool_verify(p);
    assert_int_equal(found(p, text(1), 3, &at), 0);
    assert_true(visit(p, text(0), 3, 3) >= 0);
    kv_pool_free(p);
}

/* Faults: what is about to be read is given to another; a pinned one that is never free again. */
static void a_pinned_one_stays(void **state)
{
    (void)state;
    struct kv_pool *p = pool(1);
    struct kv_table t = begin();
    visit(p, text(0), 3, 3);
    kv_table_find(&t, p, text(0), 3 * CELL);
    int32_t at, pinned = kv_snapshot_find(p, &t);
    assert_true(pinned >= 0);
    assert_int_equal(kv_snapshot_take(p), -1);
    assert_int_equal(visit(p, text(1), 3, 3), -1);
    kv_pool_forget_all(p); /* its cell cannot be found any more */
    assert_int_equal(kv_snapshot_take(p), -1);
    kv_snapshot_give(p, pinned);
    end(&t, p);
    assert_int_equal(visit(p, text(1), 3, 3), pinned);
    assert_int_equal(found(p, text(1), 3, &at), 3);
    kv_pool_free(p);
}

/* Faults: two snapshots of one cell; one of a cell that nobody can find. */
static void one_for_a_cell(void **state)
{
    (void)state;
    struct kv_pool *p = pool(3);
    struct kv_table t = begin();
    int32_t at, first = visit(p, text(0), 3, 3);
    visit(p, text(0), 3, 3);
    assert_int_equal(found(p, text(0), 3, &at), 3);
    assert_int_equal(at, first);
    assert_true(kv_table_grow(&t, p, 2, 2)); /* nobody was told of its text */
    kv_snapshot_keep(p, kv_snapshot_take(p), &t, 1);
    end(&t, p);
    kv_pool_free(p);
}

/* Fault: a pool without snapshots that goes on with cells alone. */
static void none_is_none(void **state)
{
    (void)state;
    struct kv_pool *p = pool(0);
    int32_t at;
    assert_int_equal(visit(p, text(0), 3, 3), -1);
    assert_int_equal(found(p, text(0), 3, &at), 0);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_as_far_as_the_last_snapshot),
        cmocka_unit_test(goes_with_its_cell_or_by_age),
        cmocka_unit_test(a_pinned_one_stays),
        cmocka_unit_test(one_for_a_cell),
        cmocka_unit_test(none_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
