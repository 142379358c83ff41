/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables over a pool: what is found again, what is evicted, who shares, and where cells stand.
 */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/base/map.h"
#include "engine/base/rng.h"
#include "engine/kv/table.h"

enum { CELL = 4, TEXT = 400 };

static uint64_t hash_of_nothing(const void *p, size_t n)
{
    (void)p, (void)n;
    return 0;
}

static struct kv_pool *pool(int64_t n_cell, uint64_t (*hash)(const void *, size_t))
{
    struct err e = ERR_INIT;
    struct kv_options o = {
        .n_cell = n_cell, .cell_tok = CELL, .keeps_prefixes = true, .hash = hash};
    struct kv_pool *p = kv_pool_new(&o, &e);
    assert_non_null(p);
    return p;
}

static const int32_t *text(uint64_t which)
{
    static int32_t token[8][TEXT];
    int32_t *t = token[which % 8];
    for (int64_t i = 0; i < TEXT; i++)
        t[i] = (int32_t)rng_below(which, 0, (uint64_t)i, 50);
    return t;
}

/* A table with n cells of a text, as far as it is found. */
static struct kv_table begin(struct kv_pool *p, uint64_t salt, const int32_t *token, int64_t n)
{
    struct err e = ERR_INIT;
    struct kv_table t;
    assert_good(kv_table_init(&t, 100, salt, 0, &e), &e);
    kv_table_find(&t, p, token, n * CELL);
    assert_true(kv_table_grow(&t, p, n, n));
    return t;
}

static void end(struct kv_table *t, struct kv_pool *p)
{
    kv_table_release(t, p);
    kv_pool_verify(p);
}

/* Its cells are computed, and it goes. */
static void visit(struct kv_pool *p, uint64_t salt, const int32_t *token, int64_t n)
{
    struct kv_table t = begin(p, salt, token, n);
    kv_table_stood(&t, p, token, n * CELL);
    end(&t, p);
}

static int64_t found(struct kv_pool *p, uint64_t salt, const int32_t *token, int64_t n)
{
    struct err e = ERR_INIT;
    struct kv_table t;
    assert_good(kv_table_init(&t, 100, salt, 0, &e), &e);
    kv_table_find(&t, p, token, n * CELL);
    n = t.n;
    end(&t, p);
    return n;
}

/* Fault: a prefix that is lost, found under another tenant, or past where the text differs; and all
 * of it when every hash is the same. */
static void finds_a_text_again(void **state)
{
    (void)state;
    uint64_t (*const hash[])(const void *, size_t) = {map_hash, hash_of_nothing};
    for (int i = 0; i < 2; i++) {
        struct kv_pool *p = pool(40, hash[i]);
        int32_t other[TEXT];
        memcpy(other, text(1), sizeof other);
        other[3 * CELL + 2]++;
        visit(p, 7, text(1), 6);
        assert_int_equal(found(p, 7, text(1), 6), 6);
        assert_int_equal(found(p, 7, text(1), 9), 6);
        assert_int_equal(found(p, 8, text(1), 6), 0);
        assert_int_equal(found(p, 7, other, 6), 3);
        assert_int_equal(found(p, 7, text(2), 6), 0);
        assert_int_equal(found(p, 7, text(1) + CELL, 5), 0); /* the same tokens at other places */
        kv_pool_free(p);
    }
}

/* Fault: equal cells after different ones taken for each other. */
static void equal_cells_of_different_texts_differ(void **state)
{
    (void)state;
    struct kv_pool *p = pool(40, hash_of_nothing);
    int32_t a[3 * CELL] = {1}, b[3 * CELL] = {2}; /* they differ in the first token alone */
    visit(p, 1, a, 3);
    visit(p, 1, b, 3);
    assert_int_equal(kv_pool_stat(p).n_kept, 6);
    assert_int_equal(found(p, 1, a, 3), 3);
    assert_int_equal(found(p, 1, b, 3), 3);
    kv_pool_free(p);
}

/* Fault: the newest evicted before the oldest, or a beginning before its continuation. */
static void evicts_the_oldest_from_its_end(void **state)
{
    (void)state;
    struct kv_pool *p = pool(30, map_hash);
    for (uint64_t i = 0; i < 3; i++)
        visit(p, 1, text(i), 10);
    assert_int_equal(found(p, 1, text(0), 1), 1); /* its beginning is new again */
    struct kv_table t = begin(p, 1, text(5), 4);
    int64_t left = found(p, 1, text(0), 10);
    assert_in_range(left, 1, 6);
    assert_int_equal(found(p, 1, text(1), 10), 10);
    assert_int_equal(found(p, 1, text(2), 10), 10);
    end(&t, p);
    t = begin(p, 1, text(6), 28);
    assert_true(found(p, 1, text(1), 10) == 0); /* older than what was found last */
    end(&t, p);
    kv_pool_free(p);
}

/* Fault: a young text evicted because it lies beside the oldest. */
static void spares_young_neighbours(void **state)
{
    (void)state;
    struct kv_pool *p = pool(40, map_hash);
    for (uint64_t i = 0; i < 4; i++)
        visit(p, 1, text(i), 10);
    visit(p, 1, text(1), 10); /* in the middle, and the newest now */
    struct kv_table t = begin(p, 1, text(5), 12);
    assert_int_equal(found(p, 1, text(0), 10), 0);
    assert_int_equal(found(p, 1, text(1), 10), 10);
    end(&t, p);
    kv_pool_free(p);
}

/* Fault: one tenant's flood of texts that pushes out what the others left. */
static void a_flood_pays_for_itself(void **state)
{
    (void)state;
    struct kv_pool *p = pool(100, map_hash);
    int32_t token[10 * CELL];
    visit(p, 1, text(1), 20);
    for (int32_t i = 0; i < 500; i++) {
        for (int32_t j = 0; j < 10 * CELL; j++)
            token[j] = i * 1000 + j;
        visit(p, 2, token, 10);
    }
    assert_int_equal(found(p, 1, text(1), 20), 20);
    struct kv_stat st = kv_pool_stat(p);
    assert_int_equal(st.taken - st.given_back, st.n_kept + st.n_held);
    for (int32_t i = 0; i < 500; i++) { /* alone, it may have all */
        for (int32_t j = 0; j < 10 * CELL; j++)
            token[j] = i * 1000 + j;
        visit(p, 3 + (uint64_t)i, token, 10);
    }
    assert_int_equal(found(p, 1, text(1), 20), 0);
    kv_pool_free(p);
}

/* Fault: a cell that is being computed taken for one that stands, or left behind when its maker
 * goes.
 */
static void announced_cells_are_not_found(void **state)
{
    (void)state;
    struct kv_pool *p = pool(40, map_hash);
    struct err e = ERR_INIT;
    struct kv_table a = begin(p, 1, text(1), 6), b;
    kv_table_announce(&a, p, text(1), 6 * CELL + 3);
    assert_good(kv_table_init(&b, 100, 1, 0, &e), &e);
    assert_int_equal(kv_table_find(&b, p, text(1), 5 * CELL), a.cell[4]);
    assert_int_equal(b.n, 0);
    kv_table_stood(&a, p, text(1), 2 * CELL + 1);
    assert_int_equal(kv_table_find(&b, p, text(1), 5 * CELL), a.cell[4]);
    assert_int_equal(b.n, 2);
    kv_pool_verify(p);
    end(&a, p);
    kv_table_clear(&b, p);
    assert_int_equal(kv_table_find(&b, p, text(1), 5 * CELL), -1);
    assert_int_equal(b.n, 2);
    end(&b, p);
    kv_pool_free(p);
}

/* Fault: two copies of one text kept, or a copy published under a parent that is not found. */
static void two_who_computed_the_same_share(void **state)
{
    (void)state;
    struct kv_pool *p = pool(40, map_hash);
    struct kv_table a = begin(p, 1, text(1), 6), b = begin(p, 1, text(1), 6);
    kv_table_announce(&a, p, text(1), 6 * CELL);
    kv_table_announce(&b, p, text(1), 6 * CELL);
    assert_int_equal(b.n_open, 0);
    kv_table_stood(&b, p, text(1), 3 * CELL); /* before a: stays its own */
    assert_int_equal(b.n_stand, 0);
    kv_table_stood(&a, p, text(1), 2 * CELL);
    kv_table_stood(&b, p, text(1), 4 * CELL);
    assert_int_equal(b.n_stand, 2);
    kv_table_stood(&a, p, text(1), 6 * CELL);
    kv_table_stood(&b, p, text(1), 6 * CELL);
    assert_memory_equal(a.cell, b.cell, 6 * sizeof *a.cell);
    assert_int_equal(kv_pool_stat(p).n_held, 6);
    kv_pool_verify(p);
    end(&a, p);
    assert_int_equal(kv_pool_stat(p).n_held, 6);
    end(&b, p);
    kv_pool_free(p);
}

/* Fault: forgotten cells found, freed under who holds them, or published again without a parent. */
static void forgets_an_adapter(void **state)
{
    (void)state;
    struct kv_pool *p = pool(40, map_hash);
    visit(p, 1, text(2), 5);
    struct kv_table a = begin(p, 1, text(1), 6);
    kv_table_announce(&a, p, text(1), 6 * CELL);
    kv_table_stood(&a, p, text(1), 2 * CELL);
    kv_pool_forget(p, 0);
    kv_pool_verify(p);
    assert_int_equal(kv_pool_stat(p).n_kept, 0);
    assert_int_equal(kv_pool_stat(p).n_held, 6);
    kv_table_stood(&a, p, text(1), 6 * CELL);
    kv_pool_verify(p);
    assert_int_equal(found(p, 1, text(1), 6), 0);
    end(&a, p);
    assert_int_equal(kv_pool_stat(p).n_free, 40);
    kv_pool_free(p);
}

/* Fault: a table that takes cells and then finds that there are not enough. */
static void grows_or_does_nothing(void **state)
{
    (void)state;
    struct kv_pool *p = pool(10, map_hash);
    struct kv_table a = begin(p, 1, text(1), 6), b = begin(p, 1, text(2), 2);
    assert_false(kv_table_grow(&b, p, 5, 5));
    assert_int_equal(b.n, 2);
    assert_int_equal(kv_pool_room(p), 2);
    assert_true(kv_table_grow(&b, p, 4, 90));
    assert_int_equal(kv_pool_room(p), 0);
    end(&a, p);
    assert_true(kv_table_grow(&b, p, 10, 10));
    end(&b, p);
    kv_pool_free(p);
}

/* Tables that come and go, n_live of them at a time: each begins with a prompt and grows cell by
 * cell to between there and `most`. */
struct life {
    uint64_t n_live, n_round;
    int64_t n_cell, prompt, most;
    bool keeps;
};

enum { LIVE_MAX = 64, MOST_MAX = 100 };

/* How many runs a table's cells stand in on the mean. */
static double mean_runs(const struct life *f)
{
    struct kv_pool *p = pool(f->n_cell, map_hash);
    struct kv_table t[LIVE_MAX] = {0};
    int32_t token[MOST_MAX * CELL];
    int64_t n_run = 0, n_cell = 0, n_table = 0;
    uint64_t grown = (uint64_t)(f->most - f->prompt - 1);
    for (uint64_t i = 0; i < f->n_round; i++) {
        struct kv_table *x = &t[rng_below(1, 0, i, f->n_live)];
        int64_t most = f->prompt + 1 + (int64_t)rng_below(1, 1, i, grown);
        for (int32_t j = 0; j < f->most * CELL; j++)
            token[j] = (int32_t)i * 1000 + j;
        if (x->cell && x->n < most) {
            assert_true(kv_table_grow(x, p, x->n + 1, f->most));
            continue;
        }
        for (int64_t c = 0; c < x->n; c++)
            n_run += !c || x->cell[c] != x->cell[c - 1] + 1;
        n_cell += x->n;
        n_table += x->n > 0;
        if (x->cell && f->keeps)
            kv_table_stood(x, p, token, x->n * CELL);
        kv_table_release(x, p);
        *x = begin(p, 1, token, 0);
        assert_true(kv_table_grow(x, p, f->prompt, f->most));
    }
    for (uint64_t i = 0; i < f->n_live; i++)
        end(&t[i], p);
    kv_pool_free(p);
    assert_true(n_cell > f->prompt * n_table);
    return (double)n_run / (double)n_table;
}

/* Fault: cells of a sequence all over the pool. */
static void cells_stand_in_a_row(void **state)
{
    (void)state;
    struct life f = {.n_live = 64, .n_round = 60000, .n_cell = 4000, .prompt = 4, .most = 19};
    double fresh = mean_runs(&f), kept;
    f.keeps = true;
    kept = mean_runs(&f);
    print_message("runs of a table: %.2f when cells are given back, %.2f when they are kept\n",
                  fresh, kept);
    assert_true(fresh < 1.3 && kept < 2);
}

/* Fault: long sequences in short runs, while a tenth of the pool is free or kept: attention is fast
 * where runs are long, and is timed on runs of 64. */
static void long_sequences_stand_in_long_runs(void **state)
{
    (void)state;
    struct life f = {.n_live = 16, .n_round = 10000, .n_cell = 1760, .prompt = 80, .most = 99};
    double fresh = mean_runs(&f), kept;
    f.keeps = true;
    kept = mean_runs(&f);
    print_message(
        "runs of 80 to 98 cells: %.2f when cells are given back, %.2f when they are kept\n", fresh,
        kept);
    assert_true(fresh < 1.5 && kept < 2);
}

/* Fault: sizes that do not fit the arrays. */
static void refuses_impossible_sizes(void **state)
{
    (void)state;
    const int64_t size[][2] = {{0, 4}, {INT64_C(1) << 31, 4}, {4, 0}, {4, KV_CELL_TOK_MAX + 1}};
    for (int i = 0; i < 4; i++) {
        struct err e = ERR_INIT;
        struct kv_options o = {.n_cell = size[i][0], .cell_tok = size[i][1], .hash = map_hash};
        assert_null(kv_pool_new(&o, &e));
        assert_int_equal(e.code, ERR_BAD_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_text_again),
        cmocka_unit_test(equal_cells_of_different_texts_differ),
        cmocka_unit_test(evicts_the_oldest_from_its_end),
        cmocka_unit_test(spares_young_neighbours),
        cmocka_unit_test(a_flood_pays_for_itself),
        cmocka_unit_test(announced_cells_are_not_found),
        cmocka_unit_test(two_who_computed_the_same_share),
        cmocka_unit_test(forgets_an_adapter),
        cmocka_unit_test(grows_or_does_nothing),
        cmocka_unit_test(cells_stand_in_a_row),
        cmocka_unit_test(long_sequences_stand_in_long_runs),
        cmocka_unit_test(refuses_impossible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
