/* SPDX-License-Identifier: Apache-2.0
 *
 * The factor of sums, and rows that are rounded by it. Faults: a factor that is not that of the
 * sums; one that differs by the number of threads; errors that are fed back and do not make the
 * outputs better; an error that is told and is another; sums without a factor that are taken for
 * one.
 */
#include "engine/quant/matrix.h"
#include "tests/lib/test.h"

#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/quant/factor.h"

enum { K = 160, X_ROWS = 400, ROWS = 12, GROUP = 32 };

static float draw(uint64_t *at)
{
    return rng_normal(1, 2, ++*at);
}

/* Inputs that go together, as those of a model do: each is near the one before. */
static float *make_sums(float *inputs)
{
    struct err e = ERR_INIT;
    uint64_t at = 5;
    float *h = try_alloc(K * K, sizeof *h, "sums", &e);
    for (int r = 0; r < X_ROWS; r++)
        for (int c = 0; c < K; c++)
            inputs[r * K + c] =
                draw(&at) * (c % 7 == 3 ? 5 : 1) + (c ? 0.8f * inputs[r * K + c - 1] : 0);
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++)
            for (int r = 0; r < X_ROWS; r++)
                h[i * K + j] += inputs[r * K + i] * inputs[r * K + j];
    return h;
}

static float *factored(int n_thread, float *inputs)
{
    struct err e = ERR_INIT;
    float *h = make_sums(inputs), diagonal[K];
    struct pool *pool = pool_new(n_thread, false, &e);
    assert_non_null(pool);
    assert_int_equal(quant_factor(h, diagonal, K, pool), 0);
    pool_free(pool);
    return h;
}

static void the_factor_is_of_the_sums(void **state)
{
    static float inputs[X_ROWS * K];
    (void)state;
    float *sums = make_sums(inputs), *r = factored(1, inputs), *other = factored(3, inputs);
    double mean = 0;
    for (int i = 0; i < K; i++)
        mean += (double)sums[i * K + i] / K;
    for (int i = 0; i < K; i++)
        for (int j = i; j < K; j++) {
            double sum = i == j ? -0.01 * mean : 0;
            for (int c = j; c < K; c++)
                sum += (double)r[i * K + c] * (double)r[j * K + c];
            assert_true(fabs(sum - (double)sums[i * K + j]) < 1e-4 * mean * 10);
            assert_memory_equal(&r[i * K + j], &other[i * K + j], sizeof *r);
        }
    mem_free(sums);
    mem_free(r);
    mem_free(other);
}

static void what_is_no_sum_has_no_factor(void **state)
{
    struct err e = ERR_INIT;
    struct pool *pool = pool_new(1, false, &e);
    float h[4] = {0}, odd[4] = {1, 9, 9, 1}, diagonal[2];
    (void)state;
    assert_int_equal(quant_factor(h, diagonal, 2, pool), -1);
    assert_int_equal(quant_factor(odd, diagonal, 2, pool), -1);
    pool_free(pool);
}

/* The squared error of the outputs, and what the damping adds. */
static double output_error(const float *inputs, const float *x, const struct quant_rows *to)
{
    double sum = 0;
    for (int row = 0; row < ROWS; row++)
        for (int r = 0; r < X_ROWS; r++) {
            double y = 0;
            for (int c = 0; c < K; c++) {
                double q = (double)to->scale[row * (K / GROUP) + c / GROUP] *
                           (double)to->code[row * K + c];
                y += ((double)x[row * K + c] - q) * (double)inputs[r * K + c];
            }
            sum += y * y;
        }
    return sum;
}

static void feeding_back_is_better(void **state)
{
    static float inputs[X_ROWS * K], x[ROWS * K], behind[ROWS * K], scale[ROWS * K / GROUP];
    static float aim[GROUP], weight[GROUP];
    static int8_t code[ROWS * K];
    (void)state;
    float *r = factored(2, inputs);
    uint64_t at = 99;
    for (int i = 0; i < ROWS * K; i++)
        x[i] = draw(&at);
    struct quant_matrix m = {
        .target = quant_target_find("int4"), .scale_type = K_BF16, .k = K, .group = GROUP};
    struct quant_rows rows = {.x = x,
                              .n = ROWS,
                              .code = code,
                              .scale = scale,
                              .behind = behind,
                              .aim = aim,
                              .weight = weight};
    quant_matrix_rows(&m, &rows);
    double nearest = output_error(inputs, x, &rows);
    m.r = r;
    quant_matrix_rows(&m, &rows);
    double fed = output_error(inputs, x, &rows);
    assert_true(fed < 0.6 * nearest);
    assert_true(rows.error > fed && rows.error < 1.3 * fed);
    mem_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factor_is_of_the_sums),
        cmocka_unit_test(what_is_no_sum_has_no_factor),
        cmocka_unit_test(feeding_back_is_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
