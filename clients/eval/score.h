/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model said, held to what is right: row by row, and summed up. The arithmetic is that of
 * lm-evaluation-harness: the likeliest choice by the sum of its log-probabilities, and by that sum
 * over its characters; of two that are as likely the first; perplexities over all tokens, words and
 * bytes of all texts together; a standard error of shares as of a sample's mean.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_EVAL_SCORE_H
#define CLIENTS_EVAL_SCORE_H

#include "clients/eval/ask.h"
#include "engine/base/buf.h"

struct tokenizer;

struct eval_share {
    int64_t n, n_right;
};

struct eval_score {
    struct eval_share exact, choice, choice_norm;
    double answer_nll, text_nll; /* sums, in nats */
    int64_t answer_tok, text_tok, text_word, text_byte;
};

struct eval_verdict {
    bool is_right;               /* of an answer */
    int64_t choice, choice_norm; /* of a choice: the likeliest, by either way */
};

/* How an answer is compared: its text without space around it. */
struct eval_compare {
    const struct tokenizer *tokenizer; /* borrowed */
    bool ignores_case;                 /* of the letters A to Z */
};

/* The text of a row's right answer, which takes the place of what `out` has. */
int eval_expected(const struct eval_compare *c, const struct eval_rows *r,
                  const struct eval_row *row, struct buf *out, struct err *e);

/* verdict: [rows] */
int eval_score(const struct eval_compare *c, const struct eval_rows *r, const struct eval_said *s,
               struct eval_verdict *verdict, struct eval_score *out, struct err *e);

double eval_share_of(struct eval_share s);    /* 0 to 1 */
double eval_share_error(struct eval_share s); /* one standard error; of a single row: NaN */

#endif
