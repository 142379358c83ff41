/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tokens. Faults: a row that is lost or counted twice where a long one is cut; more tokens
 * than were asked for; rows that are measured on and calibrated on; labels that are not the next
 * tokens.
 */
#include "engine/quant/texts.h"
#include "tests/lib/test.h"

#include "tests/lib/tiny.h"

enum { N = 100 };

static void add(struct quant_texts *t, int32_t first, size_t n, size_t most)
{
    struct err e = ERR_INIT;
    int32_t id[N];
    for (size_t i = 0; i < n; i++)
        id[i] = first + (int32_t)i;
    assert_good(quant_texts_add(t, id, n, most, &e), &e);
}

static void long_rows_are_cut(void **state)
{
    struct quant_texts t = {.cap_tok = 70};
    (void)state;
    add(&t, 0, 41, 20); /* the last is one token, which says nothing */
    assert_int_equal(t.end.n, 2);
    assert_int_equal(t.id.n, 40);
    add(&t, 5, 50, 50);
    assert_int_equal(t.end.n, 3);
    assert_int_equal(t.id.n, 70);
    assert_int_equal(t.id.at[quant_texts_begin(&t, 2)], 5);
    assert_int_equal(t.longest, 30);
    add(&t, 5, 50, 50);
    assert_int_equal(t.end.n, 3);
    quant_texts_release(&t);
}

static void every_eighth_is_held_out(void **state)
{
    struct quant_texts t = {.cap_tok = 0}, held = {.cap_tok = 0};
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i < 17; i++)
        add(&t, i * 3, 3, N);
    assert_good(quant_texts_hold_out(&t, &held, &e), &e);
    assert_int_equal(t.end.n, 15);
    assert_int_equal(held.end.n, 2);
    assert_int_equal(held.id.at[0], 7 * 3);
    assert_int_equal(held.id.at[3], 15 * 3);
    for (size_t i = 0; i < t.id.n; i++)
        assert_true(t.id.at[i] / 3 % 8 != 7);
    quant_texts_release(&t);
    quant_texts_release(&held);
}

static void rows_are_packed_with_their_labels(void **state)
{
    struct tiny m;
    struct config c = tiny_config(FAMILY_LLAMA);
    struct quant_texts t = {.cap_tok = 0};
    struct err e = ERR_INIT;
    size_t next = 0;
    int64_t n_row = 0;
    (void)state;
    tiny_init(&m, &c, K_F32, 1, NULL);
    for (int i = 0; i < 100; i++)
        add(&t, 1, 12, N);
    struct packed *p = quant_texts_packed(&t, m.model, m.stream, &e);
    assert_good(p ? 0 : -1, &e);
    while (next < t.end.n) {
        assert_good(quant_texts_pack(&t, &next, true, p, &e), &e);
        const struct batch *b = packed_batch(p, 1, 0);
        assert_int_equal(b->n[DIM_OUT], packed_n_row(p) * 11);
        for (int64_t i = 0; i < b->n[DIM_OUT]; i++)
            assert_int_equal(b->target[i], b->token[b->out_row[i]] + 1);
        n_row += packed_n_row(p);
    }
    assert_int_equal(n_row, 100);
    packed_free(p);
    quant_texts_release(&t);
    tiny_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_rows_are_cut),
        cmocka_unit_test(every_eighth_is_held_out),
        cmocka_unit_test(rows_are_packed_with_their_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
