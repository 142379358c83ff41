/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/packed_bytes: matrices whose codes are e4m3, or integers of a byte. Faults they can
 * catch: a scale of another block, row or group; -128, or a subnormal number, that becomes another;
 * codes of a format that mean another number; a scale that is missing or for other blocks, a zero
 * point, a number that is not finite, and it is taken.
 */
#include "tests/engine/load/packed_check.h"

static const struct {
    const char *name;
    int64_t block;
    enum k_type coded;
} layout[] = {
    {"fp8_block", 128, K_FP8}, {"fp8_block_half", 32, K_F32}, {"fp8_channel", 0, K_FP8},
    {"fp8_tensor", 0, K_FP8},  {"int8_channel", 0, K_INT8C},  {"int8_group", 0, K_INT8C},
};

static const char *golden(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "tests/golden/packed/%s", name);
    return path;
}

static struct weights *open_layout(const char *dir, int64_t block, struct err *e)
{
    struct packing how = {.method = PACKING_FP8, .block = {block, block}};
    return weights_open_packed(dir, &how, e);
}

static void values_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        struct err e = ERR_INIT;
        struct weights *w = open_layout(golden(layout[i].name), layout[i].block, &e);
        assert_good(w ? 0 : -1, &e);
        assert_true(weights_are_packed(w));
        check_packed(w, "m0", layout[i].coded);
        assert_ptr_equal(packed_weight_counted(w, weights_at(w, 0)->t),
                         weights_get(w, weights_at(w, 0)->t->name)->t);
        weights_close(w);
    }
}

static void expect_bad(const char *dir, int64_t block, const char *words)
{
    struct err e = ERR_INIT;
    assert_null(open_layout(dir, block, &e));
    if (!strstr(e.msg, words) || !strstr(e.msg, "model.safetensors: m0."))
        fail_msg("'%s' is not in: %s", words, e.msg);
}

static void bad_parts_are_named(void **state)
{
    static const uint8_t one = 1;
    char *dir = test_dir_new();
    (void)state;
    expect_bad(golden("fp8_block"), 64,
               "m0.weight_scale_inv: expected one scale, one for each row");
    put_spoilt(golden("int8_channel"), dir, "m0.weight_zero_point", 3, &one, 1);
    expect_bad(dir, 0, "m0.weight_zero_point: zero points of bytes are not read, but zeros");
    put_st(dir, "model.safetensors",
           "{\"m0.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]}}", 4);
    expect_bad(dir, 0, "m0.weight: expected a weight_scale or weight_scale_inv beside it");
    test_dir_free(dir);
}

static void what_is_not_finite_is_named(void **state)
{
    static const uint8_t none = 0xff, infinite[4] = {0, 0, 0x80, 0xff};
    static float x[136 * 256];
    struct err e = ERR_INIT;
    char *dir = test_dir_new();
    (void)state;
    put_spoilt(golden("fp8_block"), dir, "m0.weight", 256 + 7, &none, 1);
    struct weights *w = open_layout(dir, 128, &e);
    assert_good(w ? 0 : -1, &e);
    assert_int_not_equal(weight_read_f32(part_of(w, "m0", "weight"), 0, 136, x, &e), 0);
    assert_non_null(strstr(e.msg, "m0.weight: number 7 of row 1 is not finite"));
    weights_close(w);
    e = (struct err)ERR_INIT;
    put_spoilt(golden("fp8_block"), dir, "m0.weight_scale_inv", 4, infinite, 4);
    w = open_layout(dir, 128, &e);
    assert_good(w ? 0 : -1, &e);
    assert_int_not_equal(weight_read_coded(part_of(w, "m0", "weight"), 0, 0, 136 * 256, x, &e), 0);
    assert_non_null(
        strstr(e.msg, "m0.weight_scale_inv: the scale of row 0, group 1 is not finite"));
    weights_close(w);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_bit_for_bit),
        cmocka_unit_test(bad_parts_are_named),
        cmocka_unit_test(what_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
