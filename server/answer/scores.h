/* SPDX-License-Identifier: Apache-2.0
 *
 * From the numbers of texts to what they are worth: a classifier's numbers as its makers show them,
 * and how alike two vectors are. In double, from the engine's f32: the same for the same texts.
 *
 * Thread: any.
 */
#ifndef SERVER_ANSWER_SCORES_H
#define SERVER_ANSWER_SCORES_H

#include <stddef.h>

#include "engine/engine.h"

/* x: [n] of one text. */
void scores_show(enum config_scores how, const float *x, size_t n, double *out);
double scores_alike(const float *x, const float *y, size_t n); /* cosine; 0 of a vector of zeros */

#endif
