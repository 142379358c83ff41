/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/packed_ct: matrices that the package compressed-tensors packed. Faults they can
 * catch: a code, a scale or a zero point of another place; codes of a format that mean another
 * number; a part that is missing, of another shape or not finite, and is taken.
 */
#include "tests/engine/load/packed_check.h"

static const char golden[] = "tests/golden/compressed";

static const struct {
    const char *name;
    enum k_type coded;
} layout[] = {{"w4_32", K_INT4},    {"w4_128", K_INT4},   {"w4_row", K_INT4},
              {"w4_zero", K_INT4K}, {"w8_32", K_INT8G},   {"w4_zero_32", K_INT8G},
              {"w8_row", K_INT8C},  {"w4_order", K_INT4}, {"w4_order_zero", K_INT4K}};

static void values_bit_for_bit(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct weights *w = weights_open(golden, &e);
    assert_good(w ? 0 : -1, &e);
    assert_true(weights_are_packed(w));
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        check_packed(w, layout[i].name, layout[i].coded);
    const struct weight *packed = part_of(w, "w4_32", "weight_packed");
    assert_ptr_equal(packed_weight_counted(w, packed->t), part_of(w, "w4_32", "weight")->t);
    assert_null(packed_weight_counted(w, part_of(w, "w4_32", "weight_scale")->t));
    weights_close(w);
}

/* Data are bytes 0, 1, 2, ...: no part has the shape that they make. */
static void expect_bad(const char *header, size_t n_data, const char *words)
{
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    put_st(dir, "model.safetensors", header, n_data);
    struct weights *w = weights_open(dir, &e);
    assert_null(w);
    if (!strstr(e.msg, words) || !strstr(e.msg, "model.safetensors: a.weight_"))
        fail_msg("'%s' is not in: %s", words, e.msg);
    test_dir_free(dir);
}

static void bad_parts_are_named(void **state)
{
    (void)state;
    expect_bad("{\"a.weight_packed\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}",
               4, "with a weight_shape, found I32 [1, 1]");
    expect_bad("{\"a.weight_packed\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
               "\"a.weight_shape\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
               12, "weight_shape: expected I64 [2], found I32 [2]");
    expect_bad("{\"a.weight_packed\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
               "\"a.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[4,20]}}",
               20, "weight_packed: expected I32 [n, words]");
    expect_bad("{\"a.weight_packed\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
               "\"a.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[4,20]}}",
               20, "weight_packed: expected the rows that weight_shape says");
}

enum { N = 12, K = 256 };

static struct weights *spoilt(const char *dir, const char *part, size_t at, const void *p, size_t n)
{
    struct err e = ERR_INIT;
    put_spoilt(golden, dir, part, at, p, n);
    struct weights *w = weights_open(dir, &e);
    assert_good(w ? 0 : -1, &e);
    return w;
}

static void bad_scales_are_named(void **state)
{
    static const uint8_t infinite[2] = {0, 0x7c}, tiny[2] = {0x01, 0x20}; /* f16; bf16: 1.1e-19 */
    static float x[N * K];
    static uint8_t codes[N * K * 2];
    struct err e = ERR_INIT;
    char *dir = test_dir_new();
    (void)state;
    struct weights *w = spoilt(dir, "w4_32.weight_scale", 8 * 2 + 2, infinite, 2);
    const struct weight *of = part_of(w, "w4_32", "weight");
    assert_int_not_equal(weight_read_f32(of, 0, N, x, &e), 0);
    assert_non_null(strstr(e.msg, "w4_32.weight_scale: the scale of row 1, group 1 is not finite"));
    e = (struct err)ERR_INIT;
    assert_int_not_equal(weight_read_coded(of, 0, 0, N * K, codes, &e), 0);
    assert_non_null(strstr(e.msg, "row 1, group 1 is not finite"));
    weights_close(w);
    e = (struct err)ERR_INIT;
    w = spoilt(dir, "w4_128.weight_scale", 2, tiny, 2);
    of = part_of(w, "w4_128", "weight");
    assert_good(weight_read_f32(of, 0, N, x, &e), &e);
    assert_int_not_equal(weight_read_coded(of, 0, 0, N * K, codes, &e), 0);
    assert_non_null(strstr(e.msg, "give --quantize bf16"));
    weights_close(w);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_bit_for_bit),
        cmocka_unit_test(bad_parts_are_named),
        cmocka_unit_test(bad_scales_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
