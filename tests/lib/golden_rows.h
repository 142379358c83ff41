/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a golden's golden.json as a trainer takes them: ids, labels (-1: not trained), and
 * room for the log-probability of each label. Of one that has none two are made of its prompt.
 */
#ifndef TESTS_LIB_GOLDEN_ROWS_H
#define TESTS_LIB_GOLDEN_ROWS_H

#include "engine/train/trainer.h"
#include "tests/lib/golden.h"

enum { GOLDEN_ROW_MAX = 256, GOLDEN_ROWS = 8 };

struct golden_rows {
    int32_t id[GOLDEN_ROWS][GOLDEN_ROW_MAX], label[GOLDEN_ROWS][GOLDEN_ROW_MAX];
    float logprob[GOLDEN_ROWS][GOLDEN_ROW_MAX];
    struct train_row row[GOLDEN_ROWS];
    int64_t n;
};

struct golden_rows *golden_rows_new(const struct golden *g); /* free() it */

#endif
