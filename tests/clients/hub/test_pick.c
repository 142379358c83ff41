/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a model of several GGUF files, whatever else lies beside them.
 */
#include "clients/hub/pick.h"

#include "tests/lib/test.h"

/* Faults: the first file of the list is no part, or the last; a part of another model is one; what
 * lacks a part is whole. */
static void all_parts_are_needed(void **state)
{
    (void)state;
    static const char *const name[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                       "n-00002-of-00003.gguf", "m-00002-of-00002.gguf",
                                       "m-00003-of-00003.gguf"};
    enum { N = sizeof name / sizeof *name };
    for (size_t lacks = 1; lacks <= N; lacks++) {
        struct hub_names all = {0}, need = {0};
        struct err e = ERR_INIT;
        const char *file = NULL;
        for (size_t i = 0; i < N; i++)
            if (i != lacks)
                hub_names_add(&all, name[i]);
        int rc = hub_pick(&all, name[0], NULL, NULL, &need, &file, &e);
        if (lacks == 1 || lacks == 4) {
            assert_err(rc, &e, ERR_NOT_FOUND, "2 of its 3 parts are there");
        } else {
            assert_good(rc, &e);
            assert_string_equal(file, name[0]);
            assert_int_equal(need.n, 3);
            assert_true(hub_names_has(&need, name[1]) && hub_names_has(&need, name[4]));
        }
        hub_names_release(&all);
        hub_names_release(&need);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
