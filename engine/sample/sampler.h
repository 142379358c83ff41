/* SPDX-License-Identifier: Apache-2.0
 *
 * From a row of logits to a token. Temperature 0 takes the largest (the lower id of equals). Else
 * the row is divided by the temperature, cut by top-k, top-p and min-p in this order, and one of
 * what is left is drawn. The draw is a pure function of the seed and the place of the token in its
 * text, so a text does not depend on what else runs or on how often it was preempted.
 *
 * Thread: one at a time; a sampler holds the work space for one row.
 */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "kernels/kernels.h"

#include "engine/base/err.h"

struct sample_params {
    double temperature; /* 0: greedy */
    double top_p;       /* (0, 1]; 1: no cut */
    double min_p;       /* [0, 1]; 0: no cut */
    int64_t top_k;      /* 0: no cut */
    uint64_t seed;
};

struct sampler;

struct sampler *sampler_new(int64_t n_vocab, const struct kernel_table *kernels, struct err *e);
void sampler_free(struct sampler *s);

/* The parameters are within their bounds; the text names the one that is not. */
int sample_check(const struct sample_params *p, struct err *e);

/* The token at place `index` of the new text; logits [n_vocab] in the host's memory. */
int32_t sampler_next(struct sampler *s, const struct sample_params *p, const float *logits,
                     uint64_t index);

#endif
