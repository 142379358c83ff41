/* SPDX-License-Identifier: Apache-2.0
 *
 * From a row of logits to a token, by one chain in a fixed order:
 *
 *     penalties (repetition; frequency and presence; DRY), bias, mask, allowed and banned ids, bad
 * words, top-n-sigma, temperature (dynamic), top-k, typical, top-p, min-p, XTC, one draw
 *
 * With mirostat its own cut stands in place of all others, by a state that each draw moves.
 *
 * Temperature 0 takes the largest behind the mask (the lower id of equals). The draw is a pure
 * function of the seed and the place of the token in its text, so a text does not depend on what
 * else runs or on how often it was preempted.
 *
 * Log-probabilities are of the model's own logits, before the chain, folded by the kernel that
 * computes the training loss over the same chunks of the vocabulary: they are its bits.
 *
 * A model whose weights overflow gives rows with NaN or infinities. Nothing is drawn from such a
 * row: it is an error, and ends the one text.
 *
 * Thread: one at a time; a sampler holds the work space for one row (engine/sample/samplers.h has
 * one for each thread).
 */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/sample/params.h"
#include "engine/sample/seen.h"
#include "kernels/kernels.h"

struct sampler;

struct sampler *sampler_new(int64_t n_vocab, const struct kernel_table *kernels, struct err *e);
void sampler_free(struct sampler *s);

/* The parameters are within their bounds; the text begins with the API's name of the one that is
 * not. What has not passed must not be sampled with. */
int sample_check(const struct sample_params *p, int64_t n_vocab, struct err *e);

bool sample_wants_seen(const struct sample_params *p); /* there are penalties */
bool sample_is_rare(const struct sample_params *p);    /* it asks for what only the host does */
bool sample_is_serial(const struct sample_params *p);  /* one row of its text at a time */

/* A row and how its token is to be taken. All pointers are borrowed. */
struct sample_row {
    const float *logits; /* [n_vocab] in the host's memory */
    const struct sample_params *params;
    uint64_t place;          /* of the token in its new text: each has its own draw */
    const struct seen *seen; /* what penalties count; NULL: nothing was seen */
    const int32_t *ahead;    /* [n_ahead] and these behind it: guesses that the row counts on */
    int32_t n_ahead;
    const int32_t *text;    /* [n_text] all before it, guesses too */
    int64_t n_text, n_said; /* the last n_said of them are the answer's: bad words count these */
    int32_t *length;        /* DRY's space of this text; NULL: there is none in the parameters */
    double mu;              /* mirostat's state before it; of the first token twice its tau */
    const uint32_t *mask;   /* bit id % 32 of word id / 32 set: may be taken; NULL: all may */
    const int32_t *banned;  /* [n_banned] may not be taken: ends, before the least length */
    int32_t n_banned;
    bool wants_logprob;
    int32_t n_top;   /* the likeliest wanted; at most SAMPLE_TOP_MAX */
    bool wants_rank; /* of a token that is known: how many are likelier; takes the logits */
    /* What was found of the row where it lies; NULL: found here. Where all that is wanted is there,
     * logits may be NULL. */
    const struct k_best *best;      /* kernel argmax's */
    const struct k_ce_state *state; /* ce_fwd's */
    const int32_t *drawn;           /* sample's, by engine/sample/ask.h */
    const float *logit;             /* of the token that was drawn, or is known */
    const int32_t *top_id;          /* the n_top likeliest, descending, and their logits */
    const float *top_logit;
};

bool sample_is_greedy(const struct sample_params *p);
bool sample_is_edited(const struct sample_row *r); /* its token is not taken by the logits alone */

/* Whether its token hangs on the tokens before it by more than the logits: nobody can take it who
 * does not know them. */
bool sample_follows_text(const struct sample_row *r);

/* Whether it can be taken only with its logits here: it has a mask; or it is edited, and wants
 * log-probabilities, which are of the row as it was; or a rank is wanted. */
bool sample_needs_logits(const struct sample_row *r);

struct sample_top {
    int32_t id;
    float logprob;
};

/* What was taken. */
struct sample_taken {
    int32_t id;
    float logprob;                         /* where wanted, or n_top > 0 */
    int32_t rank;                          /* where wanted: 1 for the likeliest */
    double mu;                             /* mirostat's state behind it */
    int32_t n_top;                         /* n_top, or all of a small vocabulary */
    struct sample_top top[SAMPLE_TOP_MAX]; /* descending, ties by lower id */
};

/* ERR_DIVERGED: the logits are not finite. ERR_BAD_INPUT: the mask leaves nothing. */
int sampler_next(struct sampler *s, const struct sample_row *r, struct sample_taken *t,
                 struct err *e);

/* As sampler_score, of a row: its logits, n_top, best and state. */
int sampler_score_row(struct sampler *s, const struct sample_row *r, int32_t id,
                      struct sample_taken *t, struct err *e);

/* Of a token that is known, as the prompt's are: its log-probability in this row, and the n_top
 * likeliest. */
int sampler_score(struct sampler *s, const float *logits, int32_t id, int32_t n_top,
                  struct sample_taken *t, struct err *e);

#endif
