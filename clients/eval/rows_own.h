/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of the kinds of rows share: the file's rows so far, and the line at hand.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_EVAL_ROWS_OWN_H
#define CLIENTS_EVAL_ROWS_OWN_H

#include <jansson.h>

#include "clients/eval/rows.h"
#include "engine/base/arena.h"
#include "engine/serve/resident.h"
#include "engine/token/tokenizer.h"
#include "engine/train/dataset.h"
#include "engine/train/row_text.h"

struct eval_line {
    struct eval_rows *rows;    /* borrowed: grows */
    const struct resident *on; /* borrowed: the model's texts */
    int64_t ctx, window, now;
    struct arena *arena; /* of the line */
    const char *text;    /* borrowed: of the line */
    size_t n_text;
    json_t *json; /* borrowed: the line's object */
    struct eval_row row;
};

/* The last piece grows by tokens of which those of `counted` count; or begins with them. */
int eval_line_put(struct eval_line *l, const int32_t *id, size_t n, struct row_part counted,
                  struct err *e);
int eval_line_piece(struct eval_line *l, int64_t n_char, struct err *e);

/* What a text without a beginning is read behind: BOS, or EOS; -1: the model has neither. */
int32_t eval_line_first(const struct eval_line *l);

/* The tokens of a row of supervised training, as the only one of `d`, which is empty and released
 * by the caller; and the last part of them that training would learn. */
int eval_line_example(const struct eval_line *l, const char *text, size_t n, struct dataset *d,
                      struct row_part *last, struct err *e);

int eval_read_choice(struct eval_line *l, struct err *e);
int eval_read_text(struct eval_line *l, struct err *e);
int eval_read_answer(struct eval_line *l, struct err *e);

#endif
