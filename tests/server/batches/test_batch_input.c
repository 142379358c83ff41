/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a batch. Catches: one that is too large, or not there any more, and is begun.
 */
#include "tests/server/store/home.h"

#include "server/batches/batches_own.h"
#include "server/store/store.h"

static void assert_refused(struct store *s, int64_t bytes, const char *id, const char *code)
{
    struct err e = ERR_INIT;
    const struct file_row f = {.id = id,
                               .owner = "ann",
                               .purpose = "batch",
                               .name = "rows",
                               .sha256 = "00",
                               .bytes = bytes};
    const struct batch b = {.id = "b", .owner = "ann", .input_file = id};
    struct batch_input in;
    struct api_error fault = {.code = ""};
    int64_t line;
    assert_good(store_file_add(s, &f, &e), &e);
    assert_int_equal(batch_input_init(&in, s, &b, &fault, &line, &e), 1);
    assert_string_equal(fault.code, code);
    assert_int_equal(line, 0);
    batch_input_release(&in);
}

static void what_cannot_be_a_batch(void **state)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(dir, &e);
    (void)state;
    assert_good(s ? 0 : -1, &e);
    assert_refused(s, BATCH_FILE_BYTES_MAX, "file-1", "file_altered"); /* its bytes are not there */
    assert_refused(s, BATCH_FILE_BYTES_MAX + 1, "file-2", "file_too_large");
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_cannot_be_a_batch, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
