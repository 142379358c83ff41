/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose names are: what is claimed is its owner's until it is let go.
 */
#include "tests/lib/test.h"

#include "engine/serve/owners.h"

/* Faults: a name that another takes, or changes because it may use it; a claim that outlives its
 * name; an unclaimed name that nobody may use. */
static void claims(void **state)
{
    struct err e = ERR_INIT;
    struct owners *o = owners_new();
    (void)state;
    assert_true(owners_may_use(o, "m", "ann") && owners_may_change(o, "m", "bob"));
    assert_int_equal(owners_claim(o, "m", "ann", false, &e), 1);
    assert_int_equal(owners_claim(o, "m", "ann", false, &e), 0);
    assert_err(owners_claim(o, "m", "bob", true, &e), &e, ERR_EXISTS, "taken");
    assert_true(owners_may_use(o, "m", "ann") && owners_may_change(o, "m", "ann"));
    assert_false(owners_may_use(o, "m", "bob") || owners_may_change(o, "m", "bob"));
    assert_int_equal(owners_claim(o, "m", "ann", true, &e), 0);
    assert_true(owners_may_use(o, "m", "bob"));
    assert_false(owners_may_change(o, "m", "bob"));
    owners_forget(o, "m");
    owners_forget(o, "m");
    assert_int_equal(owners_claim(o, "m", "bob", false, &e), 1);
    assert_false(owners_may_use(o, "m", "ann"));
    owners_free(o);
}

int main(void)
{
    const struct CMUnitTest test[] = {cmocka_unit_test(claims)};
    return cmocka_run_group_tests(test, NULL, NULL);
}
