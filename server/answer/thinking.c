/* SPDX-License-Identifier: Apache-2.0
 *
 * Thoughts come first: what is behind them goes on to who reads calls, or is words.
 */
#include "server/answer/thinking.h"

void thinking_let(struct constraint *c, const struct engine *g, const struct api_request *q,
                  const struct prompt *p)
{
    const struct think_marks *m = engine_info(g)->think;
    bool is_open = p->thinks == THINK_INSIDE;
    if (!m || c->kind == CONSTRAINT_NONE || (!is_open && p->thinks != THINK_MAY))
        return;
    c->say = c->kind == CONSTRAINT_CALLS ? NULL : m->say; /* calls have a beginning of their own */
    if (!is_open && !q->splits_thoughts)
        return;
    c->open = m->open;
    c->close = m->close;
    c->is_open = is_open;
}

static bool says_words(const struct jvalue *message)
{
    const struct jvalue *content = jv_dict_get(message, "content");
    return content && content->type != JT_NONE && (content->type != JT_STR || content->s->len > 0);
}

int thinking_name(const struct engine *g, struct api_request *q, struct arena *a, struct err *e)
{
    static const char key[] = "thinking";
    const struct think_marks *m = engine_info(g)->think;
    if (!m || !m->say || q->messages.type != JT_LIST)
        return 0;
    for (size_t i = 0; i < q->messages.l->n; i++) {
        struct jvalue *message = &q->messages.l->at[i];
        const struct jvalue *thought = jv_dict_get(message, "reasoning_content");
        bool is_word = jv_dict_get(message, "tool_calls") && says_words(message);
        if (!thought || thought->type != JT_STR || jv_dict_get(message, key) || is_word)
            continue;
        if (jv_dict_put(a, message, key, sizeof key - 1, *thought, e))
            return -1;
    }
    return 0;
}

void thinking_limit(struct api_request *q, const struct engine *g, const struct prompt *p)
{
    struct gen_thoughts *t = &q->gen.thoughts;
    const struct engine_info *info = engine_info(g);
    t->is_limited = t->is_limited && p->thinks != THINK_NOT;
    t->is_open = p->thinks == THINK_INSIDE;
    t->open = info->think_open;
    t->close = info->think_close;
}

void thinking_listen(struct choice *c, const struct engine *g, const struct api_request *q,
                     const struct prompt *p)
{
    const struct engine_info *info = engine_info(g);
    if ((q->route & API_CHATS) && info->think)
        c->thoughts = (struct think_count){.marks = info->think, .place = p->thinks};
    /* Messages on channels are told apart whatever was asked: together they are no text. */
    if ((q->route & API_CHATS) && info->think && (q->splits_thoughts || info->think->say))
        c->thinks = think_reader_new(info->think, p->thinks);
    if (c->detok && thinking_reads(c))
        detok_show(c->detok, info->mark, info->n_mark);
}

bool thinking_reads(const struct choice *c)
{
    return c->reads || c->thinks;
}

static int read_thoughts(struct choice *c, const char *text, size_t n, bool is_over, struct err *e)
{
    struct buf *words = think_reader_words(c->thinks);
    if (n)
        think_reader_push(c->thinks, text, n);
    if (is_over)
        think_reader_end(c->thinks);
    if (buf_check(words, "the text", e) ||
        buf_check(think_reader_thoughts(c->thinks), "the thoughts", e))
        return -1;
    if (!c->reads)
        return 0;
    int rc = words->len ? tool_reader_push(c->reads, words->data, words->len, e) : 0;
    buf_clear(words);
    return rc;
}

int thinking_read(struct choice *c, const char *text, size_t n, bool is_over, struct err *e)
{
    if (c->thinks && read_thoughts(c, text, n, is_over, e))
        return -1;
    if (!c->thinks && n && tool_reader_push(c->reads, text, n, e))
        return -1;
    return c->reads && is_over ? tool_reader_end(c->reads, e) : 0;
}

/* What the buffer holds behind what was told. */
static size_t news(const struct buf *b, size_t *n_told, const char **out)
{
    size_t n = b->len - *n_told;
    *out = n ? b->data + *n_told : "";
    *n_told = b->len;
    return n;
}

void thinking_describe(struct choice *c, const struct api_request *q, struct api_choice *out)
{
    if (c->thinks)
        out->n_thoughts =
            news(think_reader_thoughts(c->thinks), &c->n_thoughts_told, &out->thoughts);
    if (!q->shows_thoughts)
        out->n_thoughts = 0;
    if (thinking_reads(c))
        out->n_text = news(c->reads ? tool_reader_words(c->reads) : think_reader_words(c->thinks),
                           &c->n_words_told, &out->text);
}
