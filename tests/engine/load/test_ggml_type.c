/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/ggml_type: every quantised kind's blocks against what the reference makes of them.
 */
#include <stdio.h>
#include <string.h>

#include "engine/load/ggml_type.h"
#include "engine/load/weights.h"
#include "kernels/coded.h"
#include "kernels/float16.h"
#include "tests/lib/test.h"

static const struct weight *get(const struct weights *w, const char *kind, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, what);
    return weights_get(w, name);
}

/* Fault: a formula that rounds elsewhere, a nibble or a scale of another place. */
static void test_values_bit_for_bit(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file("tests/golden/gguf/blocks.safetensors", &e);
    int n_seen = 0;
    assert_good(w ? 0 : -1, &e);
    for (uint32_t i = 0; i < 64; i++) {
        const struct ggml_type *t = ggml_type_get(i);
        if (!t || !t->unpack)
            continue;
        const struct weight *blocks = get(w, t->name, "blocks"),
                            *values = get(w, t->name, "values");
        assert_non_null(blocks);
        assert_int_equal(weight_row_bytes(blocks), t->bytes);
        assert_int_equal(weight_row_len(values), t->block);
        for (int64_t row = 0; row < weight_rows(blocks); row++) {
            uint8_t block[GGML_BLOCK_BYTES_MAX];
            float want[GGML_BLOCK_MAX], got[GGML_BLOCK_MAX];
            assert_good(weight_read(blocks, row, 1, block, &e), &e);
            assert_good(weight_read(values, row, 1, want, &e), &e);
            t->unpack(block, got);
            if (memcmp(got, want, t->block * sizeof *got) != 0)
                fail_msg("%s: block %d has other values", t->name, (int)row);
        }
        n_seen++;
    }
    assert_int_equal(n_seen, 13);
    weights_close(w);
}

/* A block's codes as a format's, times their scale. */
static void check_codes(const struct ggml_type *t, const uint8_t *block, const float *want)
{
    uint8_t own[CODED_INT8G_BYTES];
    if (t->recode)
        t->recode(block, own);
    else
        memcpy(own, block, t->bytes);
    for (int i = 0; i < CODED_INPUTS; i++) {
        float got = f16_to_f32(coded_scale(own)) * (float)coded_code(t->coded, own, i);
        if (memcmp(&got, &want[i], sizeof got) != 0)
            fail_msg("%s: number %d is another in codes", t->name, i);
    }
}

/* Fault: codes of a format that mean another number than their block's formula gives. */
static void test_codes_bit_for_bit(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file("tests/golden/gguf/blocks.safetensors", &e);
    int n_seen = 0;
    assert_good(w ? 0 : -1, &e);
    for (uint32_t i = 0; i < 64; i++) {
        const struct ggml_type *t = ggml_type_get(i);
        if (!t || t->coded == K_F32)
            continue;
        const struct weight *blocks = get(w, t->name, "blocks"),
                            *values = get(w, t->name, "values");
        for (int64_t row = 0; row < weight_rows(blocks); row++) {
            uint8_t block[GGML_BLOCK_BYTES_MAX];
            float want[GGML_BLOCK_MAX];
            assert_good(weight_read(blocks, row, 1, block, &e), &e);
            assert_good(weight_read(values, row, 1, want, &e), &e);
            check_codes(t, block, want);
        }
        n_seen++;
    }
    assert_int_equal(n_seen, 4);
    weights_close(w);
}

/* Fault: a number of no kind is taken, or one that cannot be read passes as a weight. */
static void test_kinds(void **state)
{
    (void)state;
    assert_null(ggml_type_get(4));
    assert_null(ggml_type_get(40));
    assert_null(ggml_type_get(UINT32_MAX));
    assert_true(ggml_type_is_read(ggml_type_get(0)));
    assert_true(ggml_type_is_read(ggml_type_get(30)));
    assert_true(ggml_type_is_read(ggml_type_get(12)));
    assert_false(ggml_type_is_read(ggml_type_get(16)));
    assert_false(ggml_type_is_read(ggml_type_get(26)));
    for (uint32_t i = 0; i < 64; i++)
        if (ggml_type_get(i) && ggml_type_is_read(ggml_type_get(i)))
            assert_true(ggml_type_get(i)->block <= GGML_BLOCK_MAX &&
                        ggml_type_get(i)->bytes <= GGML_BLOCK_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_bit_for_bit),
        cmocka_unit_test(test_codes_bit_for_bit),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
