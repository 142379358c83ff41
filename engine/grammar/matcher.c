/* SPDX-License-Identifier: Apache-2.0
 *
 * One sequence under a constraint: a ring of the sets of places after each accepted token, over one
 * array of frames that is cut when the sequence goes back, and gone through now and then for what
 * no set needs any more.
 */
#include "engine/grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/grammar/masks.h"

enum { FIRST_SWEEP = 4096 };

struct past {
    struct place_set set;
    uint32_t n_frame; /* frames made later are not this set's */
};

struct matcher {
    struct masks *m; /* counted */
    struct stack stack;
    struct past *past; /* owned, a ring */
    unsigned n_past;
    size_t place, oldest; /* past[place % n_past] is now */
    uint32_t sweep_at;
    struct place_set next, spare;
};

static struct past *past_at(const struct matcher *m, size_t place)
{
    return &m->past[place % m->n_past];
}

struct matcher *matcher_new(struct masks *masks, unsigned max_back)
{
    struct matcher *m = xcalloc(1, sizeof *m);
    struct place start = {masks->g->start, STACK_BOTTOM};
    ASSERT(max_back <= MATCHER_MAX_BACK);
    m->m = masks_ref(masks);
    m->n_past = max_back + 1;
    m->past = xcalloc(m->n_past, sizeof *m->past);
    m->sweep_at = FIRST_SWEEP;
    stack_init(&m->stack, masks->g);
    stack_close(&m->stack, &start, 1, &m->past[0].set);
    m->past[0].n_frame = (uint32_t)m->stack.frame.n;
    return m;
}

struct matcher *matcher_copy(const struct matcher *from)
{
    struct matcher *m = xcalloc(1, sizeof *m);
    *m = (struct matcher){.m = masks_ref(from->m),
                          .n_past = from->n_past,
                          .place = from->place,
                          .oldest = from->oldest,
                          .sweep_at = from->sweep_at};
    m->past = xcalloc(m->n_past, sizeof *m->past);
    for (unsigned i = 0; i < m->n_past; i++) {
        place_set_copy(&m->past[i].set, &from->past[i].set);
        m->past[i].n_frame = from->past[i].n_frame;
    }
    stack_init(&m->stack, m->m->g);
    stack_copy(&m->stack, &from->stack);
    return m;
}

void matcher_free(struct matcher *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < m->n_past; i++)
        place_set_release(&m->past[i].set);
    place_set_release(&m->next);
    place_set_release(&m->spare);
    stack_release(&m->stack);
    free(m->past);
    masks_unref(m->m);
    free(m);
}

/* Frames that no remembered set stands on are dropped. */
static void sweep(struct matcher *m)
{
    uint32_t n = (uint32_t)m->stack.frame.n, n_live = 0;
    uint32_t *number = xcalloc(n + 1, sizeof *number);
    for (size_t p = m->oldest; p <= m->place; p++) {
        struct place_set *set = &past_at(m, p)->set;
        for (size_t i = 0; i < set->place.n; i++)
            number[set->place.at[i].stack] = 1;
    }
    for (uint32_t i = n; i-- > 1;)
        if (number[i])
            number[m->stack.frame.at[i].below] = 1;
    number[STACK_BOTTOM] = 1;
    for (uint32_t i = 0; i <= n; i++) { /* to how many live frames lie before it */
        uint32_t live = i < n ? number[i] : 0;
        number[i] = n_live;
        n_live += live;
        if (i < n && !live)
            number[i] |= STACK_DROP;
    }
    for (size_t p = m->oldest; p <= m->place; p++) {
        struct past *past = past_at(m, p);
        past->n_frame = number[past->n_frame] & ~STACK_DROP;
        for (size_t i = 0; i < past->set.place.n; i++)
            past->set.place.at[i].stack = number[past->set.place.at[i].stack];
    }
    stack_keep(&m->stack, number);
    m->sweep_at = n_live * 2 > FIRST_SWEEP ? n_live * 2 : FIRST_SWEEP;
    free(number);
}

int matcher_accept_bytes(struct matcher *m, const char *p, size_t len, struct err *e)
{
    struct past *now = past_at(m, m->place);
    const struct place_set *here = &now->set;
    for (size_t i = 0; i < len; i++) {
        stack_step(&m->stack, here, (uint8_t)p[i], &m->next);
        if (m->next.overflowed || (!m->next.place.n && !m->next.ends)) {
            stack_cut(&m->stack, now->n_frame);
            return m->next.overflowed
                       ? err_set(e, ERR_TOO_LARGE, "the constraint can be read in too many ways")
                       : err_set(e, ERR_BAD_INPUT, "byte %zu does not match the constraint", i);
        }
        struct place_set swap = m->spare;
        m->spare = m->next;
        m->next = swap;
        here = &m->spare;
    }
    m->place++;
    if (m->place - m->oldest >= m->n_past)
        m->oldest = m->place - m->n_past + 1;
    struct past *then = past_at(m, m->place);
    if (here != &then->set)
        place_set_copy(&then->set, here);
    then->n_frame = (uint32_t)m->stack.frame.n;
    if (then->n_frame > m->sweep_at)
        sweep(m);
    return 0;
}

int matcher_accept(struct matcher *m, int32_t token, struct err *e)
{
    size_t len;
    const char *p = token_trie_bytes(m->m->t, token, &len);
    if (len == 0)
        return err_set(e, ERR_BAD_INPUT, "token %d is no text", token);
    return matcher_accept_bytes(m, p, len, e);
}

size_t matcher_place(const struct matcher *m)
{
    return m->place;
}

int matcher_back(struct matcher *m, size_t place, struct err *e)
{
    if (place > m->place || place < m->oldest)
        return err_set(e, ERR_BAD_INPUT, "place %zu is not between %zu and %zu", place, m->oldest,
                       m->place);
    m->place = place;
    stack_cut(&m->stack, past_at(m, place)->n_frame);
    return 0;
}

bool masks_hold(struct masks *masks, const char *text, size_t n)
{
    struct err unused = ERR_INIT;
    struct matcher *m = matcher_new(masks, 0);
    bool holds = !matcher_accept_bytes(m, text, n, &unused) && matcher_may_end(m);
    matcher_free(m);
    return holds;
}

bool matcher_may_end(const struct matcher *m)
{
    return past_at(m, m->place)->set.ends;
}

bool matcher_must_end(const struct matcher *m)
{
    return past_at(m, m->place)->set.place.n == 0;
}

int matcher_mask(struct matcher *m, uint32_t *bits, int32_t *only, struct err *e)
{
    const struct place_set *set = &past_at(m, m->place)->set;
    uint32_t n = 0;
    if (masks_of(m->m, &m->stack, set, bits, e))
        return -1;
    *only = -1;
    for (size_t i = 0; i < m->m->n_word && n < 2; i++) {
        if (bits[i])
            *only = (int32_t)(i * 32 + (size_t)__builtin_ctz(bits[i]));
        n += (uint32_t)__builtin_popcount(bits[i]);
    }
    if (n != 1 || set->ends)
        *only = -1;
    if (n == 0 && !set->ends)
        return err_set(e, ERR_UNSUPPORTED,
                       "no token of this model can go on with a text of the constraint");
    return 0;
}

/* The one byte that must come next, or -1. */
static int forced_byte(const struct stack *s, const struct place_set *set)
{
    int byte = -1;
    if (set->ends || !set->place.n)
        return -1;
    for (size_t i = 0; i < set->place.n; i++) {
        const struct code *c = &s->g->code[set->place.at[i].pc];
        const struct code_range *r = s->g->range + c->a;
        uint32_t n = c->kind == CODE_BYTE ? 1 : c->n;
        for (uint32_t k = 0; k < n; k++) {
            uint8_t lo = c->kind == CODE_BYTE ? c->lo : r[k].lo;
            uint8_t hi = c->kind == CODE_BYTE ? c->hi : r[k].hi;
            if (lo != hi || (byte >= 0 && byte != lo))
                return -1;
            byte = lo;
        }
    }
    return byte;
}

size_t matcher_forced(struct matcher *m, char *out, size_t cap)
{
    struct past *now = past_at(m, m->place);
    size_t n = 0;
    int byte;
    place_set_copy(&m->spare, &now->set);
    while (n < cap && (byte = forced_byte(&m->stack, &m->spare)) >= 0) {
        stack_step(&m->stack, &m->spare, (uint8_t)byte, &m->next);
        if (m->next.overflowed)
            break;
        out[n++] = (char)byte;
        struct place_set swap = m->spare;
        m->spare = m->next;
        m->next = swap;
    }
    stack_cut(&m->stack, now->n_frame);
    return n;
}
