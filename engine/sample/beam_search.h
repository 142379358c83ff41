/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search: of a text's ways to go on the `width` likeliest are followed side by side, by the
 * sum of their tokens' log-probabilities. The rules are those of transformers:
 *
 * Of all ways to go on by one token the best `width` that do not end are followed. One among the
 * best `width` that ends a text, or is its last, is found, with its sum over a power of its length
 * (the token that ends it counted); the best `width` found are kept. It is over when so many are
 * found and, by `how.ends`, nothing better is to be hoped for.
 *
 * Of equals the one from the lower beam goes first, then the likelier or lower id. A text that is
 * followed stays in its place where it can, so that what belongs to it need not move.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_SAMPLE_BEAM_SEARCH_H
#define ENGINE_SAMPLE_BEAM_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/sample/sampler.h"

struct beam_params {
    struct sample_beams how; /* width: 1 to SAMPLE_BEAMS_MAX */
    int64_t max_new;         /* tokens; at least 1 */
    const int32_t *end_id;   /* borrowed: [n_end_id] */
    int32_t n_end_id;
};

struct beam_search;

size_t beam_search_bytes(const struct beam_params *p);
struct beam_search *beam_search_new(const struct beam_params *p, struct err *e);
void beam_search_free(struct beam_search *s);

/* How many of the likeliest tokens it wants of each row. */
int32_t beam_search_tops(const struct beam_params *p);

/* What may follow the text of a beam, likeliest first. Before the first choice all texts are the
 * same. True: it was the last that was missing, or is known already. */
bool beam_search_hear(struct beam_search *s, int64_t beam, const struct sample_top *top, int32_t n);

/* All were heard: the texts go on. False: it is over. */
bool beam_search_choose(struct beam_search *s);

/* Whether the text of a beam was another's before the last choice; all that it has said. */
bool beam_search_moved(const struct beam_search *s, int64_t beam);
const int32_t *beam_search_text(const struct beam_search *s, int64_t beam, int64_t *n);

/* Once it is over: what was found, [0, width), best first. */
struct beam_found {
    double score;
    int64_t n; /* without the token that ended it */
    const int32_t *id;
    const float *logprob;
    bool is_ended;
    int32_t end_id; /* where it ended by one */
    float end_logprob;
};
struct beam_found beam_search_found(const struct beam_search *s, int64_t i);

#endif
