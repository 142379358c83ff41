/* SPDX-License-Identifier: Apache-2.0
 *
 * api/error: what clients read of a failure besides its text.
 */
#include <string.h>

#include "api/error.h"
#include "tests/lib/test.h"

/* Fault: a client hears that its context is full, and cuts a chat whose schema was too large. */
static void only_texts_fill_a_context(void **state)
{
    const struct err large = {.code = ERR_TOO_LARGE, .msg = "too large"};
    struct api_error e;
    (void)state;
    for (int i = 0; i < 2; i++) {
        api_fail_err(&e, &large, i ? "messages" : NULL);
        assert_true(e.status == 400 && e.code && !strcmp(e.code, "context_length_exceeded"));
    }
    api_fail_err(&e, &large, "response_format");
    assert_true(e.status == 400 && (!e.code || strcmp(e.code, "context_length_exceeded") != 0));
    assert_string_equal(e.param, "response_format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_texts_fill_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
