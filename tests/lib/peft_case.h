/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of a kind of adapter have in common: steps, files and logits beside PEFT's
 * (tests/golden/FOLDER, whose golden.json has a member for each case), and what is trained beside
 * what is served, merged, and gone on with.
 */
#ifndef TESTS_LIB_PEFT_CASE_H
#define TESTS_LIB_PEFT_CASE_H

#include "tests/lib/golden_rows.h"

/* Twenty steps from CASE/first on: losses and norms, the file at the end, and where there is
 * CASE/moments.safetensors all gradients of the first. */
void peft_case_steps(const char *folder, const char *const *names, size_t n);

/* The logits that PEFT has with CASE/last. */
void peft_case_logits(const char *folder, const char *const *names, size_t n);

struct trainer *peft_case_trainer(struct golden *g, const struct train_options *o);
void peft_case_take(struct trainer *t, const struct golden_rows *r, int n); /* steps */

/* An adapter that was trained for four steps. */
void peft_case_make(struct golden *g, const struct train_options *o, const char *dir);

/* Serving what three steps made gives the first row's labels the log-probabilities that training
 * gives them, to the bit. */
void peft_case_served(struct golden *g, const struct train_options *o);

/* Rows of three adapters (their folders), and of none, have among each other the bits that they
 * have alone, by a plan and eager; `none` has halves and nothing besides. */
void peft_case_among(struct golden *g, const char *all, const char *few, const char *none);

/* Behind a checkpoint a training goes on to the bit, with moments in f32 and in codes. */
void peft_case_resumes(const char *model, enum k_type type, const struct train_options *o);

/* The model that an adapter was merged into has the logits that it has beside the model. */
void peft_case_merges(struct golden *g, const char *adapter, const char *merged);

#endif
