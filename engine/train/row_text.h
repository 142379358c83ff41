/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens of a row's text, cut where serving cuts it: what stands before a part that is learned
 * has the ids that serving gives it as a prompt, and the part goes on from there. A text that is
 * tokenized as one can have a token over that border, which no prompt ends with and no answer
 * begins with.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_ROW_TEXT_H
#define ENGINE_TRAIN_ROW_TEXT_H

#include "engine/template/template.h"
#include "engine/token/tokenizer.h"

/* Tokens that bytes [lo, hi) of a text are known to have, whatever its tokenizer makes of them. */
struct row_given {
    size_t lo, hi;
    const struct tok_list *list; /* borrowed: with spans in the text */
    size_t at; /* where in the row they begin: found; SIZE_MAX: behind where anybody looks */
};

/* A part that is learned: [lo, hi), of bytes or of tokens. */
struct row_part {
    size_t lo, hi;
    struct row_given *given; /* borrowed: of a conversation, in the part; NULL: none */
};

/* A prompt as /v1/completions takes it, and what is to answer it. Both may contain special tokens.
 * `out` is empty and has spans, which say nothing afterwards; *part is of its tokens. */
int row_text_pair(const struct tokenizer *t, const struct tok_segment *prompt,
                  const struct tok_segment *completion, struct tok_list *out, struct row_part *part,
                  struct err *e);

/* A rendered conversation, of which parts [n] are learned: bytes, in order, apart; they become
 * those of its tokens, up to token `max`. Where a text has the same tokens whole it is as if it
 * were not cut.
 *
 * Each part begins where its prompt ends, so up to its first part a row is what serving is asked.
 * Behind a part that had to be cut the text of later prompts goes through that border as one. */
int row_text_chat(const struct tokenizer *t, const struct template_out *text, size_t max,
                  struct tok_list *out, struct row_part *part, size_t n, struct err *e);

#endif
