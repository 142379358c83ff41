/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of labels: their formulas, and their slopes by differences.
 */
#include "engine/train/label_loss.h"

#include <math.h>

#include "tests/lib/test.h"

static const char *const names[] = {"cross_entropy", "importance_sampling", "ppo", "cispo", "dro"};

static struct label_loss find(const char *name)
{
    struct label_loss l;
    assert_true(label_loss_find(name, &l));
    return l;
}

/* Faults: a slope that is not the loss's; a clip on the wrong side. */
static void slopes(void **state)
{
    static const double h = 1e-6, xs[] = {-3, -2.3, -2.01, -2, -1.99, -1.9, -1.2};
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct label_loss l = find(names[k]);
        for (size_t i = 0; i < sizeof xs / sizeof *xs; i++)
            for (int sign = -1; sign <= 1; sign += 2) {
                double w = 0.7 * sign, x = xs[i], r = exp(x + 2);
                struct label_told at = label_loss_of(&l, w, x, -2);
                double by =
                    (label_loss_of(&l, w, x - h, -2).loss - label_loss_of(&l, w, x + h, -2).loss) /
                    (2 * h);
                if (l.kind == LABEL_CISPO) /* the clipped ratio is held as a number */
                    by = w * fmin(fmax(r, l.low), l.high);
                if (fabs(by - at.by) > 1e-6)
                    fail_msg("%s of %g at %g: %.9g, by differences %.9g", names[k], w, x, at.by,
                             by);
                if (l.kind == LABEL_PPO)
                    assert_int_equal(at.is_clipped, w > 0 ? r > l.high : r < l.low);
            }
    }
}

/* Faults: on policy a weight that is not the advantage to the bit, or a label that is told as
 * moved; a label that counts nothing and is told as moved. */
static void on_policy(void **state)
{
    (void)state;
    for (size_t k = 1; k < sizeof names / sizeof *names; k++) {
        struct label_loss l = find(names[k]);
        struct label_told t = label_loss_of(&l, 0.3, -1.25, -1.25);
        assert_true(t.by == 0.3 && !t.is_clipped && !t.is_moved);
        assert_true(label_loss_of(&l, 0.3, -1.25, -1.2500001).is_moved);
        t = label_loss_of(&l, 0, -7, 0);
        assert_true(!t.is_clipped && !t.is_moved && label_loss_compares(&l));
    }
    struct label_loss ce = find("cross_entropy"), none;
    struct label_told t = label_loss_of(&ce, -2, -1.5, 0);
    assert_true(t.loss == -3 && t.by == -2 && !t.is_moved && !label_loss_compares(&ce));
    assert_false(label_loss_find("gspo", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slopes), cmocka_unit_test(on_policy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
