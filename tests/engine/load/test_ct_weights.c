/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/ct_weights: matrices that the package compressed-tensors packed. Faults they can
 * catch: a code, a scale or a zero point of another place; codes of a format that mean another
 * number; a part that is missing, of another shape or not finite, and is taken.
 */
#include "engine/load/ct_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/format.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

enum { N = 12, K = 256 };

static const struct {
    const char *name;
    enum k_type coded;
} layout[] = {{"w4_32", K_INT4},  {"w4_128", K_INT4},    {"w4_row", K_INT4}, {"w4_zero", K_INT4K},
              {"w8_32", K_INT8G}, {"w4_zero_32", K_F32}, {"w8_row", K_F32}};

static const struct weight *get(const struct weights *w, const char *name, const char *what)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const struct weight *x = weights_get(w, full);
    assert_non_null(x);
    return x;
}

/* The codes of a part of the matrix, packed, mean what the package makes of them. */
static void check_coded(const struct weight *w, const float *want)
{
    static uint8_t data[1 << 15] __attribute__((aligned(64)));
    static uint8_t src[1 << 15];
    struct err e = ERR_INIT;
    struct kernel_table table;
    float got[N * K];
    struct k_weight_pack a = {.src = src, .src_type = weight_coded(w), .ld_src = K, .n_src = N};
    assert_int_equal(K % weight_coded_inputs(w), 0);
    assert_true(k_weight_bytes(a.src_type, N, K) <= sizeof data);
    assert_good(weight_read_coded(w, 0, 0, N * K, src, &e), &e);
    k_weight_bind(&a.w, a.src_type, N, K, data);
    struct k_weight_unpack b = {.w = a.w, .dst = got, .ld_dst = K};
    kernel_table_init(&table, getenv("TEST_KERNELS"));
    kernel_run(&table, K_weight_pack, &a, NULL);
    kernel_run(&table, K_weight_unpack, &b, NULL);
    assert_memory_equal(got, want, sizeof got);
}

static void values_bit_for_bit(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file("tests/golden/compressed/compressed.safetensors", &e);
    assert_good(w ? 0 : -1, &e);
    assert_true(weights_are_packed(w));
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        float want[N * K], got[N * K], some[40];
        const struct weight *x = get(w, layout[i].name, "weight");
        assert_good(weight_read_f32(get(w, layout[i].name, "want"), 0, N, want, &e), &e);
        assert_good(weight_read_f32(x, 0, N, got, &e), &e);
        assert_memory_equal(got, want, sizeof got);
        assert_good(weight_read_at(x, 3, 237, 40, some, &e), &e); /* over the end of a row */
        assert_memory_equal(some, want + 3 * K + 237, sizeof some);
        assert_int_equal(weight_coded(x), layout[i].coded);
        if (layout[i].coded != K_F32)
            check_coded(x, want);
    }
    const struct weight *packed = get(w, "w4_32", "weight_packed");
    assert_ptr_equal(ct_counted(w, packed->t), get(w, "w4_32", "weight")->t);
    assert_null(ct_counted(w, get(w, "w4_32", "weight_scale")->t));
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

/* The golden's bytes with some of one part's changed. */
static struct weights *spoilt(const char *dir, const char *part, size_t at, const void *p, size_t n)
{
    static char all[1 << 18];
    char block[64];
    struct err e = ERR_INIT;
    FILE *f = fopen("tests/golden/compressed/compressed.safetensors", "rb");
    assert_non_null(f);
    size_t size = fread(all, 1, sizeof all, f);
    fclose(f);
    struct weights *w = weights_open_file("tests/golden/compressed/compressed.safetensors", &e);
    const struct weight *x = weights_get(w, part);
    assert_non_null(x);
    size_t some = weight_stored_bytes(x) < sizeof block ? weight_stored_bytes(x) : sizeof block;
    assert_good(weight_read_stored(x, 0, block, some, &e), &e);
    char *found = memmem(all, size, block, some);
    assert_non_null(found);
    memcpy(found + at, p, n);
    weights_close(w);
    put_file(dir, "model.safetensors", all, size);
    return weights_open(dir, &e);
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
    const struct weight *of = get(w, "w4_32", "weight");
    assert_int_not_equal(weight_read_f32(of, 0, N, x, &e), 0);
    assert_non_null(strstr(e.msg, "w4_32.weight_scale: the scale of row 1, group 1 is not finite"));
    e = (struct err)ERR_INIT;
    assert_int_not_equal(weight_read_coded(of, 0, 0, N * K, codes, &e), 0);
    assert_non_null(strstr(e.msg, "row 1, group 1 is not finite"));
    weights_close(w);
    e = (struct err)ERR_INIT;
    w = spoilt(dir, "w4_128.weight_scale", 2, tiny, 2);
    of = get(w, "w4_128", "weight");
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
