/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind a piece of text that came back go the tokens that followed it; where those reach the end
 * of the text they go on with the guesses themselves, so that a loop is guessed as far as is
 * wanted. A place goes on with the text, also past a token that was another one: a copy with edits.
 */
#include "engine/draft/draft.h"

#include <stdbool.h>

static const float LEARNS = 0.125F; /* weight of what a guess turned out to be */

/* Until something is known: past an edit, behind pieces of 2, of 4 and of 8 tokens. */
static const float first[DRAFT_GRADES] = {0.3F, 0.4F, 0.6F, 0.8F};

static int32_t grade_of(int64_t n_match)
{
    if (n_match < NGRAM_SHORT)
        return 0;
    return n_match < NGRAM_LONG ? 1 : n_match < 2 * NGRAM_LONG ? 2 : 3;
}

size_t draft_bytes(int64_t n_max)
{
    return ngram_bytes(n_max);
}

int draft_init(struct draft *d, int64_t n_max, struct err *e)
{
    *d = (struct draft){.ngram = ngram_new(n_max, e)};
    for (int i = 0; i < DRAFT_GRADES; i++)
        d->right[i] = first[i];
    return d->ngram ? 0 : -1;
}

void draft_release(struct draft *d)
{
    ngram_free(d->ngram);
    *d = (struct draft){0};
}

int64_t draft_look(struct draft *d, const int32_t *token, int64_t n, int64_t most)
{
    int64_t n_match;
    d->n_guess = d->n_right = 0;
    ngram_read(d->ngram, token, n);
    int64_t at = ngram_find(d->ngram, token, n, d->at, &n_match);
    if (at < 0)
        return 0;
    d->at = at;
    most = most < DRAFT_MAX ? most : DRAFT_MAX;
    for (int64_t i = 0; i < most; i++)
        d->guess[i] = at + i < n ? token[at + i] : d->guess[at + i - n];
    d->grade = grade_of(n_match);
    d->n_guess = (int32_t)(most > 0 ? most : 0);
    return d->n_guess;
}

float draft_chance(const struct draft *d)
{
    return d->right[d->grade];
}

void draft_heard(struct draft *d, int32_t token)
{
    float *right = &d->right[d->grade];
    d->at += d->at > 0;
    if (d->n_right >= d->n_guess)
        return;
    bool is_right = d->guess[d->n_right] == token;
    *right += LEARNS * ((is_right ? 1 : 0) - *right);
    if (is_right)
        d->n_right++;
    else
        d->n_guess = 0;
}
