/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's scale and codes. Faults: numbers that are codes of some scale and come back as others;
 * a search that does worse than the plain scale; a scale that the file's type or f16 would round;
 * a group of zeros that divides by them; words whose first code stands elsewhere; a number that
 * goes to another of e4m3 than the nearest, ties to the even one.
 */
#include "engine/quant/group.h"
#include "tests/lib/test.h"

#include <math.h>

#include "engine/base/rng.h"
#include "kernels/float16.h"

enum { N = 32, TRIES = 200 };

static const char *const names[] = {"int4", "int8"};

static float draw(uint64_t *at)
{
    return rng_normal(1, 2, ++*at);
}

static double error_of(const struct quant_target *t, const float *x, float scale)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double d = (double)x[i] - (double)scale * quant_code(t, x[i], scale);
        sum += d * d;
    }
    return sum;
}

static void codes_come_back(void **state)
{
    (void)state;
    uint64_t at = 1;
    for (size_t k = 0; k < 2; k++) {
        const struct quant_target *t = quant_target_find(names[k]);
        assert_non_null(t);
        for (int try = 0; try < TRIES; try++) {
            float x[N], scale = 0x1.5p-7f * (float)(1 + try % 3);
            for (int i = 0; i < N; i++)
                x[i] = scale *
                       (float)(t->lo + (int)rng_below(1, 3, ++at, (uint64_t)(t->hi - t->lo + 1)));
            x[3] = scale * (float)t->lo;
            float found = quant_scale(t, K_BF16, x, NULL, N);
            assert_true(error_of(t, x, found) == 0);
        }
    }
}

static void the_search_gains(void **state)
{
    (void)state;
    uint64_t at = 7;
    double plain = 0, searched = 0;
    const struct quant_target *t = quant_target_find("int4");
    for (int try = 0; try < TRIES; try++) {
        float x[N], most = 0;
        for (int i = 0; i < N; i++) {
            x[i] = draw(&at);
            most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
        }
        float simple = f16_to_f32(f16_from_f32(most / (float)t->lo));
        float found = quant_scale(t, K_F16, x, NULL, N);
        assert_true(error_of(t, x, found) <= error_of(t, x, simple) * 1.00001);
        plain += error_of(t, x, simple);
        searched += error_of(t, x, found);
    }
    assert_true(searched < 0.9 * plain);
}

static void weights_count(void **state)
{
    (void)state;
    float x[N], weight[N];
    uint64_t at = 3;
    const struct quant_target *t = quant_target_find("int4");
    for (int i = 0; i < N; i++) {
        x[i] = draw(&at);
        weight[i] = i == 5 ? 1e6f : 1;
    }
    float scale = quant_scale(t, K_F16, x, weight, N);
    double d = (double)x[5] - (double)scale * quant_code(t, x[5], scale);
    assert_true(fabs(d) < 0.02 * fabs((double)scale));
}

static void scales_are_stored_exactly(void **state)
{
    (void)state;
    uint64_t at = 11;
    for (size_t k = 0; k < 2; k++) {
        const struct quant_target *t = quant_target_find(names[k]);
        for (int try = 0; try < TRIES; try++) {
            float x[N], by = ldexpf(1, -40 + try / 4);
            for (int i = 0; i < N; i++)
                x[i] = by * draw(&at);
            float s = quant_scale(t, K_BF16, x, NULL, N);
            assert_true(bf16_to_f32(bf16_from_f32(s)) == s && f16_to_f32(f16_from_f32(s)) == s);
        }
    }
}

static void zeros_stay(void **state)
{
    (void)state;
    float x[N] = {0};
    const struct quant_target *t = quant_target_find("int4");
    assert_true(quant_scale(t, K_BF16, x, NULL, N) == 0);
    assert_int_equal(quant_code(t, 0, 0), 0);
    assert_null(quant_target_find("int3"));
}

static void words_have_their_order(void **state)
{
    (void)state;
    const int8_t code[8] = {-8, 7, 0, 1, -1, 2, -2, 3}, byte[4] = {-127, 0, 1, 127};
    uint32_t word;
    quant_pack(quant_target_find("int4"), code, 8, &word);
    assert_int_equal(word, 0xb6a798f0);
    quant_pack(quant_target_find("int8"), byte, 4, &word);
    assert_int_equal(word, 0xff818001);
    quant_pack(quant_target_find("fp8"), byte, 4, &word);
    assert_int_equal(word, 0x7f010081);
}

/* Every number of e4m3 keeps its byte; between two, the middle goes to the even one. */
static void fp8_goes_to_the_nearest(void **state)
{
    (void)state;
    const struct quant_target *t = quant_target_find("fp8");
    for (int sign = 0; sign < 2; sign++)
        for (int code = 1; code <= 0x7e; code++) {
            int byte = code | sign << 7, low = byte - 1;
            float v = quant_value(t, byte), below = quant_value(t, low), middle = (v + below) / 2;
            assert_int_equal(quant_code(t, v, 1) & 0xff, byte);
            assert_int_equal(quant_code(t, 3 * v, 3) & 0xff, byte);
            int even = low % 2 ? byte : low;
            assert_int_equal(quant_code(t, middle, 1) & 0xff, even == 0x80 ? 0 : even);
            assert_int_equal(quant_code(t, nextafterf(middle, v), 1) & 0xff, byte);
        }
    assert_int_equal(quant_code(t, 1e30f, 1) & 0xff, 0x7e);
    assert_int_equal(quant_code(t, -1e30f, 1) & 0xff, 0xfe);
    float x[N] = {448 * 3, -7 * 3};
    assert_true(quant_scale(t, K_F32, x, NULL, N) == 3);
    x[0] = -x[0];
    assert_true(quant_scale(t, K_F32, x, NULL, N) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_come_back),
        cmocka_unit_test(the_search_gains),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(scales_are_stored_exactly),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(words_have_their_order),
        cmocka_unit_test(fp8_goes_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
