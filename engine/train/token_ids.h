/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids by the bytes that tokens stand for, as servers tell them beside log-probabilities.
 *
 * Thread: any, once it is made.
 */
#ifndef ENGINE_TRAIN_TOKEN_IDS_H
#define ENGINE_TRAIN_TOKEN_IDS_H

#include "engine/base/map.h"
#include "engine/token/tokenizer.h"

struct token_ids {
    struct map id; /* of bytes, plus one */
};

int token_ids_init(struct token_ids *t, const struct tokenizer *from, struct err *e);
void token_ids_release(struct token_ids *t);

/* -1: no token stands for these bytes. Of several it is one that is neither special nor a byte
 * written out, and of these the first. */
int32_t token_ids_get(const struct token_ids *t, const char *p, size_t n);

#endif
