/* SPDX-License-Identifier: Apache-2.0
 *
 * What a teacher's server told of an answer, beside its text: the tokens that it drew, and how
 * likely it held these and others. The tokens become those of a row, in the teacher's own cut; what
 * was held likely becomes what the row's places are to be.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TRAIN_TAUGHT_H
#define ENGINE_TRAIN_TAUGHT_H

#include "engine/template/template.h"
#include "engine/train/example.h"
#include "engine/train/row_text.h"
#include "engine/train/token_ids.h"

struct taught {
    struct row_given given;         /* of a part of the row */
    struct tok_list list;           /* owned: its tokens */
    const struct train_teacher *of; /* borrowed; NULL: nobody spoke of the part */
};

/* The part of a rendered text that is of the teacher's message. An error names what the tokenizer
 * lacks, or that the text is another one. */
int taught_init(struct taught *t, const struct token_ids *ids, const struct train_teacher *of,
                const struct template_out *text, const struct row_part *part, struct err *e);
void taught_release(struct taught *t); /* of zeros, too */

/* Of the teacher's token i: it and those beside it that the tokenizer has and that are not
 * impossible, and how likely each is; at most TRAIN_TOP_MAX. What these leave of 1 is all others'.
 * Returns how many, or -1. */
int32_t taught_top(const struct taught *t, const struct token_ids *ids, size_t i,
                   int32_t id[TRAIN_TOP_MAX], float mass[TRAIN_TOP_MAX], struct err *e);

#endif
