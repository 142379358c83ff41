/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of usable rows alone, over datasets of drawn kinds. Faults: a row with nothing to learn
 * in a batch, one that is skipped or comes twice, labels or log-probabilities that share their
 * room, more rows than there is room for.
 */
#include "tests/lib/test.h"

#include "engine/base/rng.h"
#include "engine/train/row_set.h"

enum { SEED = 5, LONGEST = 17 };

/* Row i has a drawn length; a third has nothing to learn. Ids count up over the whole set. */
static void fill(struct dataset *d, int64_t n, uint64_t seed)
{
    int32_t id = 0;
    dataset_init(d, &(struct dataset_options){.max_tok = LONGEST});
    for (int64_t i = 0; i < n; i++) {
        struct dataset_row r = {.at = d->id.n,
                                .n = (int64_t)rng_below(seed, 1, (uint64_t)i, LONGEST)};
        bool is_barren = rng_below(seed, 2, (uint64_t)i, 3) == 0;
        for (int64_t k = 0; k <= r.n; k++) {
            vec_push(&d->id, id++);
            vec_push(&d->is_learned, !is_barren && k > 0);
            r.n_learn += !is_barren && k > 0;
        }
        r.n++;
        vec_push(&d->row, r);
    }
}

/* All of the batch stands in its room, and each of its rows is the dataset's. */
static void check_batch(const struct row_set *s, int64_t first)
{
    const int32_t *label = s->label;
    assert_true(s->n_row <= s->cap_row && s->n_tok <= s->cap_tok);
    for (int64_t i = 0; i < s->n_row; i++) {
        const struct train_row *row = &s->row[i];
        const struct dataset_row *from = &s->data->row.at[s->usable[first + i]];
        assert_ptr_equal(row->label, label);
        assert_ptr_equal(row->logprob, s->logprob + (label - s->label));
        assert_ptr_equal(row->id, s->data->id.at + from->at);
        assert_true(from->n_learn > 0 && row->n == from->n);
        for (int64_t k = 0; k + 1 < row->n; k++)
            assert_int_equal(row->label[k], row->id[k + 1]);
        assert_int_equal(s->example[i], s->usable[first + i] + 1);
        label += row->n;
    }
    assert_int_equal(label - s->label, s->n_tok);
}

static void batches(void **state)
{
    (void)state;
    for (uint64_t turn = 0; turn < 200; turn++) {
        struct err e = ERR_INIT;
        struct dataset d;
        struct row_set s;
        int64_t n = (int64_t)rng_below(SEED, 3, turn, 60), usable = 0, done = 0;
        int64_t batch = 1 + (int64_t)rng_below(SEED, 4, turn, 70);
        fill(&d, n, turn);
        for (size_t i = 0; i < d.row.n; i++)
            usable += d.row.at[i].n_learn > 0;
        assert_good(row_set_init(&s, &d, batch, &e), &e);
        assert_int_equal(s.n, usable);
        while (done < s.n) {
            int64_t first = done;
            row_set_clear(&s);
            while (done < s.n && row_set_add(&s, done))
                done++;
            assert_int_equal(s.n_row, s.n - first < batch ? s.n - first : batch);
            check_batch(&s, first);
        }
        if (s.n > 0 && s.n_row == s.cap_row)
            assert_false(row_set_add(&s, 0));
        row_set_release(&s);
        dataset_release(&d);
    }
}

/* Faults: a pair in two batches, one of which a row is missing, two rows that share what is known
 * of them. Every second pair has nothing to learn. */
static void pairs(void **state)
{
    struct err e = ERR_INIT;
    struct dataset d;
    struct row_set s;
    (void)state;
    fill(&d, 40, 3);
    d.opt.has_pairs = true;
    for (size_t i = 0; i < d.row.n; i++)
        d.row.at[i].n_learn = i / 2 % 2 ? 0 : d.row.at[i].n;
    assert_good(row_set_init(&s, &d, 3, &e), &e);
    assert_int_equal(s.n, 10);
    for (int64_t i = 0; i < s.n;) {
        row_set_clear(&s);
        while (i < s.n && row_set_add(&s, i))
            i++;
        assert_int_equal(s.n_row, i < s.n ? 6 : 2);
        for (int64_t k = 0; k < s.n_row; k++) {
            const struct dataset_row *from = &d.row.at[4 * ((i - s.n_row / 2) + k / 2) + k % 2];
            assert_ptr_equal(s.row[k].id, d.id.at + from->at);
            assert_ptr_equal(s.row[k].reference, s.reference + from->at);
            assert_true(s.row[k].reference[0] != s.row[k].reference[0]);
            assert_int_equal(s.example[k], 2 * ((i - s.n_row / 2) + k / 2) + 1);
        }
    }
    row_set_release(&s);
    dataset_release(&d);
}

/* Faults: a row that counts what another does, or as many times its tokens; rows without weights
 * that have some. */
static void weights(void **state)
{
    struct err e = ERR_INIT;
    struct dataset d;
    struct row_set s;
    (void)state;
    fill(&d, 9, 3);
    assert_good(row_set_init(&s, &d, 9, &e), &e);
    for (int64_t i = 0; i < s.n; i++)
        assert_true(row_set_add(&s, i));
    assert_null(s.row[0].weight);
    row_set_release(&s);
    d.has_weights = true;
    for (size_t i = 0; i < d.row.n; i++)
        d.row.at[i].weight = (float)(i + 1) / 4;
    assert_good(row_set_init(&s, &d, 9, &e), &e);
    for (int64_t i = 0; i < s.n; i++)
        assert_true(row_set_add(&s, i));
    assert_true(s.n_row > 2);
    for (int64_t i = 0; i < s.n_row; i++)
        for (int64_t k = 0; k < s.row[i].n; k++)
            assert_true(s.row[i].weight[k] == (float)(s.usable[i] + 1) / 4);
    row_set_release(&s);
    dataset_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches), cmocka_unit_test(pairs),
                                       cmocka_unit_test(weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
