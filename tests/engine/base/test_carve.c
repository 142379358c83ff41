/* SPDX-License-Identifier: Apache-2.0
 *
 * A block that is measured and then cut.
 */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"

struct arrays {
    char *a;
    double *b;
    int *none;
    short *c;
};

static size_t lay_out(struct arrays *x, void *base, int64_t n)
{
    struct carve c = {.base = base};
    x->a = carve(&c, n, sizeof *x->a);
    x->b = carve(&c, n, sizeof *x->b);
    x->none = carve(&c, 0, sizeof *x->none);
    x->c = carve(&c, 3, sizeof *x->c);
    return c.at;
}

/* Faults: what is measured is not what is cut, arrays that overlap, one that is not aligned. */
static void measured_is_cut(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 300; n += 7) {
        struct err e = ERR_INIT;
        struct arrays x;
        size_t bytes = lay_out(&x, NULL, n);
        assert_true(!x.a && !x.b && !x.c);
        char *block = try_alloc(bytes, 1, "a block", &e);
        assert_int_equal(lay_out(&x, block, n), bytes);
        assert_int_equal((uintptr_t)x.b % CARVE_ALIGN + (uintptr_t)x.c % CARVE_ALIGN, 0);
        memset(x.a, 1, (size_t)n);
        memset(x.b, 2, (size_t)n * sizeof *x.b);
        memset(x.c, 3, 3 * sizeof *x.c);
        assert_true((char *)(x.c + 3) <= block + bytes);
        for (int64_t i = 0; i < n; i++)
            assert_true(x.a[i] == 1 && ((unsigned char *)x.b)[8 * i] == 2);
        mem_free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(measured_is_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
