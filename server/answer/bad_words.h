/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that must not come, as sequences of tokens.
 *
 * Thread: any; everything lies in the arena.
 */
#ifndef SERVER_ANSWER_BAD_WORDS_H
#define SERVER_ANSWER_BAD_WORDS_H

#include "api/request.h"
#include "engine/engine.h"

/* The request's words into its sampling: each as it stands, and behind a space. */
int bad_words_encode(const struct engine *g, struct api_request *q, struct arena *a,
                     struct api_error *e);

#endif
