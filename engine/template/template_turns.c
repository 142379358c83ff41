/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes of a rendered conversation are the assistant's. The rules stand in template.h; here
 * each of them is one function over the full text and the renders of prefixes.
 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/template/template.h"

static bool is_from(uint32_t origin, uint32_t message)
{
    enum jorigin_kind kind = jorigin_kind(origin);
    return (kind == JORIGIN_MESSAGE || kind == JORIGIN_CONTENT) &&
           jorigin_message(origin) == message;
}

static bool is_message(uint32_t origin)
{
    return jorigin_kind(origin) == JORIGIN_MESSAGE || jorigin_kind(origin) == JORIGIN_CONTENT;
}

/* The bytes from the first to the last that came from the message; false when none did. */
static bool find_bytes(const struct template_out *t, uint32_t message, size_t *begin, size_t *end)
{
    bool has = false;
    for (size_t i = 0; i < t->n_span; i++) {
        if (!is_from(t->span[i].origin, message))
            continue;
        if (!has)
            *begin = t->span[i].begin;
        *end = t->span[i].end;
        has = true;
    }
    return has;
}

/* The end of the last byte before `at` that came from another message. */
static size_t bytes_before(const struct template_out *t, size_t at)
{
    size_t end = 0;
    for (size_t i = 0; i < t->n_span && t->span[i].end <= at; i++)
        if (is_message(t->span[i].origin))
            end = t->span[i].end;
    return end;
}

static bool is_prefix(const struct template_out *p, const struct template_out *of)
{
    return p->len <= of->len && memcmp(p->text, of->text, p->len) == 0;
}

struct prefixes {
    const struct template *t;
    const struct template_in *in;
    const struct template_out *whole;
};

/* The first n messages rendered alone. */
static int render_prefix(const struct prefixes *p, size_t n, bool add_generation_prompt,
                         struct template_out *out, struct err *e)
{
    struct jlist list = *p->in->messages->l;
    struct jvalue messages = *p->in->messages;
    struct template_in in = *p->in;
    list.n = n;
    messages.l = &list;
    in.messages = &messages;
    in.add_generation_prompt = add_generation_prompt;
    return template_render(p->t, &in, out, e);
}

/* The end of the last place of `what` in text[from, to), or `to` when it is not there. */
static size_t end_of_last(const char *text, size_t from, size_t to, const char *what, size_t n)
{
    for (size_t i = to - from >= n && n ? to - n + 1 : from; i-- > from;)
        if (memcmp(text + i, what, n) == 0)
            return i + n;
    return to;
}

/* Where the turn of message i begins. has_bytes: its own bytes begin at a. */
static bool find_begin(const struct prefixes *p, size_t i, bool has_bytes, size_t a, size_t *begin)
{
    struct template_out asked = {0}, bare = {0};
    bool found = false;
    *begin = a;
    if (render_prefix(p, i, true, &asked, NULL) == 0) {
        if (is_prefix(&asked, p->whole) && (!has_bytes || asked.len <= a)) {
            *begin = asked.len;
            found = true;
        } else if (has_bytes && render_prefix(p, i, false, &bare, NULL) == 0 &&
                   is_prefix(&bare, &asked)) {
            *begin = end_of_last(p->whole->text, bytes_before(p->whole, a), a,
                                 asked.text + bare.len, asked.len - bare.len);
        }
    }
    template_out_release(&asked);
    template_out_release(&bare);
    return found || has_bytes;
}

/* Where it ends; -1 when the conversation cannot be rendered up to it. */
static int find_end(const struct prefixes *p, size_t i, bool has_bytes, size_t b, size_t *end,
                    bool *found, struct err *e)
{
    struct template_out upto = {0};
    size_t from = 0, last = 0;
    *end = b;
    *found = has_bytes;
    if (render_prefix(p, i + 1, false, &upto, e))
        return err_wrap(e, "rendering up to message %zu for its loss mask", i);
    if (!has_bytes) {
        *found = is_prefix(&upto, p->whole);
        *end = upto.len;
    } else if (find_bytes(&upto, (uint32_t)i, &from, &last)) {
        size_t tail = upto.len - last;
        if (tail <= p->whole->len - b && memcmp(upto.text + last, p->whole->text + b, tail) == 0)
            *end = b + tail;
    }
    template_out_release(&upto);
    return 0;
}

static bool is_assistant(const struct jvalue *message)
{
    const struct jvalue *role = jv_dict_get(message, "role");
    return role && role->type == JT_STR && role->s->len == strlen("assistant") &&
           memcmp(role->s->p, "assistant", role->s->len) == 0;
}

static int turns_by_prefix(const struct prefixes *p, struct template_turns *turns, struct err *e)
{
    const struct jlist *l = p->in->messages->l;
    size_t done = 0; /* turns do not overlap */
    for (size_t i = 0; i < l->n; i++) {
        size_t a = 0, b = 0, begin, end;
        bool found;
        if (!is_assistant(&l->at[i]))
            continue;
        bool has_bytes = find_bytes(p->whole, (uint32_t)i, &a, &b);
        bool has_begin = find_begin(p, i, has_bytes, a, &begin);
        if (find_end(p, i, has_bytes, b, &end, &found, e))
            return -1;
        begin = begin < done ? done : begin;
        if (!has_begin || !found || begin >= end) {
            turns->n_lost++;
            continue;
        }
        turns->at[turns->n++] =
            (struct template_turn){.begin = begin, .end = end, .message = (int64_t)i};
        done = end;
    }
    return 0;
}

/* Runs of spans that were written inside {% generation %}. */
static void turns_by_tag(const struct template_out *whole, struct template_turns *turns)
{
    bool is_open = false;
    for (size_t i = 0; i < whole->n_span; i++) {
        const struct template_span *s = &whole->span[i];
        if (!(s->origin & JORIGIN_GENERATION)) {
            is_open = false;
            continue;
        }
        if (!is_open)
            turns->at[turns->n++] = (struct template_turn){.begin = s->begin, .message = -1};
        is_open = true;
        struct template_turn *turn = &turns->at[turns->n - 1];
        turn->end = s->end;
        if (turn->message < 0 && is_message(s->origin))
            turn->message = jorigin_message(s->origin);
    }
}

int template_render_turns(const struct template *t, const struct template_in *in,
                          struct template_out *out, struct template_turns *turns, struct err *e)
{
    struct template_in whole = *in;
    whole.add_generation_prompt = false;
    *turns = (struct template_turns){0};
    *out = (struct template_out){0};
    if (in->messages->type != JT_LIST)
        return err_set(e, ERR_BAD_INPUT, "messages must be a list");
    if (template_render(t, &whole, out, e))
        return -1;
    bool by_tag = template_has_generation(t);
    turns->at = try_alloc(by_tag ? out->n_span : in->messages->l->n, sizeof *turns->at,
                          "the turns of a conversation", e);
    const struct prefixes p = {.t = t, .in = &whole, .whole = out};
    int bad = !turns->at;
    if (!bad && by_tag)
        turns_by_tag(out, turns);
    else if (!bad)
        bad = turns_by_prefix(&p, turns, e);
    if (bad) {
        template_out_release(out);
        template_turns_release(turns);
    }
    return bad ? -1 : 0;
}

void template_turns_release(struct template_turns *turns)
{
    mem_free(turns->at);
    *turns = (struct template_turns){0};
}
