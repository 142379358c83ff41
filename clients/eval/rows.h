/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a file that a model is judged by, as tokens. What a line asks follows from its
 * members:
 *
 *     {"prompt" or "messages", "choices": [text, ...], "answer": number from 0, or the text}
 *     {"text"}                                        how likely the text is
 *     any row of supervised training                  its last answer is to be said, to the letter
 *
 * Rows become pieces: runs of tokens that the model reads, of which some are counted. A choice is a
 * piece, its question read and its text counted; a text is as many as its windows; an answer is
 * one, with what training would learn counted. Texts are rendered and cut into tokens as training
 * does.
 *
 * Windows are those of lm-evaluation-harness: each token of a text is counted once, the first
 * behind BOS (or EOS), the last window reading as much before its tokens as it can.
 *
 * Thread: one at a time; constant once read.
 */
#ifndef CLIENTS_EVAL_ROWS_H
#define CLIENTS_EVAL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/vec.h"

struct engine;

enum { EVAL_CHOICE_MAX = 64 };

enum eval_kind { EVAL_ANSWER, EVAL_CHOICE, EVAL_TEXT };

struct eval_piece {
    size_t at;      /* of its first token in id and is_counted */
    int64_t n;      /* tokens */
    int64_t n_char; /* of a choice: characters behind the space that it begins with */
};

struct eval_row {
    enum eval_kind kind;
    int64_t line;           /* in the file, from 1 */
    size_t piece, n_piece;  /* its own, among all */
    int64_t right;          /* of a choice: its piece, from 0 */
    int64_t n_prompt;       /* of an answer: tokens before it */
    int64_t n_answer;       /* its tokens */
    int64_t n_word, n_byte; /* of a text */
};

struct eval_rows {
    VEC(int32_t) id;
    VEC(uint8_t) is_counted; /* of each id: its log-probability belongs to the result */
    VEC(struct eval_piece) piece;
    VEC(struct eval_row) row;
    int64_t n_of[EVAL_TEXT + 1]; /* rows of each kind */
};

struct eval_rows_options {
    const struct engine *engine; /* borrowed */
    int64_t window;              /* tokens of a text that are counted at once; 0: most */
    int64_t limit;               /* of rows; 0: all */
};

/* All lines of a file, up to the first that cannot be used, which the error names. Released by the
 * caller, behind a failure too. */
int eval_rows_read(struct eval_rows *r, const char *path, const struct eval_rows_options *o,
                   struct err *e);
void eval_rows_release(struct eval_rows *r);

#endif
