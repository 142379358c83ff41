/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: what is refused from outside, and where slices and reshapes point.
 */
#include "tests/lib/test.h"

#include "engine/tensor/tensor.h"

static struct pool *pool;
static struct device *device;
static struct storage *bytes;

static int setup(void **state)
{
    (void)state;
    pool = pool_new(1, false, NULL);
    device = device_cpu_new(pool, "ref", NULL);
    bytes = storage_new(device, 4096, "test", NULL);
    return bytes ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    storage_unref(bytes);
    device_free(device);
    pool_free(pool);
    return 0;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Faults: a header that lies gets a view past the storage, by size, by offset or by overflow. */
static void lies_are_refused(void **state)
{
    (void)state;
    struct tensor t;
    struct err e = ERR_INIT;
    assert_good(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(32, 32), &e), &e);
    assert_good(tensor_view(&t, bytes, 4094, TENSOR_BF16, DIMS(1), &e), &e);
    assert_good(tensor_view(&t, bytes, 4096, TENSOR_BF16, DIMS(0, 7), &e), &e);
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(32, 33), &e), &e, ERR_BAD_INPUT,
               "f32 [32, 33] at byte 0: ends past");
    assert_err(tensor_view(&t, bytes, 4, TENSOR_F32, DIMS(1024), &e), &e, ERR_BAD_INPUT, "past");
    assert_err(tensor_view(&t, bytes, SIZE_MAX - 3, TENSOR_F32, DIMS(1), &e), &e, ERR_BAD_INPUT,
               "past");
    assert_err(tensor_view(&t, bytes, 2, TENSOR_F32, DIMS(1), &e), &e, ERR_BAD_INPUT, "multiple");
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(2, -3), &e), &e, ERR_BAD_INPUT,
               "negative");
    int64_t large = INT64_C(1) << 33;
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(large, large), &e), &e, ERR_TOO_LARGE,
               "too large");
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(0, large, large), &e), &e, ERR_TOO_LARGE,
               "too large");
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(large / 4, large / 4), &e), &e,
               ERR_BAD_INPUT, "past");
    assert_err(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(1, 1, 1, 1, 1), &e), &e, ERR_BAD_INPUT,
               "5 dimensions");
}

/* Fault: an offset in elements where bytes are meant, or a stride that follows the slice. */
static void slices_point_right(void **state)
{
    (void)state;
    struct tensor t, q;
    char text[TENSOR_TEXT_BYTES], *base = storage_data(bytes);
    assert_int_equal(tensor_view(&t, bytes, 64, TENSOR_BF16, DIMS(6, 30), NULL), 0);
    assert_string_equal(tensor_text(&t, text), "bf16 [6, 30]");
    assert_true(tensor_is_dense(&t));
    q = tensor_slice_cols(&t, 10, 20);
    assert_ptr_equal(tensor_data(&q), base + 64 + 20);
    assert_int_equal(q.ld, 30);
    assert_false(tensor_is_dense(&q));
    q = tensor_slice_rows(&q, 2, 5);
    assert_ptr_equal(tensor_data(&q), base + 64 + 2 * 60 + 20);
    assert_int_equal(tensor_rows(&q), 3);
    assert_int_equal(tensor_cols(&q), 10);
    assert_int_equal(tensor_count(&q), 30);
    q = tensor_slice_rows(&q, 1, 2);
    assert_true(tensor_is_dense(&q)); /* one row is */

    assert_int_equal(tensor_view(&t, bytes, 0, TENSOR_I32, DIMS(4, 6, 5), NULL), 0);
    q = tensor_slice_cols(&t, 2, 4);
    assert_ptr_equal(tensor_data(&q), base + 2 * 5 * 4);
    assert_string_equal(tensor_text(&q, text), "i32 [4, 2, 5]");
}

/* Fault: a reshape of rows that do not lie together reads between them. */
static void reshape_keeps_elements(void **state)
{
    (void)state;
    struct tensor t, q, r;
    struct err e = ERR_INIT;
    assert_int_equal(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(4, 30), NULL), 0);
    assert_good(tensor_reshape(&r, &t, DIMS(120), &e), &e);
    assert_int_equal(r.ld, 1);
    assert_err(tensor_reshape(&r, &t, DIMS(119), &e), &e, ERR_BAD_INPUT, "f32 [4, 30]");
    q = tensor_slice_cols(&t, 0, 20);
    assert_good(tensor_reshape(&r, &q, DIMS(4, 2, 10), &e), &e);
    assert_int_equal(r.ld, 30);
    assert_err(tensor_reshape(&r, &q, DIMS(80), &e), &e, ERR_BAD_INPUT, "do not lie together");
    assert_err(tensor_reshape(&r, &q, DIMS(8, 10), &e), &e, ERR_BAD_INPUT, "do not lie together");
    assert_good(tensor_reshape(&r, &r, DIMS(4, 20), &e), &e); /* into itself */
    assert_int_equal(r.dim[2], 1);
}

/* Fault: a wrong shape accepted, or an error that does not say both. */
static void check_names_both(void **state)
{
    (void)state;
    struct tensor t;
    struct err e = ERR_INIT;
    assert_int_equal(tensor_view(&t, bytes, 0, TENSOR_F32, DIMS(4, 30), NULL), 0);
    assert_good(tensor_check(&t, "w", TENSOR_F32, DIMS(-1, 30), &e), &e);
    assert_err(tensor_check(&t, "w", TENSOR_F32, DIMS(-1, 31), &e), &e, ERR_BAD_INPUT,
               "w: expected f32 [*, 31], found f32 [4, 30]");
    assert_err(tensor_check(&t, "w", TENSOR_BF16, DIMS(4, 30), &e), &e, ERR_BAD_INPUT, "bf16");
    assert_err(tensor_check(&t, "w", TENSOR_F32, DIMS(120), &e), &e, ERR_BAD_INPUT, "[120]");
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(slices_point_right),
        cmocka_unit_test(reshape_keeps_elements),
        cmocka_unit_test(check_names_both),
    };
    return cmocka_run_group_tests(test, setup, teardown);
}
