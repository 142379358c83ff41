/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/ggml_type: every quantised kind's blocks against what the reference makes of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/ggml_type.h"
#include "engine/load/weights.h"
#include "kernels/coded.h"
#include "kernels/format.h"
#include "kernels/nested.h"
#include "tests/lib/test.h"

static const struct weight *get(const struct weights *w, const char *kind, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, what);
    return weights_get(w, name);
}

/* Faults: a formula that rounds elsewhere, a nibble or a scale of another place; a number more than
 * a block has. */
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
            float want[GGML_BLOCK_MAX], got[GGML_BLOCK_MAX + 1];
            assert_good(weight_read(blocks, row, 1, block, &e), &e);
            assert_good(weight_read(values, row, 1, want, &e), &e);
            got[t->block] = -INFINITY;
            t->unpack(block, got);
            assert_true(isinf(got[t->block]));
            if (memcmp(got, want, t->block * sizeof *got) != 0)
                fail_msg("%s: block %d has other values", t->name, (int)row);
        }
        n_seen++;
    }
    assert_int_equal(n_seen, 13);
    weights_close(w);
}

enum { OWN_BYTES_MAX = GGML_BLOCK_MAX / CODED_INPUTS * CODED_INT8K_BYTES };

/* A block of codes, over and over where the format's is wider, as a weight of one output. */
static void check_packed(const struct ggml_type *t, const uint8_t *own, const float *want)
{
    const enum k_type type = t->coded;
    static uint8_t data[GGML_BLOCK_MAX * K_NR * 2] __attribute__((aligned(64)));
    struct kernel_table table;
    float got[GGML_BLOCK_MAX];
    uint8_t all[OWN_BYTES_MAX];
    int64_t k = format_stream(type, 0).inputs, bytes = coded_bytes(t->coded, t->block);
    k = k < t->block ? t->block : k;
    for (int64_t i = 0; i < k / t->block; i++)
        memcpy(all + i * bytes, own, (size_t)bytes);
    struct k_weight_pack a = {.src = all, .src_type = t->coded, .ld_src = k, .n_src = 1};
    assert_true(k_weight_bytes(type, 1, k) <= sizeof data);
    k_weight_bind(&a.w, type, 1, k, data);
    struct k_weight_unpack b = {.w = a.w, .dst = got, .ld_dst = k};
    kernel_table_init(&table, getenv("TEST_KERNELS"));
    kernel_run(&table, K_weight_pack, &a, NULL);
    kernel_run(&table, K_weight_unpack, &b, NULL);
    for (int64_t i = 0; i < k; i++)
        if (memcmp(&got[i], &want[i % t->block], sizeof *got) != 0)
            fail_msg("%s: number %d is another in %s", t->name, (int)i, k_format(type)->name);
}

/* A block's codes, packed, mean what its formula makes. */
static void check_codes(const struct ggml_type *t, const uint8_t *block, const float *want)
{
    uint8_t own[OWN_BYTES_MAX + 1];
    size_t bytes = (size_t)coded_bytes(t->coded, t->block);
    own[bytes] = 0xa5;
    if (t->recode)
        t->recode(block, own);
    else
        memcpy(own, block, t->bytes);
    assert_int_equal(own[bytes], 0xa5);
    if (t->dtype == ST_BF16 && (block[0] < 104 || block[0] > 143)) { /* MXFP4: beyond f16 */
        assert_int_equal(coded_scale(own) & 0x7c00, 0x7c00);
        return;
    }
    check_packed(t, own, want);
}

/* Faults: codes of a format that mean another number than their block's formula gives, or one more
 * than the block has. */
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
    assert_int_equal(n_seen, 13);
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
