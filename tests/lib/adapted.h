/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a golden's model in which some texts run with adapters.
 */
#ifndef TESTS_LIB_ADAPTED_H
#define TESTS_LIB_ADAPTED_H

#include "engine/model/adapter.h"
#include "engine/run/runner.h"
#include "tests/lib/golden.h"

enum { ADAPTED_TOK = 128, ADAPTED_SEQS = 4, ADAPTED_RANK = 512 };

/* Version 7, named "tuned", of as many bytes as there are. */
struct adapter *adapted_load(const struct model *m, const char *dir);

struct runner *adapted_runner(struct golden *g, bool is_eager);

/* One text of a step: tokens [pos, pos + n). */
struct adapted_part {
    const struct adapter *adapter;
    const int32_t *token;
    int64_t pos, n;
    int32_t cell; /* its first: each text has its own four */
};

/* Runs the parts in one step, a group each; the logits of all their tokens to `to`. */
void adapted_step(struct golden *g, struct runner *r, const struct adapted_part *p, int n,
                  float *to);

/* The logits of the golden's prompt of *n tokens with the adapter in a folder (NULL: without);
 * free() them. */
float *adapted_prompt(struct golden *g, const char *dir, int64_t *n);

/* The parts of a step, of n_row tokens together, have the bits that they have op by op, and alone.
 */
void adapted_same_rows(struct golden *g, struct runner *r, struct runner *eager,
                       const struct adapted_part *p, int n_part, int64_t n_row);

#endif
