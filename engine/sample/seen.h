/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens a text holds and how often its answer does: what penalties count. One entry per
 * different token, found by hash, in the order of their first coming; so a token costs O(1), and a
 * text as much memory as it is long, not as the vocabulary is wide.
 *
 * The room is taken when the text is admitted; counting cannot fail. The hash is keyed, so nobody
 * can choose tokens that collide.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_SAMPLE_SEEN_H
#define ENGINE_SAMPLE_SEEN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct seen;

struct seen_token {
    int32_t id;
    int32_t n_answer; /* times in the answer; 0: in the prompt only */
};

/* For a text of at most n_tok tokens, prompt and answer. */
struct seen *seen_new(int64_t n_tok, struct err *e);
void seen_free(struct seen *s);
size_t seen_bytes(int64_t n_tok); /* what seen_new takes */

void seen_prompt(struct seen *s, int32_t id);
void seen_answer(struct seen *s, int32_t id);

const struct seen_token *seen_tokens(const struct seen *s, int64_t *n); /* borrowed: [n] */
int64_t seen_find(const struct seen *s, int32_t id); /* where among them; -1: it was not seen */

#endif
