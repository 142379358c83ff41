/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/packed_bnb: matrices that bitsandbytes packed as nf4. Faults they can catch: halves
 * of a byte in the other order, a scale of another block where blocks begin within rows, a nested
 * scale without its own scale or what is added; parts that are missing, of another shape or kind, a
 * table of other numbers, a scale that is not finite, and it is taken.
 */
#include "tests/engine/load/packed_check.h"

static const struct {
    const char *name;
    enum k_type coded;
} layout[] = {{"nf4", K_NF4}, {"nf4_nested", K_NF4}, {"nf4_wide", K_NF4}, {"nf4_short", K_F32}};

static const struct packing how = {.method = PACKING_BNB};

static const char *golden(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "tests/golden/packed/%s", name);
    return path;
}

static void values_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        struct err e = ERR_INIT;
        struct weights *w = weights_open_packed(golden(layout[i].name), &how, &e);
        assert_good(w ? 0 : -1, &e);
        assert_true(weights_are_packed(w));
        check_packed(w, "m0", layout[i].coded);
        weights_close(w);
    }
}

static void expect_bad(const char *dir, const char *words)
{
    struct err e = ERR_INIT;
    assert_null(weights_open_packed(dir, &how, &e));
    if (!strstr(e.msg, words) || !strstr(e.msg, "model.safetensors"))
        fail_msg("'%s' is not in: %s", words, e.msg);
}

/* n bytes of a part of a layout become others. */
static void expect_spoilt(const char *name, const char *part, size_t at, const void *p, size_t n,
                          const char *words)
{
    char *dir = test_dir_new();
    put_spoilt(golden(name), dir, part, at, p, n);
    expect_bad(dir, words);
    test_dir_free(dir);
}

#define STATE "m0.weight.quant_state.bitsandbytes__nf4"

static void bad_parts_are_named(void **state)
{
    static const uint8_t none[4] = {0};
    char *dir = test_dir_new();
    (void)state;
    expect_spoilt("nf4", STATE, 0, "[", 1, STATE);
    expect_spoilt("nf4", STATE, 16, "fp4", 3, "quant_type: 'fp4' is not supported; nf4 is");
    expect_spoilt("nf4", STATE, 35, "10", 2, "blocksize");
    expect_spoilt("nf4", STATE, 73, "4", 1,
                  "expected a byte for two numbers of quant_state's shape");
    expect_spoilt("nf4", "m0.weight.quant_map", 4, none, 4, "m0.weight.quant_map: number 1 is 0");
    put_st(dir, "model.safetensors",
           "{\"m0.weight\":{\"dtype\":\"U8\",\"shape\":[4,1],\"data_offsets\":[0,4]}}", 4);
    expect_bad(dir, "m0.weight: expected a weight.absmax beside it");
    put_st(dir, "model.safetensors",
           "{\"m0.weight\":{\"dtype\":\"U8\",\"shape\":[4,1],\"data_offsets\":[0,4]},"
           "\"m0.weight.absmax\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8);
    expect_bad(dir, "m0.weight: expected a quant_state.bitsandbytes__nf4 beside it");
    test_dir_free(dir);
}

static void what_is_not_finite_is_named(void **state)
{
    static const uint8_t infinite[4] = {0, 0, 0x80, 0x7f};
    static float x[72 * 320];
    (void)state;
    for (int is_nested = 0; is_nested < 2; is_nested++) {
        struct err e = ERR_INIT;
        char *dir = test_dir_new();
        put_spoilt(golden(is_nested ? "nf4_nested" : "nf4"), dir,
                   is_nested ? "m0.weight.nested_absmax" : "m0.weight.absmax", 0, infinite, 4);
        struct weights *w = weights_open_packed(dir, &how, &e);
        assert_good(w ? 0 : -1, &e);
        const struct weight *m = part_of(w, "m0", "weight");
        assert_int_not_equal(weight_read_f32(m, 0, weight_rows(m), x, &e), 0);
        assert_non_null(
            strstr(e.msg, "m0.weight.absmax: the scale of row 0, group 0 is not finite"));
        weights_close(w);
        test_dir_free(dir);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_bit_for_bit),
        cmocka_unit_test(bad_parts_are_named),
        cmocka_unit_test(what_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
