/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of what is trained, seen and set from anywhere to anywhere. Faults: a run of a matrix that
 * touches its neighbours, or whose low halves are another's; a number that halves cannot tell and
 * that comes back as a far other one, or is not told to who set it.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/train/trainer.h"
#include "engine/train/value.h"
#include "kernels/float16.h"
#include "kernels/halves.h"
#include "tests/lib/golden.h"

enum { ROUNDS = 20 };

static float number(uint64_t round, int64_t i)
{
    uint32_t u = (uint32_t)rng_below(5, round, (uint64_t)i, 1 << 23) | UINT32_C(0x3d000000);
    return f32_from_bits(i % 3 ? u : (u & ~(uint32_t)HALVES_TIE) | HALVES_TIE_UP);
}

/* Sets some runs of x; behind each it is what it was but for them. */
static void set_runs(struct train_value *v, const struct train_tensor *x)
{
    struct err e = ERR_INIT;
    int64_t all = x->rows * x->cols;
    float *want = calloc((size_t)all, sizeof *want), *got = calloc((size_t)all, sizeof *got);
    assert_good(train_value_get(v, x, 0, all, want, &e), &e);
    for (uint64_t r = 0; r < ROUNDS; r++) {
        int64_t at = (int64_t)rng_below(6, r, 0, (uint64_t)all);
        int64_t n = 1 + (int64_t)rng_below(6, r, 1, (uint64_t)(all - at));
        for (int64_t i = 0; i < n; i++)
            want[at + i] = number(r, i);
        assert_good(train_value_put(v, x, at, n, want + at, &e), &e);
        for (int64_t i = 0; i < n && !x->p; i++)
            assert_int_equal(f32_bits(want[at + i]), halves_fit(f32_bits(number(r, i))));
        assert_good(train_value_get(v, x, 0, all, got, &e), &e);
        assert_memory_equal(got, want, (size_t)all * sizeof *got);
        assert_good(train_value_get(v, x, at, n, got, &e), &e);
        assert_memory_equal(got, want + at, (size_t)n * sizeof *got);
    }
    free(want);
    free(got);
}

/* A panel's rows are this rank's, in the middle of what is set; the rest has what products read. */
static void set_around_own(struct train_value *v, struct train_tensors *on)
{
    struct err e = ERR_INIT;
    const struct train_tensor *x = on->list.at;
    while (x->p || x->rows < 3 * K_NR)
        x++;
    int64_t all = x->rows * x->cols, panel = K_NR * x->cols, lo = on->own_lo, hi = on->own_hi;
    float *want = calloc((size_t)all, sizeof *want), *got = calloc((size_t)all, sizeof *got);
    on->own_lo = x->at + panel;
    on->own_hi = x->at + 2 * panel;
    for (int64_t i = 0; i < all; i++)
        want[i] = number(ROUNDS, i);
    assert_good(train_value_put(v, x, 0, all, want, &e), &e);
    assert_good(train_value_get(v, x, panel, panel, got, &e), &e);
    assert_memory_equal(got, want + panel, (size_t)panel * sizeof *got);
    assert_good(train_value_get(v, x, 0, panel, got, &e), &e);
    for (int64_t i = 0; i < panel; i++)
        assert_int_equal(f32_bits(got[i]), (uint32_t)bf16_from_f32(want[i]) << 16);
    on->own_lo = lo;
    on->own_hi = hi;
    free(want);
    free(got);
}

static void what_is_set_is_seen(void **state)
{
    struct golden g;
    struct train_options o;
    struct err e = ERR_INIT;
    (void)state;
    golden_init(&g, "llama_tied", K_BF16, 0);
    train_options_default(&o);
    o.lora.rank = 0;
    struct trainer *t = trainer_new(g.model, &o, g.stream, &e);
    assert_good(t ? 0 : -1, &e);
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct train_value v = {.on = on, .stream = g.stream};
    for (size_t i = 0; i < on->list.n; i++)
        set_runs(&v, &on->list.at[i]);
    set_around_own(&v, on);
    train_value_release(&v);
    trainer_free(t);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_set_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
