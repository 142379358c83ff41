/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts of a distribution that few requests ask for, as their authors define them. Candidates are
 * ids with probabilities, descending; a cut keeps their order, leaves at least one, and says how
 * many are left. Sums are taken in that order, in f64.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_SAMPLE_CUTS_H
#define ENGINE_SAMPLE_CUTS_H

#include <stdint.h>

/* Logits more than n_sigma standard deviations of all below the largest become minus infinity. */
void cut_sigma(float *row, int64_t n, double n_sigma);

/* A temperature between at - range (not below 0) and at + range: how even the row is, its entropy
 * over the most that so many may have, to the power of `exponent`. */
double cut_temperature(const float *row, int64_t n, double at, double range, double exponent);

/* Locally typical: those whose surprise is nearest to the mean one, until they have p. */
int32_t cut_typical(int32_t *id, float *prob, int32_t n, double p);

/* The likeliest until they have p, of these what has least times the largest. */
int32_t cut_tail(const float *prob, int32_t n, double p, double least);

/* "Exclude top choices": of those with at least the threshold only the last one stays. */
int32_t cut_top(int32_t *id, float *prob, int32_t n, double threshold);

/* Mirostat's: those that surprise by at most mu bits. */
int32_t cut_surprise(const float *prob, int32_t n, double mu);

/* The bits by which one of the candidates surprises. */
double cut_bits(const float *prob, int32_t n, int64_t at);

#endif
