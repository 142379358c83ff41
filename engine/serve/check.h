/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be asked of a model. Whatever passes here can be run without another look at it: the
 * engine's thread refuses nothing.
 *
 * Thread: any.
 */
#ifndef ENGINE_SERVE_CHECK_H
#define ENGINE_SERVE_CHECK_H

#include "engine/engine.h"

/* The bounds of a request on this engine. */
struct check_limits {
    int64_t n_vocab, ctx;
    int64_t ctx_short; /* of sequences whose positions turn by the short form; 0: all turn alike */
    int32_t n_eos;
    bool generates, embeds, classifies, has_tokenizer;
};

/* ERR_BAD_INPUT, ERR_TOO_LARGE or ERR_UNSUPPORTED; the text begins with the API's name of the
 * field. max_new: the tokens that it may add. */
int check_request(const struct check_limits *l, const struct gen_req *r, int64_t *max_new,
                  struct err *e);

#endif
