/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise rows. Faults they can catch: a tail that is skipped or written past, a stride
 * mistaken for a length, a broadcast row that moves, in-place runs that read what they wrote, a
 * conversion that does not round to even or flushes denormals.
 */
#include <string.h>

#include "tests/kernels/check.h"

struct binary_case {
    int64_t m, d, pad;
    bool a_row, b_row; /* one row for all */
};

/* The same call into y, and into a copy of a in place; the variant against the reference. */
static void binary_run(struct check *c, const struct binary_case *k, enum check_kind kind)
{
    int64_t ld = k->d + k->pad, n = k->m * ld;
    check_begin(c);
    check_case(c, "%s m %lld d %lld ld %lld broadcast %d %d", check_kind_name(kind),
               (long long)k->m, (long long)k->d, (long long)ld, k->a_row, k->b_row);
    float *a = check_floats(c, n, kind), *b = check_floats(c, n, kind);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_binary args = {.a = a, .b = b, .y = y, .ld_y = ld, .m = k->m, .d = k->d};
    args.ld_a = k->a_row ? 0 : ld;
    args.ld_b = k->b_row ? 0 : ld;
    check_run(c, &args);
    struct k_binary ref = args;
    ref.y = want;
    check_run_ref(c, &ref);
    check_bits(c, "y", y, want, (size_t)n * sizeof *y);
    check_slices(c, &args, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    if (!k->a_row) {
        check_fill(c, want, n, CHECK_NAN);
        check_run_ref(c, &ref);
        struct k_binary in_place = args;
        in_place.y = a;
        check_run(c, &in_place);
        for (int64_t i = 0; i < k->m; i++)
            check_bits(c, "in place", a + i * ld, want + i * ld, (size_t)k->d * sizeof *y);
    }
}

static void binary_check(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++) {
            binary_run(c, &(struct binary_case){3, sizes[i], 0, false, false}, kind);
            binary_run(c, &(struct binary_case){4, sizes[i], 5, false, true}, kind);
            binary_run(c, &(struct binary_case){2, sizes[i], 1, true, false}, kind);
        }
    }
    binary_run(c, &(struct binary_case){0, 7, 0, false, false}, CHECK_RANDOM);
}

void check_add(struct check *c)
{
    binary_check(c);
}

void check_mul(struct check *c)
{
    binary_check(c);
}

void check_scale(struct check *c)
{
    static const int64_t sizes[] = {0, 1, 17, K_SUM_CHUNK - 1, K_SUM_CHUNK, 3 * K_SUM_CHUNK + 33};
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int64_t n = sizes[i];
            check_begin(c);
            check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
            float *x = check_floats(c, n, kind), *y = check_floats(c, n, CHECK_NAN);
            float *want = check_floats(c, n, CHECK_NAN);
            struct k_scale args = {.x = x, .y = y, .n = n, .s = 0.7f}, ref = args;
            ref.y = want;
            check_run(c, &args);
            check_run_ref(c, &ref);
            check_bits(c, "y", y, want, (size_t)n * sizeof *y);
            check_slices(c, &args, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
        }
    }
}
