/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/packed_gptq: matrices as the tools of GPTQ and AWQ pack them. Faults they can catch:
 * a code, a scale or a zero point of another place; the one that a stored zero point lacks; inputs
 * that have an order of their own, and are taken in another; codes of a format that mean another
 * number; a part that is missing, lies about its shape, is out of range or not finite, and is
 * taken.
 */
#include "engine/load/config_traits.h"
#include "tests/engine/load/packed_check.h"

static const struct {
    const char *name;
    enum k_type coded;
} layout[] = {
    {"gptq_32", K_INT4},          {"gptq_zero", K_INT4K},  {"gptq_zero_v2", K_INT8G},
    {"gptq_row", K_INT4},         {"gptq_short", K_INT4},  {"gptq_8", K_INT8G},
    {"gptq_8_zero", K_F32},       {"gptq_8_row", K_INT8C}, {"gptq_order", K_INT8G},
    {"awq_128", K_INT4K},         {"awq_64", K_INT8G},     {"gptq_order_zero", K_INT4K},
    {"gptq_order_short", K_INT4},
};

static const char *golden(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "tests/golden/packed/%s", name);
    return path;
}

static struct packing how_is(const char *name)
{
    struct err e = ERR_INIT;
    struct packing how = {.method = PACKING_NONE};
    assert_good(config_packing_load(&how, golden(name), &e), &e);
    assert_int_not_equal(how.method, PACKING_NONE);
    return how;
}

static void values_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        struct err e = ERR_INIT;
        struct packing how = how_is(layout[i].name);
        struct weights *w = weights_open_packed(golden(layout[i].name), &how, &e);
        assert_good(w ? 0 : -1, &e);
        assert_true(weights_are_packed(w));
        check_packed(w, "m0", layout[i].coded);
        const struct weight *x = part_of(w, "m0", "weight");
        assert_ptr_equal(packed_weight_counted(w, part_of(w, "m0", "qweight")->t), x->t);
        assert_null(packed_weight_counted(w, part_of(w, "m0", "scales")->t));
        assert_null(packed_weight_counted(w, part_of(w, "m0", "qzeros")->t));
        weights_close(w);
    }
}

/* A group with more inputs than the others: no format holds it. */
static void uneven_groups_are_numbers(void **state)
{
    static float x[40 * 256];
    struct err e = ERR_INIT;
    char *dir = test_dir_new();
    struct packing how = how_is("gptq_order");
    struct weights *w = weights_open_packed(golden("gptq_order"), &how, &e);
    (void)state;
    assert_good(w ? 0 : -1, &e);
    int32_t group, other;
    assert_good(weight_read(part_of(w, "m0", "g_idx"), 0, 1, &group, &e), &e);
    assert_non_null(weight_order(part_of(w, "m0", "weight")));
    weights_close(w);
    other = group ? 0 : 1;
    put_spoilt(golden("gptq_order"), dir, "m0.g_idx", 0, &other, sizeof other);
    w = weights_open_packed(dir, &how, &e);
    assert_good(w ? 0 : -1, &e);
    const struct weight *m = part_of(w, "m0", "weight");
    assert_int_equal(weight_coded(m), K_F32);
    assert_null(weight_order(m));
    assert_good(weight_read_f32(m, 0, 40, x, &e), &e);
    weights_close(w);
    test_dir_free(dir);
}

static void expect_bad(const char *dir, const struct packing *how, const char *words)
{
    struct err e = ERR_INIT;
    assert_null(weights_open_packed(dir, how, &e));
    if (!strstr(e.msg, words) || !strstr(e.msg, "model.safetensors: m0."))
        fail_msg("'%s' is not in: %s", words, e.msg);
}

/* Bytes of a part changed. */
static void bad_part(const char *name, const char *part, size_t at, const void *p, size_t n,
                     const char *words)
{
    char *dir = test_dir_new();
    struct packing how = how_is(name);
    put_spoilt(golden(name), dir, part, at, p, n);
    expect_bad(dir, &how, words);
    test_dir_free(dir);
}

static void bad_parts_are_named(void **state)
{
    static const int32_t many = 8, none = -1;
    static const uint8_t full = 0xf7;
    struct packing how = {.method = PACKING_NONE};
    (void)state;
    expect_bad(golden("awq_128"), &how, "expected a quantization_config that says how");
    how = how_is("gptq_32");
    expect_bad(golden("awq_128"), &how, "m0.qweight: expected I32, a column for each output");
    how = how_is("awq_128");
    expect_bad(golden("gptq_32"), &how, "m0.qweight: expected I32, eight outputs");
    how = how_is("gptq_32");
    how.group = 64;
    expect_bad(golden("gptq_32"), &how, "256 inputs in groups of 64");
    bad_part("gptq_order", "m0.g_idx", 8, &many, 4, "m0.g_idx: input 2 is of group 8, of which");
    bad_part("gptq_order", "m0.g_idx", 4, &none, 4, "m0.g_idx: input 1 is of group -1, of which");
    bad_part("gptq_32", "m0.qzeros", 40 / 2, &full, 1, "m0.qzeros: a zero point of group 1 is 16");
}

/* A file whose header calls a part by another name of the same length. */
static void without(const char *name, const char *part, const char *words)
{
    char *dir = test_dir_new(), path[128], key[32];
    static char all[1 << 17];
    struct packing how = how_is(name);
    snprintf(path, sizeof path, "%s/model.safetensors", golden(name));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(all, 1, sizeof all, f);
    fclose(f);
    snprintf(key, sizeof key, "\"m0.%s\"", part);
    char *at = memmem(all, n, key, strlen(key));
    assert_non_null(at);
    at[1] = 'x';
    put_file(dir, "model.safetensors", all, n);
    expect_bad(dir, &how, words);
    test_dir_free(dir);
}

static void missing_parts_are_named(void **state)
{
    (void)state;
    without("gptq_order", "g_idx", "m0.qweight: expected a g_idx beside it: desc_act is true");
    without("gptq_32", "qzeros", "m0.qweight: expected scales and qzeros beside it");
    without("awq_64", "scales", "m0.qweight: expected scales and qzeros beside it");
}

static void bad_scales_are_named(void **state)
{
    static const uint8_t infinite[2] = {0, 0x7c};
    static float x[40 * 256];
    struct err e = ERR_INIT;
    char *dir = test_dir_new();
    struct packing how = how_is("awq_128");
    (void)state;
    put_spoilt(golden("awq_128"), dir, "m0.scales", (40 + 7) * 2, infinite, 2);
    struct weights *w = weights_open_packed(dir, &how, &e);
    assert_good(w ? 0 : -1, &e);
    assert_int_not_equal(weight_read_f32(part_of(w, "m0", "weight"), 0, 40, x, &e), 0);
    assert_non_null(strstr(e.msg, "m0.scales: the scale of row 7, group 1 is not finite"));
    e = (struct err)ERR_INIT;
    assert_int_not_equal(weight_read_coded(part_of(w, "m0", "weight"), 0, 0, 40 * 256, x, &e), 0);
    assert_non_null(strstr(e.msg, "the scale of row 7, group 1 is not finite"));
    weights_close(w);
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_bit_for_bit),   cmocka_unit_test(uneven_groups_are_numbers),
        cmocka_unit_test(bad_parts_are_named),  cmocka_unit_test(missing_parts_are_named),
        cmocka_unit_test(bad_scales_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
