/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/safetensors and weights: files cut at any byte, missing and lying shards, tensors of
 * wrong shape, rows read raw and as f32.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/load/weights.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

#define ONE_HEADER                                                                                 \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[3,2],\"data_offsets\":[0,6]},"                            \
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[6,10]}}"

/* Fault: a file that ends early is opened, or its length field is believed. */
static void test_cut_at_every_byte(void **state)
{
    (void)state;
    char *dir = test_dir_new(), bytes[256];
    size_t n = st_bytes(bytes, strlen(ONE_HEADER), ONE_HEADER, 10);
    for (size_t cut = 0; cut <= n; cut++) {
        struct err e = ERR_INIT;
        put_file(dir, "model.safetensors", bytes, cut);
        struct weights *w = weights_open(dir, &e);
        assert_int_equal(w != NULL, cut == n);
        if (!w)
            assert_non_null(strstr(e.msg, "model.safetensors: "));
        weights_close(w);
    }
    test_dir_free(dir);
}

/* Fault: the length field overflows a sum or sizes an allocation unchecked. */
static void test_header_length_lies(void **state)
{
    (void)state;
    static const uint64_t len[] = {0,
                                   1,
                                   UINT64_C(1) << 31,
                                   UINT64_C(1) << 32,
                                   (UINT64_C(1) << 53) + 1,
                                   UINT64_C(1) << 63,
                                   UINT64_MAX - 7,
                                   UINT64_MAX,
                                   99999999,
                                   100000001};
    char *dir = test_dir_new(), bytes[256];
    for (size_t i = 0; i < sizeof len / sizeof len[0]; i++) {
        struct err e = ERR_INIT;
        put_file(dir, "model.safetensors", bytes, st_bytes(bytes, len[i], ONE_HEADER, 10));
        assert_null(weights_open(dir, &e));
        assert_non_null(strstr(e.msg, "model.safetensors: "));
        if (len[i] > 100000000)
            assert_non_null(strstr(e.msg, "more than 100000000"));
    }
    test_dir_free(dir);
}

/* Fault: a file cut after it was opened kills the process or yields zeros. */
static void test_cut_while_open(void **state)
{
    (void)state;
    char *dir = test_dir_new(), path[512], got[6];
    struct err e = ERR_INIT;
    put_st(dir, "model.safetensors", ONE_HEADER, 10);
    struct weights *w = weights_open(dir, &e);
    assert_non_null(w);
    const struct weight *a = weights_get(w, "a");
    assert_good(weight_read(a, 0, 3, got, &e), &e);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(ONE_HEADER) + 5)), 0);
    assert_good(weight_read(a, 0, 2, got, &e), &e);
    assert_err(weight_read(a, 0, 3, got, &e), &e, ERR_IO, "it was cut while it was open");
    assert_non_null(strstr(e.msg, "tensor a"));
    weights_close(w);
    test_dir_free(dir);
}

/* Fault: rows are cut at the wrong byte, or halves are widened wrong or over each other. */
static void test_rows(void **state)
{
    (void)state;
    const char *header = "{\"m\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[0,12]},"
                         "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[12,16]},"
                         "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},"
                         "\"z\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[20,20]}}";
    char *dir = test_dir_new(), bytes[400];
    size_t n = strlen(header);
    st_bytes(bytes, n, header, 20);
    const uint16_t half[8] = {0x3f80, 0xc000, 0x4040, 0x7f80, 0x0001, 0x8000, 0x3c00, 0x8001};
    const float quarter = 0.25f;
    memcpy(bytes + 8 + n, half, 16);
    memcpy(bytes + 8 + n + 16, &quarter, 4);
    put_file(dir, "x.safetensors", bytes, 8 + n + 20);
    char path[512];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    struct err e = ERR_INIT;
    struct weights *w = weights_open_file(path, &e);
    assert_non_null(w);
    assert_int_equal(weights_count(w), 4);
    assert_true(weights_bytes(w) == 20);
    const struct weight *m = weights_get(w, "m");
    float f[6];
    uint16_t raw[2];
    assert_int_equal(weight_rows(m), 3);
    assert_int_equal(weight_row_len(m), 2);
    assert_int_equal(weight_row_bytes(m), 4);
    assert_good(weight_read(m, 1, 1, raw, &e), &e);
    assert_memory_equal(raw, half + 2, 4);
    assert_good(weight_read_f32(m, 0, 3, f, &e), &e);
    assert_true(f[0] == 1 && f[1] == -2 && f[2] == 3 && f[3] == __builtin_inff() &&
                f[4] == 0x1p-133f && f[5] == 0);
    assert_good(weight_read_f32(weights_get(w, "h"), 0, 2, f, &e), &e);
    assert_true(f[0] == 1 && f[1] == -0x1p-24f);
    assert_int_equal(weight_rows(weights_get(w, "s")), 1);
    assert_good(weight_read_f32(weights_get(w, "s"), 0, 1, f, &e), &e);
    assert_true(f[0] == 0.25f);
    assert_good(weight_read_f32(weights_get(w, "z"), 0, 0, f, &e), &e);
    weights_close(w);
    test_dir_free(dir);
}

/* Fault: a tensor of another shape or type, or none, is handed to the packer. */
static void test_want(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    put_st(dir, "model.safetensors", ONE_HEADER, 10);
    struct weights *w = weights_open(dir, &e);
    assert_non_null(w);
    const struct weight *out;
    assert_good(weights_want(w, "b", 1, (int64_t[]){2}, &out, &e), &e);
    assert_int_equal(weight_k_type(out), K_BF16);
    assert_err(weights_want(w, "b", 2, (int64_t[]){2, 1}, &out, &e), &e, ERR_BAD_INPUT,
               "model.safetensors: b: expected [2, 1], found BF16 [2]");
    assert_err(weights_want(w, "b", 1, (int64_t[]){3}, &out, &e), &e, ERR_BAD_INPUT,
               "expected [3], found BF16 [2]");
    assert_err(weights_want(w, "a", 2, (int64_t[]){3, 2}, &out, &e), &e, ERR_UNSUPPORTED,
               "a: expected F32, F16 or BF16, found U8");
    assert_err(weights_want(w, "c", 1, (int64_t[]){3}, &out, &e), &e, ERR_NOT_FOUND,
               "model.safetensors: the tensor c is missing");
    weights_close(w);
    test_dir_free(dir);
}

#define U8_AT(name, lo, hi)                                                                        \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" lo "," hi "]}"
#define INDEX "model.safetensors.index.json"
#define S1    "model-00001-of-00002.safetensors"
#define S2    "model-00002-of-00002.safetensors"

/* Faults: shards are not joined, or what is wrong between index and shards goes unseen; a tensor
 * that no shard has, and one of them is blamed. */
static void test_shards(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    static const struct {
        const char *index, *why; /* NULL: good */
    } row[] = {
        {"{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S2 "\"}}", NULL},
        {"{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S1 "\"}}", "weight_map.b: " S1 " does not"},
        {"{\"weight_map\":{\"a\":\"" S1 "\",\"c\":\"" S2 "\"}}", "weight_map.c: " S2 " does not"},
        {"{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"gone.safetensors\"}}", "gone.safetensors: No"},
        {"{\"weight_map\":{\"a\":\"../" S1 "\"}}", "weight_map.a: '../" S1 "' is not the plain"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "not the plain name"},
        {"{\"weight_map\":{\"a\":\"model.bin\"}}", "not the plain name"},
        {"{\"weight_map\":{\"a\":1}}", "weight_map.a: expected a string"},
        {"{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"twice.safetensors\"}}", "is in " S1 " too"},
        {"{\"metadata\":{}}", INDEX ": weight_map is missing"},
        {"{\"weight_map\":{\"a\":\"" S1 "\"", INDEX ": line 1"},
    };
    put_st(dir, S1, "{" U8_AT("a", "0", "2") "}", 2);
    put_st(dir, S2, "{" U8_AT("b", "0", "2") "}", 2);
    put_st(dir, "twice.safetensors", "{" U8_AT("a", "0", "2") "," U8_AT("b", "2", "4") "}", 4);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct err e = ERR_INIT;
        put_text(dir, INDEX, row[i].index);
        struct weights *w = weights_open(dir, &e);
        if (row[i].why && (w || !strstr(e.msg, row[i].why)))
            fail_msg("%s\n  said: %s\n  not: %s", row[i].index, w ? "nothing" : e.msg, row[i].why);
        if (!row[i].why) {
            unsigned char got[2];
            assert_non_null(w);
            assert_int_equal(weights_count(w), 2);
            assert_good(weight_read(weights_get(w, "b"), 1, 1, got, &e), &e);
            assert_int_equal(got[0], 1);
            assert_string_equal(weights_at(w, 1)->t->name, "b");
            const struct weight *out;
            assert_err(weights_want(w, "c", 1, (int64_t[]){2}, &out, &e), &e, ERR_NOT_FOUND,
                       INDEX ": the tensor c is missing");
        }
        weights_close(w);
    }
    test_dir_free(dir);
}

/* Fault: a directory without weights, or with pickled ones only, is not told apart. */
static void test_no_weights(void **state)
{
    (void)state;
    char *dir = test_dir_new();
    struct err e = ERR_INIT;
    assert_null(weights_open(dir, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    put_text(dir, "pytorch_model.bin", "x");
    assert_null(weights_open(dir, &e));
    assert_non_null(strstr(e.msg, "pytorch_model.bin can run code"));
    test_dir_free(dir);
}

/* Faults: a tensor that is another by its second asking; a piece of a row that is not of the row;
 * all rows alike, or all matrices; numbers of no spread; a vector that is no ones. */
static void test_random(void **state)
{
    (void)state;
    enum { ROWS = 700, COLS = 3000 }; /* more than the numbers that are drawn from */
    const int64_t dim[] = {ROWS, COLS}, len[] = {5};
    struct err e = ERR_INIT;
    struct weights *w = weights_random(&e);
    const struct weight *m, *again, *other, *v;
    uint16_t *all = calloc((size_t)ROWS * COLS, sizeof *all), part[100];
    float ones[5], row[COLS];
    double sum_sq = 0;
    assert_non_null(w);
    assert_good(weights_want(w, "m", 2, dim, &m, &e), &e);
    assert_good(weights_want(w, "m", 2, dim, &again, &e), &e);
    assert_good(weights_want(w, "v", 1, len, &v, &e), &e);
    assert_ptr_equal(m, again);
    assert_int_equal(weights_bytes(w), (ROWS * COLS + 5) * 2);
    assert_good(weights_want(w, "other", 2, dim, &other, &e), &e);
    assert_good(weight_read(m, 0, ROWS, all, &e), &e);
    assert_good(weight_read_at(m, 699, 50, 100, part, &e), &e);
    assert_memory_equal(part, all + (size_t)699 * COLS + 50, sizeof part);
    assert_memory_not_equal(all, all + COLS, COLS * sizeof *all);
    assert_good(weight_read_at(other, 0, 0, 100, part, &e), &e);
    assert_memory_not_equal(part, all, sizeof part);
    assert_good(weight_read_f32(m, 350, 1, row, &e), &e);
    for (int i = 0; i < COLS; i++)
        sum_sq += (double)row[i] * (double)row[i];
    assert_true(sum_sq / COLS > 0.9 / 4096 && sum_sq / COLS < 1.1 / 4096);
    assert_good(weight_read_f32(v, 0, 5, ones, &e), &e);
    assert_true(ones[0] == 1 && ones[4] == 1);
    free(all);
    weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_header_length_lies),
        cmocka_unit_test(test_cut_while_open),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_want),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
