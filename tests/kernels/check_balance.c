/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of the loss that balances experts. Faults it can catch: a map that is left out, a
 * softmax's slope without its mean.
 */
#include <math.h>

#include "tests/kernels/check.h"

struct sizes {
    int64_t m, n; /* rows, experts */
};

static const struct sizes size[] = {{0, 4},  {1, 8},   {1, 1},   {5, 3},
                                    {31, 8}, {40, 64}, {300, 2}, {450, 5}};

enum { BALANCED = 3 }; /* maps */

/* sum of f p over all rows; f: of each expert in all maps. */
static double balance_loss(const void *ctx, const double *x)
{
    const struct k_route_balance *a = ctx;
    double loss = 0;
    for (int64_t i = 0; i < a->m; i++) {
        double all = 0;
        for (int64_t j = 0; j < a->n; j++)
            all += exp(x[i * a->n + j]);
        for (int64_t j = 0; j < a->n; j++)
            for (int64_t l = 0; l < BALANCED; l++)
                loss += (double)a->by * exp(x[i * a->n + j]) / all *
                        (a->start[l * (a->n + 1) + j + 1] - a->start[l * (a->n + 1) + j]);
    }
    return loss;
}

void check_route_balance(struct check *c)
{
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const struct sizes *s = &size[i];
        check_begin(c);
        check_case(c, "rows %lld experts %lld", (long long)s->m, (long long)s->n);
        int32_t *start = check_buf(c, (size_t)(BALANCED * (s->n + 1)) * 4, 4);
        float *x = check_floats(c, s->m * s->n, CHECK_RANDOM);
        float *dx = check_floats(c, s->m * s->n, CHECK_ZERO);
        for (int64_t k = 0; k < BALANCED * (s->n + 1); k++)
            start[k] = k % (s->n + 1) ? start[k - 1] + (int32_t)(k * 7 % 5) : 0;
        struct k_route_balance a = {.x = x,
                                    .start = start,
                                    .dx = dx,
                                    .ld_x = s->n,
                                    .ld_dx = s->n,
                                    .m = s->m,
                                    .n = s->n,
                                    .n_layer = BALANCED,
                                    .by = 0.25f};
        struct k_route_balance ref = a;
        ref.dx = check_floats(c, s->m * s->n, CHECK_ZERO);
        check_run(c, &a);
        check_run_ref(c, &ref);
        check_near(c, "dx", dx, ref.dx, s->m * s->n, 1e-5, 1e-5);
        if (s->m * s->n < 400)
            check_gradient(c, "dx by differences", dx, x, s->m * s->n, balance_loss, &a, 2e-3);
    }
}
