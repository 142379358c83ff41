/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of token ids that a model is run on: to see what its products read, or how near another one
 * is to it.
 *
 * Thread: filling, one at a time; constant after.
 */
#ifndef ENGINE_QUANT_TEXTS_H
#define ENGINE_QUANT_TEXTS_H

#include "engine/base/vec.h"
#include "engine/run/packed.h"

struct quant_texts {
    VEC(int32_t) id;
    VEC(size_t) end; /* of each row, in id */
    size_t cap_tok;  /* ids that are taken at most; 0: no bound */
    int64_t longest;
};

void quant_texts_release(struct quant_texts *t);

/* Adds a row, cut into rows of at most `most` ids; what goes past cap_tok is left out, and so are
 * rows of one id, which say nothing. */
int quant_texts_add(struct quant_texts *t, const int32_t *id, size_t n, size_t most, struct err *e);

/* Moves every eighth row of `from`, the last of each eight, to `to`. */
int quant_texts_hold_out(struct quant_texts *from, struct quant_texts *to, struct err *e);

/* Room for one row after the other, as many as fit with the longest. */
struct packed *quant_texts_packed(const struct quant_texts *t, const struct model *m,
                                  struct stream *s, struct err *e);

/* Packs the rows that fit from row *next on, which moves behind them. With labels each token but
 * the last of a row is to predict the next. */
int quant_texts_pack(const struct quant_texts *t, size_t *next, bool has_labels, struct packed *p,
                     struct err *e);

static inline size_t quant_texts_begin(const struct quant_texts *t, size_t row)
{
    return row ? t->end.at[row - 1] : 0;
}

#endif
