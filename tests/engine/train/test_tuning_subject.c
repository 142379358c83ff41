/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest of a training: what changes it, and that it holds for options of any length.
 */
#include "tests/lib/test.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "engine/train/tuning_subject.h"

enum { NAME_BYTES = 120 };

static bool is_alike(const struct tuning_options *a, const struct tuning_options *b)
{
    char x[SHA256_TEXT_BYTES], y[SHA256_TEXT_BYTES];
    tuning_subject(a, x);
    tuning_subject(b, y);
    return strcmp(x, y) == 0;
}

/* As many targets as there may be, with long names, and numbers of as many digits as there are. */
static void options(struct tuning_options *o, const struct dataset *d,
                    char name[TRAIN_TARGET_MAX][NAME_BYTES])
{
    *o = (struct tuning_options){
        .n_epoch = INT64_MAX,
        .batch = INT64_MAX,
        .data = d,
        .train = {.lora = {.rank = INT64_MAX, .alpha = -DBL_MIN, .dropout = -DBL_MAX},
                  .lr = -DBL_MAX,
                  .beta1 = -DBL_MIN,
                  .beta2 = -DBL_MIN,
                  .eps = -DBL_MIN,
                  .decay = -DBL_MIN,
                  .max_norm = -DBL_MAX,
                  .warmup = INT64_MIN,
                  .n_step = INT64_MIN,
                  .seed = UINT64_MAX,
                  .cap_tok = INT64_MAX}};
    for (int i = 0; i < TRAIN_TARGET_MAX; i++) {
        memset(name[i], 'n', NAME_BYTES - 1);
        name[i][NAME_BYTES - 1] = 0;
        o->train.lora.target[o->train.lora.n_target++] = name[i];
    }
}

/* Fault: only the first kilobyte counts, so that another last target goes on from a checkpoint. */
static void the_last_target_counts(void **state)
{
    char name[TRAIN_TARGET_MAX][NAME_BYTES], other[TRAIN_TARGET_MAX][NAME_BYTES];
    struct dataset d = {.digest = UINT64_MAX};
    struct tuning_options a, b;
    (void)state;
    options(&a, &d, name);
    options(&b, &d, other);
    assert_true(is_alike(&a, &b));
    for (int i = TRAIN_TARGET_MAX - 1; i >= 0; i--) {
        other[i][NAME_BYTES - 2] = 'm';
        assert_false(is_alike(&a, &b));
        other[i][NAME_BYTES - 2] = 'n';
    }
    b.train.lora.n_target--;
    assert_false(is_alike(&a, &b));
}

/* Fault: an option that is not in the digest. */
static void every_option_counts(void **state)
{
    struct dataset d = {.digest = 1}, e = {.digest = 2};
    struct tuning_options a = {.data = &d}, b;
    double *const number[] = {&b.train.lora.alpha, &b.train.lora.dropout, &b.train.lora.lr_ratio,
                              &b.train.lr,         &b.train.beta1,        &b.train.beta2,
                              &b.train.eps,        &b.train.decay,        &b.train.max_norm,
                              &b.train.noise};
    int64_t *const count[] = {&b.train.lora.rank, &b.train.warmup, &b.train.n_step,
                              &b.train.cap_tok,   &b.n_epoch,      &b.batch,
                              &b.patience};
    (void)state;
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        b = a;
        *number[i] = DBL_MIN;
        assert_false(is_alike(&a, &b));
    }
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        b = a;
        *count[i] = 1;
        assert_false(is_alike(&a, &b));
    }
    b = a;
    b.train.seed = 1;
    assert_false(is_alike(&a, &b));
    struct dataset taught = {.digest = 1, .n_top = 3};
    a.data = &taught;
    b = a;
    b.train.distill = 0.5;
    assert_false(is_alike(&a, &b));
    a.data = &d;
    b = a;
    b.train.schedule = TRAIN_COSINE;
    assert_false(is_alike(&a, &b));
    b = a;
    b.train.lora.is_rs = true;
    assert_false(is_alike(&a, &b));
    b = a;
    b.train.lora.is_dora = true;
    assert_false(is_alike(&a, &b));
    b = a;
    b.data = &e;
    assert_false(is_alike(&a, &b));
    b = a;
    b.keeps_best = true;
    assert_false(is_alike(&a, &b));
    b = a;
    b.ancestor = (struct train_ancestor){"here", "0"};
    assert_false(is_alike(&a, &b));
    struct tuning_options c = b;
    c.ancestor.dir = "there"; /* which folder it lies in is no matter */
    assert_true(is_alike(&b, &c));
    c.ancestor.digest[0] = '1';
    assert_false(is_alike(&b, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_target_counts),
        cmocka_unit_test(every_option_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
