/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer ends with the message's text, or behind it. It begins where the model had to choose the
 * first byte, or, where a template puts something in front of it, with the message's own text, or
 * with the space before that.
 */
#include "engine/train/taught.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"

/* Beyond 1 by no more than what a server's digits leave. */
static const double SUM_MOST = 1.01;

static size_t tokens_of(const struct train_teacher *of)
{
    size_t n = of->n;
    while (n > 0 && of->at[n - 1].is.n == 0) /* an end that has no text */
        n--;
    return n;
}

/* A token's bytes for people. */
static const char *spell(const struct train_token *t, char *out, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < t->n && at + sizeof "\\xff..." <= cap; i++) {
        unsigned char c = (unsigned char)t->p[i];
        bool is_plain = c >= ' ' && c < 127 && c != '"' && c != '\\';
        at += (size_t)snprintf(out + at, cap - at, is_plain ? "%c" : "\\x%02x", c);
        if (i + 1 < t->n && at + sizeof "\\xff..." > cap)
            snprintf(out + at, cap - at, "...");
    }
    return t->n ? out : "";
}

static int put_tokens(struct taught *t, const struct token_ids *ids, struct err *e)
{
    size_t n = tokens_of(t->of), at = 0;
    char text[64];
    t->list.id = try_alloc(n + 1, sizeof *t->list.id, "a teacher's tokens", e);
    t->list.span = try_alloc(n + 1, sizeof *t->list.span, "a teacher's tokens", e);
    if (!t->list.id || !t->list.span)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct train_token *x = &t->of->at[i].is;
        t->list.id[i] = token_ids_get(ids, x->p, x->n);
        if (t->list.id[i] < 0)
            return err_set(e, ERR_BAD_INPUT,
                           "'messages[%zu]': token %zu of its 'logprobs', \"%s\", is none of the "
                           "model's: a teacher must cut texts as the model's tokenizer does",
                           t->of->message, i, spell(x, text, sizeof text));
        t->list.span[i] = (struct tok_span){(uint32_t)at, (uint32_t)(at + x->n)};
        at += x->n;
    }
    t->list.n = t->list.cap = n;
    return 0;
}

/* Whether the teacher's tokens are the text from byte `at` on, within the part, up to byte `end`.
 */
static bool is_at(const struct taught *t, const struct template_out *text,
                  const struct row_part *part, size_t at, size_t end)
{
    size_t n = t->list.n ? t->list.span[t->list.n - 1].hi : 0;
    if (at < part->lo || at > part->hi || n > part->hi - at || at + n < end)
        return false;
    for (size_t i = 0; i < t->list.n; i++) {
        const struct train_token *x = &t->of->at[i].is;
        if (memcmp(text->text + at + t->list.span[i].lo, x->p, x->n) != 0)
            return false;
    }
    return true;
}

/* Where the message's text lies in the part; nothing: at its end. */
static struct row_part text_of(const struct template_out *text, const struct row_part *part,
                               size_t message)
{
    struct row_part own = {.lo = part->hi, .hi = part->lo};
    for (size_t i = 0; i < text->n_span; i++) {
        const struct template_span *s = &text->span[i];
        enum jorigin_kind kind = jorigin_kind(s->origin);
        bool is_own = (kind == JORIGIN_MESSAGE || kind == JORIGIN_CONTENT) &&
                      jorigin_message(s->origin) == message;
        if (!is_own || s->begin < part->lo || s->begin >= part->hi)
            continue;
        own.lo = s->begin < own.lo ? s->begin : own.lo;
        own.hi = s->end;
    }
    return own;
}

int taught_init(struct taught *t, const struct token_ids *ids, const struct train_teacher *of,
                const struct template_out *text, const struct row_part *part, struct err *e)
{
    const struct row_part own = text_of(text, part, of->message);
    const size_t place[] = {part->lo, own.lo, own.lo - 1};
    *t = (struct taught){.of = of};
    if (put_tokens(t, ids, e))
        return -1;
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        if (!is_at(t, text, part, place[i], own.hi))
            continue;
        for (size_t k = 0; k < t->list.n; k++) {
            t->list.span[k].lo += (uint32_t)place[i];
            t->list.span[k].hi += (uint32_t)place[i];
        }
        t->given = (struct row_given){.lo = place[i],
                                      .hi = t->list.n ? t->list.span[t->list.n - 1].hi : place[i],
                                      .list = &t->list};
        return 0;
    }
    return err_set(
        e, ERR_BAD_INPUT,
        "'messages[%zu]': the tokens of its 'logprobs' are not the text that the model's "
        "chat template makes of it",
        of->message);
}

void taught_release(struct taught *t)
{
    mem_free(t->list.id);
    mem_free(t->list.span);
}

static bool has(const int32_t *id, int32_t n, int32_t x)
{
    while (n > 0 && id[n - 1] != x)
        n--;
    return n > 0;
}

int32_t taught_top(const struct taught *t, const struct token_ids *ids, size_t i,
                   int32_t id[TRAIN_TOP_MAX], float mass[TRAIN_TOP_MAX], struct err *e)
{
    const struct train_taught *x = &t->of->at[i];
    double sum = exp(x->is.logprob);
    int32_t n = 1;
    id[0] = t->list.id[i];
    mass[0] = (float)sum;
    for (size_t k = 0; k < x->n_top && n < TRAIN_TOP_MAX; k++) {
        int32_t other = token_ids_get(ids, x->top[k].p, x->top[k].n);
        float m = (float)exp(x->top[k].logprob);
        if (other < 0 || !(m > 0) || has(id, n, other))
            continue;
        id[n] = other;
        mass[n++] = m;
        sum += (double)m;
    }
    if (sum > SUM_MOST)
        return err_set(e, ERR_BAD_INPUT,
                       "'messages[%zu]': the probabilities at token %zu of its 'logprobs' sum to "
                       "%.3g: they are of at most 1",
                       t->of->message, i, sum);
    for (int32_t k = 0; k < n && sum > 1; k++)
        mass[k] = (float)((double)mass[k] / sum);
    return n;
}
