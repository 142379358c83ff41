/* SPDX-License-Identifier: Apache-2.0
 *
 * First the plain automaton, a state for each rest, then the least one.
 */
#include "engine/grammar/multiple.h"

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_text.h"

enum {
    MAX_RESTS = 100000, /* of the plain automaton, for each digit behind the point */
    MAX_STATES = 120000,
    MAX_PAIRS = 60000, /* both signs' come with all that is made of them in half of 64 MB */
    POINT = 11,        /* classes: the ten digits, all else, the point */
    OTHER = 10,
    N_CLASS = 12
};

static int refuse(struct budget *b, const struct multiple *m, const char *why)
{
    return budget_fail(b, ERR_UNSUPPORTED, "%s/multipleOf: %s", m->path, why);
}

static void put_spans(struct budget *b, struct dfa *d)
{
    LIST(struct dfa_span) span = {0};
    list_push(b, &span, (struct dfa_span){0, '.' - 1, OTHER});
    list_push(b, &span, (struct dfa_span){'.', '.', POINT});
    list_push(b, &span, (struct dfa_span){'.' + 1, '0' - 1, OTHER});
    for (uint32_t i = 0; i < 10; i++)
        list_push(b, &span, (struct dfa_span){'0' + i, '0' + i, i});
    list_push(b, &span, (struct dfa_span){'9' + 1, 0xd7ff, OTHER});
    list_push(b, &span, (struct dfa_span){0xe000, CHAR_MAX_CODE, OTHER});
    d->span = span.at;
    d->n_span = span.n;
}

/* Numbers by what is left over when they are divided by n 10^-n_part: a block of n states for the
 * whole digits, one for each digit behind the point. The last state: no digit yet. */
static struct dfa *plain(struct budget *b, uint32_t n, uint32_t n_block, uint32_t n_part)
{
    struct dfa *d = BUDGET_NEW(b, struct dfa);
    uint32_t last = n_block * n;
    d->n_state = last + 1;
    d->n_class = N_CLASS;
    d->start = last;
    d->next = budget_alloc(b, (size_t)d->n_state * N_CLASS, sizeof *d->next);
    d->accepts = budget_alloc(b, d->n_state, sizeof *d->accepts);
    put_spans(b, d);
    for (uint32_t at = 0; at <= last && budget_tick(b, 1); at++) {
        uint32_t block = at / n, rest = at == last ? 0 : at % n, scaled = rest;
        bool is_whole = at == last || block == 0, is_full = block + 1 == n_block && !is_whole;
        for (uint32_t k = is_whole ? 0 : block - 1; k < n_part; k++)
            scaled = scaled * 10 % n;
        d->accepts[at] = at != last && block != 1 && scaled == 0;
        uint32_t to = is_whole ? 0 : (block + 1) * n, *next = d->next + (size_t)at * N_CLASS;
        for (uint32_t c = 0; c < 10; c++)
            next[c] = is_full ? DFA_DEAD : to + (rest * 10 + c) % n;
        next[OTHER] = DFA_DEAD;
        next[POINT] = is_whole && at != last && n_part ? n + rest : DFA_DEAD;
    }
    return b->failed ? NULL : d;
}

int multiple_init(struct budget *b, struct multiple *m, const char *text)
{
    size_t n_whole = strcspn(text, "."), n_part = text[n_whole] ? strlen(text + n_whole + 1) : 0;
    double n = 0, n_block = n_part ? (double)n_part + 2 : 1;
    for (const char *p = text; *p; p++)
        n = *p == '.' ? n : n * 10 + (*p - '0');
    if (!(n >= 1 && n <= MAX_RESTS) || n_part > JSON_MAX_DIGITS || n * n_block > MAX_STATES)
        return refuse(b, m,
                      "only numbers whose digits are up to 100000, and few behind the point, "
                      "can be honoured");
    struct dfa *d = plain(b, (uint32_t)n, (uint32_t)n_block, (uint32_t)n_part);
    m->n_part = (int)n_part;
    m->dfa = d && (d = dfa_trim(b, d)) ? dfa_least(b, d) : NULL;
    return m->dfa ? 0 : -1;
}

struct dfa *multiple_met(struct budget *b, const struct multiple *m, const struct dfa *numbers)
{
    bool is_full;
    uint32_t most = b->max_states < MAX_PAIRS ? b->max_states : MAX_PAIRS;
    struct dfa *d = dfa_both_within(b, numbers, m->dfa, most, &is_full);
    if (is_full)
        refuse(b, m,
               "together with as many digits as the bounds leave it needs too many states: a "
               "lower maximum, or a number with more factors of ten, would do");
    return d;
}
