/* SPDX-License-Identifier: Apache-2.0
 *
 * Two texts' tokens in one input. What is too long loses the ends of its texts, of the longer one
 * first, as the reference's "longest first" does.
 */
#include <string.h>

#include "engine/token/internal.h"

size_t tokenizer_pair_added(const struct tokenizer *t)
{
    return t->pair.before.n + t->pair.between.n + t->pair.after.n;
}

int tokenizer_pair_check(const struct tokenizer *t, struct err *e)
{
    if (t->pair.is_unknown)
        return err_set(e, ERR_UNSUPPORTED,
                       "the tokenizer's post_processor puts two texts together in a way that is "
                       "not supported");
    return 0;
}

void tokenizer_pair_cut(const struct tokenizer *t, size_t most, size_t *n_first, size_t *n_second)
{
    size_t added = tokenizer_pair_added(t), room = most > added ? most - added : 0;
    size_t *less = *n_first <= *n_second ? n_first : n_second;
    size_t *more = less == n_first ? n_second : n_first;
    if (*n_first + *n_second <= room)
        return;
    if (*less > room / 2) {
        *less = room / 2;
        *more = room - room / 2;
    } else {
        *more = room - *less;
    }
}

static int32_t *copy(int32_t *to, const int32_t *id, size_t n)
{
    if (n)
        memcpy(to, id, n * sizeof *id);
    return to + n;
}

size_t tokenizer_pair_put(const struct tokenizer *t, const struct tok_run *first,
                          const struct tok_run *second, int32_t *out)
{
    const struct tokenizer_pair *p = &t->pair;
    int32_t *at = copy(out, p->before.id, p->before.n);
    at = copy(at, first->id, first->n);
    size_t n_first = (size_t)(at - out) + p->n_between_first;
    at = copy(at, p->between.id, p->between.n);
    at = copy(at, second->id, second->n);
    at = copy(at, p->after.id, p->after.n);
    return p->has_one_type ? (size_t)(at - out) : n_first;
}
