/* SPDX-License-Identifier: Apache-2.0
 *
 * From a row's parameters to the arguments of kernels.
 */
#include "engine/sample/ask.h"

#include "engine/base/rng.h"

struct k_sample_how sample_ask(const struct sample_row *r)
{
    const struct sample_params *p = r->params;
    struct k_sample_how how = {.top_p = 1, .is_edited = sample_is_edited(r)};
    if (sample_is_greedy(p))
        return how;
    how.u = rng_unit(p->seed, 0, r->place);
    how.scale = (float)(1 / p->temperature);
    how.top_p = (float)p->top_p;
    how.min_p = (float)p->min_p;
    how.top_k = p->top_k < INT32_MAX ? (int32_t)p->top_k : 0; /* beyond all vocabularies */
    return how;
}

/* Guesses count like what was seen: one more of an entry, or a new entry. Returns how many there
 * are then. */
static int64_t add_ahead(const struct sample_row *r, struct k_edit *edit, int64_t n)
{
    int64_t n_seen = n;
    for (int32_t i = 0; i < r->n_ahead; i++) {
        int64_t at = seen_find(r->seen, r->ahead[i]);
        for (int64_t k = n_seen; at < 0 && k < n; k++)
            at = edit[k].id == r->ahead[i] ? k : -1;
        if (at < 0)
            edit[at = n++] = (struct k_edit){r->ahead[i], 0};
        edit[at].by += 1;
    }
    return n;
}

int64_t sample_ask_edits(const struct sample_row *r, struct k_edit_row *h, struct k_edit *edit,
                         int64_t room)
{
    const struct sample_params *p = r->params;
    const struct seen_token *seen = NULL;
    int64_t n_seen = 0, n = 0;
    if (r->seen && sample_wants_seen(p))
        seen = seen_tokens(r->seen, &n_seen);
    if (n_seen + r->n_ahead + p->n_bias + r->n_banned > room)
        return -1;
    h->repetition = p->repetition;
    h->frequency = p->frequency;
    h->presence = p->presence;
    h->n_bias = p->n_bias;
    h->n_ban = r->n_banned;
    for (int64_t i = 0; i < n_seen; i++)
        edit[n++] = (struct k_edit){seen[i].id, (float)seen[i].n_answer};
    if (seen)
        n = add_ahead(r, edit, n);
    h->n_seen = (int32_t)n;
    for (int32_t i = 0; i < p->n_bias; i++)
        edit[n++] = (struct k_edit){p->bias[i].id, p->bias[i].add};
    for (int32_t i = 0; i < r->n_banned; i++)
        edit[n++] = (struct k_edit){r->banned[i], 0};
    return n;
}
