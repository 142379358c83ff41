/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of struct tok_list: appending a token.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOKEN_TOK_LIST_H
#define ENGINE_TOKEN_TOK_LIST_H

#include "engine/token/tokenizer.h"

int tok_list_grow(struct tok_list *l, struct err *e);

static inline int tok_list_push(struct tok_list *l, int32_t id, struct tok_span span, struct err *e)
{
    if (l->n == l->cap && tok_list_grow(l, e))
        return -1;
    l->id[l->n] = id;
    if (l->with_spans)
        l->span[l->n] = span;
    l->n++;
    return 0;
}

#endif
