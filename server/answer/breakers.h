/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts behind which DRY counts repetitions anew, as tokens.
 *
 * Thread: any; everything lies in the arena.
 */
#ifndef SERVER_ANSWER_BREAKERS_H
#define SERVER_ANSWER_BREAKERS_H

#include "api/request.h"
#include "engine/engine.h"

/* The request's breakers into its sampling, where that is dry: each token that holds one, and each
 * sequence that begins with a token whose end begins one. */
int breakers_encode(const struct engine *g, struct api_request *q, struct arena *a,
                    struct api_error *e);

#endif
