/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/st_writer: what it writes is what the reference writes, and what the reader reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/load/st_writer.h"
#include "engine/load/weights.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(1 << 16);
    assert_non_null(f);
    *n = fread(p, 1, 1 << 16, f);
    fclose(f);
    return p;
}

/* Fault: another order, spelling or padding than the reference implementation's. */
static void test_bytes_of_the_reference(void **state)
{
    (void)state;
    const char *want = "{\"__metadata__\":{\"format\":\"p\\nt\\u0001\"},"
                       "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                       "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[4,8]},"
                       "\"q\\\"\\\\\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[3],"
                       "\"data_offsets\":[8,11]}}";
    char *dir = test_dir_new(), path[512], expected[600];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    struct st_writer *w = st_writer_new();
    struct err e = ERR_INIT;
    const int64_t one = 1, three = 3, two[2] = {2, 1};
    assert_good(st_writer_add(w, "q\"\\\xc3\xa9", ST_U8, 1, &three, &e), &e);
    assert_good(st_writer_add(w, "a", ST_BF16, 2, two, &e), &e);
    assert_good(st_writer_add(w, "w", ST_F32, 1, &one, &e), &e);
    assert_good(st_writer_meta(w, "format", "p\nt\x01", &e), &e);
    assert_good(st_writer_open(w, path, &e), &e);
    static const char *const order[] = {"w", "a", "q\"\\\xc3\xa9"};
    unsigned char byte = 0;
    for (int i = 0; i < 3; i++) {
        const struct st_tensor *t = st_writer_next(w);
        assert_string_equal(t->name, order[i]);
        for (uint64_t n = t->end - t->begin; n; n--, byte++) {
            assert_true(st_writer_done(w) == t->end - t->begin - n);
            assert_good(st_writer_write(w, &byte, 1, &e), &e);
        }
    }
    assert_null(st_writer_next(w));
    assert_int_equal(access(path, F_OK), -1); /* not before commit */
    assert_good(st_writer_commit(w, &e), &e);
    st_writer_free(w);
    size_t n, header = (strlen(want) + 7) / 8 * 8;
    char *got = slurp(path, &n), padded[512];
    snprintf(padded, sizeof padded, "%-*s", (int)header, want);
    assert_int_equal(n, st_bytes(expected, header, padded, 11));
    assert_memory_equal(got, expected, n);
    free(got);
    struct weights *r = weights_open_file(path, &e);
    assert_non_null(r);
    assert_int_equal(weights_count(r), 3);
    weights_close(r);
    test_dir_free(dir);
}

/* Fault: a file that the reader would refuse is written, or a refused one leaves bytes behind. */
static void test_refuses_what_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *name[2], *why;
        int64_t dim;
    } row[] = {
        {{"a", "a"}, "stands twice", 1},
        {{"\xff", "b"}, "not UTF-8", 1},
        {{"__metadata__", "b"}, "__metadata__", 1},
        {{"a", "b"}, "no file can hold its shape", INT64_MAX},
        {{"a", "b"}, "no file can hold its shape", -1},
    };
    char *dir = test_dir_new(), path[512];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct st_writer *w = st_writer_new();
        struct err e = ERR_INIT;
        st_writer_add(w, row[i].name[0], ST_F32, 1, &row[i].dim, &e);
        st_writer_add(w, row[i].name[1], ST_F32, 1, &row[i].dim, &e);
        assert_int_equal(st_writer_open(w, path, &e), -1);
        assert_non_null(strstr(e.msg, row[i].why));
        st_writer_free(w);
    }
    assert_int_equal(rmdir(dir), 0); /* empty */
    free(dir);
}

/* Fault: an unfinished file takes the name of the old one. */
static void test_unfinished_leaves_the_old(void **state)
{
    (void)state;
    char *dir = test_dir_new(), path[512];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    put_text(dir, "x.safetensors", "old");
    struct st_writer *w = st_writer_new();
    struct err e = ERR_INIT;
    const int64_t n = 4;
    st_writer_add(w, "a", ST_U8, 1, &n, &e);
    assert_good(st_writer_open(w, path, &e), &e);
    assert_good(st_writer_write(w, "ab", 2, &e), &e);
    st_writer_free(w);
    size_t len;
    char *got = slurp(path, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(got, "old", 3);
    free(got);
    test_dir_free(dir);
}

/* Fault: tensors without bytes stop the stream, or an empty file cannot be written. */
static void test_empty(void **state)
{
    (void)state;
    char *dir = test_dir_new(), path[512];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    const int64_t zero = 0, one = 1;
    for (int i = 0; i < 2; i++) {
        struct st_writer *w = st_writer_new();
        struct err e = ERR_INIT;
        if (i) {
            st_writer_add(w, "a", ST_U8, 1, &zero, &e);
            st_writer_add(w, "b", ST_U8, 1, &one, &e);
            st_writer_add(w, "c", ST_U8, 1, &zero, &e);
        }
        assert_good(st_writer_open(w, path, &e), &e);
        if (i) {
            assert_string_equal(st_writer_next(w)->name, "b");
            assert_good(st_writer_write(w, "x", 1, &e), &e);
        }
        assert_null(st_writer_next(w));
        assert_good(st_writer_commit(w, &e), &e);
        st_writer_free(w);
        struct weights *r = weights_open_file(path, &e);
        assert_non_null(r);
        assert_int_equal(weights_count(r), i * 3);
        weights_close(r);
    }
    test_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_the_reference),
        cmocka_unit_test(test_refuses_what_cannot_be_read),
        cmocka_unit_test(test_unfinished_leaves_the_old),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
