/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens to text. The engine counts bytes as the detok here makes them, so its word on how much is
 * certain (text_safe, text_bytes) needs no translation.
 */
#include "server/answer/choice.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/template/jvalue.h"

void choice_init(struct choice *c, struct answer *a, const struct tokenizer *t, bool shows_special,
                 bool goes_on)
{
    *c = (struct choice){
        .answer = a, .detok = t ? detok_new(t, !shows_special) : NULL, .goes_on = goes_on};
    if (t && goes_on)
        detok_inside(c->detok);
    buf_init(&c->text, CHOICE_TEXT_MAX);
}

int choice_echo(struct choice *c, const char *text, size_t n, struct err *e)
{
    buf_add(&c->text, text, n);
    c->n_echo = n;
    return buf_check(&c->text, "the text", e);
}

/* ---- where tokens begin -------------------------------------------------------------------- */

static int add_place(struct choice *c, uint64_t at, struct err *e)
{
    struct choice_places *p = &c->places;
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        uint64_t *more = try_resize(p->at, cap * sizeof *more, "places of tokens", e);
        if (!more)
            return -1;
        p->at = more;
        p->cap = cap;
    }
    p->at[p->n++] = at;
    return 0;
}

int choice_place(struct choice *c, const uint64_t *at, size_t n, struct err *e)
{
    c->places.is_wanted = true;
    for (size_t i = 0; i < n; i++)
        if (add_place(c, at[i], e))
            return -1;
    return 0;
}

/* Places rise but for those in the middle of a character, which count as its beginning; a stop
 * string ends the text before the places of its own tokens. */
void choice_offsets(const struct choice *c, struct api_logprob *at, size_t n)
{
    const struct choice_places *p = &c->places;
    size_t chars = 0, byte = 0;
    for (size_t i = 0; i < n && i < p->n; i++) {
        size_t to = p->at[i] > c->text_at ? (size_t)(p->at[i] - c->text_at) : 0;
        to = to < c->n_show ? to : c->n_show;
        while (to > 0 && to < c->text.len && ((unsigned char)c->text.data[to] & 0xC0) == 0x80)
            to--;
        if (to > byte) {
            chars += jutf8_count(c->text.data + byte, to - byte);
            byte = to;
        }
        at[i].offset = (size_t)p->n_char + chars;
    }
}

static void drop_places(struct choice *c, size_t n)
{
    struct choice_places *p = &c->places;
    n = n < p->n ? n : p->n;
    p->n -= n;
    if (p->n)
        memmove(p->at, p->at + n, p->n * sizeof *p->at);
}

/* The tokens of what may still be a stop string wait with its text; those before any thoughts,
 * where that is asked for, until it is known whether these come. */
static size_t count_ready(const struct choice *c)
{
    const struct choice_places *p = &c->places;
    size_t n = c->n_tok;
    if (c->holds_doubtful && c->state == GEN_RUNS && c->thoughts.place == THINK_MAY)
        return c->n_told;
    if (!p->is_wanted || c->state != GEN_RUNS || c->n_show == c->text.len)
        return n;
    while (n > c->n_told && p->at[p->n - 1 - (c->n_tok - n)] >= c->text_at + c->n_show)
        n--;
    return n;
}

/* ---- text ---------------------------------------------------------------------------------- */

void choice_release(struct choice *c)
{
    if (c->answer)
        answer_unref(c->answer);
    detok_free(c->detok);
    tool_reader_free(c->reads);
    think_reader_free(c->thinks);
    buf_release(&c->text);
    free(c->places.at);
    *c = (struct choice){.answer = NULL};
}

/* Bytes of `text` that lie below a place in what the engine wrote. */
static size_t below(const struct choice *c, uint64_t place)
{
    if (place == UINT64_MAX)
        return c->text.len;
    place += c->n_echo;
    uint64_t n = place > c->text_at ? place - c->text_at : 0;
    return n < c->text.len ? (size_t)n : c->text.len;
}

static int push(struct choice *c, int32_t id, struct err *e)
{
    if (!c->detok)
        return c->places.is_wanted ? add_place(c, 0, e) : 0;
    size_t from = c->text.len;
    if (detok_push(c->detok, id, &c->text, e))
        return -1;
    size_t n = c->text.len - from;
    think_count_token(&c->thoughts, n ? c->text.data + from : "", n);
    return c->places.is_wanted ? add_place(c, c->text_at + detok_begin(c->detok), e) : 0;
}

/* The state is read before the count: once it ended, the count is the whole answer's. */
int choice_pull(struct choice *c, struct err *e)
{
    bool was_running = c->state == GEN_RUNS;
    c->state = answer_state(c->answer);
    size_t n = answer_count(c->answer);
    uint64_t safe = 0;
    for (; c->n_tok < n; c->n_tok++)
        if (push(c, answer_token(c->answer, c->n_tok)->id, e))
            return -1;
    if (c->state != GEN_RUNS) {
        if (was_running && c->detok && detok_finish(c->detok, &c->text, e))
            return -1;
        safe = answer_end(c->answer)->text_bytes;
    } else if (n) {
        safe = answer_token(c->answer, n - 1)->text_safe;
    }
    c->n_show = n || c->state != GEN_RUNS ? below(c, safe) : 0;
    c->n_ready = count_ready(c);
    return buf_check(&c->text, "the text", e);
}

void choice_told(struct choice *c)
{
    size_t n_waiting = c->n_tok - c->n_ready;
    drop_places(c, c->places.n > n_waiting ? c->places.n - n_waiting : 0);
    c->n_told = c->n_ready;
    c->text_at += c->n_show;
    if (c->places.is_wanted && c->n_show)
        c->places.n_char += jutf8_count(c->text.data, c->n_show);
    if (c->n_show == c->text.len) {
        buf_clear(&c->text);
    } else {
        c->text.len -= c->n_show;
        memmove(c->text.data, c->text.data + c->n_show, c->text.len + 1);
    }
    c->n_show = 0;
}

int choice_rewind(struct choice *c, struct err *e)
{
    struct think_count thoughts = c->thoughts;
    c->is_begun = false;
    c->n_told = c->n_words_told = c->n_thoughts_told = 0;
    c->n_ready = c->n_tok;
    if (c->thinks || c->reads)
        return 0;
    buf_clear(&c->text);
    c->text_at = c->n_tok = 0;
    c->state = GEN_RUNS;
    if (c->detok)
        detok_reset(c->detok);
    if (c->detok && c->goes_on)
        detok_inside(c->detok);
    int rc = choice_pull(c, e);
    c->thoughts = thoughts; /* they were counted */
    return rc;
}

int64_t choice_tokens(const struct choice *c)
{
    bool has_end = answer_state(c->answer) != GEN_RUNS;
    return (int64_t)answer_count(c->answer) + (has_end && answer_end(c->answer)->stop_id >= 0);
}

double choice_mean_logprob(const struct choice *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n_tok; i++)
        sum += (double)answer_token(c->answer, i)->logprob;
    return c->n_tok ? sum / (double)c->n_tok : 0;
}

/* Behind the last of a small vocabulary the ids are -1. */
static int32_t count_top(const struct answer_top *top, int64_t n)
{
    int32_t k = 0;
    while (k < n && top[k].id >= 0)
        k++;
    return k;
}

/* The first that is to be told of those that are words. */
static size_t first_word(const struct choice *c)
{
    size_t n_thoughts = (size_t)think_count_get(&c->thoughts), n = c->n_told;
    n = n > n_thoughts ? n : n_thoughts;
    return n < c->n_ready ? n : c->n_ready;
}

size_t choice_logprobs(const struct choice *c, int64_t n_top, bool has_thoughts,
                       struct api_logprob *at)
{
    size_t from = has_thoughts ? c->n_told : first_word(c);
    for (size_t i = from; i < c->n_ready; i++) {
        const struct answer_token *t = answer_token(c->answer, i);
        const struct answer_top *top = n_top > 0 ? answer_top(c->answer, i) : NULL;
        at[i - from] = (struct api_logprob){
            .id = t->id, .logprob = t->logprob, .top = top, .n_top = count_top(top, n_top)};
    }
    return c->n_ready - from;
}

void choice_prompt_logprobs(const struct answer *a, const int32_t *id, size_t n, int64_t n_top,
                            struct api_logprob *at)
{
    at[0] = (struct api_logprob){.id = id[0], .is_unknown = true};
    for (size_t i = 1; i < n; i++) {
        const struct answer_top *top = n_top > 0 ? answer_prompt_top(a, i) : NULL;
        at[i] = (struct api_logprob){.id = id[i],
                                     .logprob = answer_prompt_logprob(a, i),
                                     .rank = answer_prompt_rank(a, i),
                                     .top = top,
                                     .n_top = count_top(top, n_top)};
    }
}
