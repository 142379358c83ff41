/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists double up to their ceiling; past it the caller's text has too many tokens, which is the
 * caller's error and is found without tokenizing the rest.
 */
#include "engine/token/tok_list.h"

#include <stdlib.h>

#include "engine/base/mem.h"

void tok_list_init(struct tok_list *l, size_t max, bool with_spans)
{
    *l = (struct tok_list){.max = max, .with_spans = with_spans};
}

void tok_list_release(struct tok_list *l)
{
    free(l->id);
    free(l->span);
    tok_list_init(l, l->max, l->with_spans);
}

int tok_list_grow(struct tok_list *l, struct err *e)
{
    size_t cap = l->cap ? l->cap * 2 : 64;
    cap = cap < l->max ? cap : l->max;
    if (l->n >= cap)
        return err_set(e, ERR_TOO_LARGE, "the text has more than %zu tokens", l->max);
    void *p = try_resize(l->id, cap * sizeof *l->id, "token ids", e);
    if (!p)
        return -1;
    l->id = p;
    if (l->with_spans) {
        p = try_resize(l->span, cap * sizeof *l->span, "token spans", e);
        if (!p)
            return -1;
        l->span = p;
    }
    l->cap = cap;
    return 0;
}
