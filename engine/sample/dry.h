/* SPDX-License-Identifier: Apache-2.0
 *
 * "Don't repeat yourself", as llama.cpp has it: a token that would make a repetition of the text's
 * end longer loses logits, by the length that the repetition has: multiplier * base ^ (length -
 * allowed). A repetition reaches back to the last breaker at most.
 *
 * A breaker is a token (by its bit), or a sequence of them: [a length, and so many tokens, ...].
 * A token that is a breaker loses nothing.
 *
 * Thread: any, one at a time for a text.
 */
#ifndef ENGINE_SAMPLE_DRY_H
#define ENGINE_SAMPLE_DRY_H

#include "engine/sample/params.h"

enum { DRY_KNOWN = 2 };

/* Edits the row of what comes behind n tokens of text, of which the last p->dry_last count (-1:
 * all). `longest` [n_vocab] is work space, and `space` [DRY_KNOWN + n], which belongs to the text:
 * its first DRY_KNOWN numbers are 0 at first, and what is known of the text when it is longer. */
void dry_edit(const struct sample_params *p, const int32_t *text, int64_t n, int32_t *space,
              int32_t *longest, float *row);

#endif
