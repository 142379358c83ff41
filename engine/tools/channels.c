/* SPDX-License-Identifier: Apache-2.0
 *
 * What may still become a header or a mark is held back. A header that is too long, or does not
 * begin as one, is what it is: words.
 */
#include "engine/tools/channels.h"

#include <string.h>

#include "engine/tools/tool_spec.h"

enum { HEADER_MAX = 512, HELD_MAX = HEADER_MAX + 1 };

static const char message[] = "<|message|>", channel[] = "<|channel|>", to[] = "to=";

/* What a header begins with; and what ends a message: the first three go with it, the others begin
 * the next header. */
static const char *const begins[] = {"<|channel|>", "<|start|>", "<|message|>", " to=", NULL};
static const char *const ends[] = {"<|end|>",   "<|return|>",  "<|call|>",
                                   "<|start|>", "<|channel|>", NULL};

enum { ENDS_ALONE = 3 };

void channels_init(struct channels *c, enum channels_in in, struct buf *thoughts, struct buf *words)
{
    *c = (struct channels){.in = in, .thoughts = thoughts, .words = words};
    buf_init(&c->held, HELD_MAX);
}

void channels_release(struct channels *c)
{
    buf_release(&c->held);
}

/* ---- headers ------------------------------------------------------------------------------- */

/* What stands behind `mark` in the header, up to a space or another mark; "" where it is not. */
static size_t word_behind(const struct channels *c, const char *mark, const char **out)
{
    const char *at = c->held.len ? strstr(c->held.data, mark) : NULL;
    *out = at ? at + strlen(mark) : "";
    return strcspn(*out, " <");
}

static bool is_word(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

/* The next message begins: a blank line keeps it apart from one before. */
static void begin(struct channels *c, enum channels_in in)
{
    struct buf *out = in == CHANNELS_THOUGHTS ? c->thoughts : c->words;
    bool *has = in == CHANNELS_THOUGHTS ? &c->has_thoughts : &c->has_words;
    if (*has)
        buf_str(out, "\n\n");
    *has = true;
    c->in = in;
}

static void read_header(struct channels *c)
{
    static const char functions[] = "functions.";
    enum { N = sizeof functions - 1 };
    const char *name, *who;
    size_t n_name = word_behind(c, channel, &name), n_who = word_behind(c, to, &who);
    bool is_call = n_who > N && n_who <= N + TOOL_NAME_MAX && memcmp(who, functions, N) == 0;
    begin(c, !is_call && is_word(name, n_name, "analysis") ? CHANNELS_THOUGHTS : CHANNELS_WORDS);
    if (is_call) {
        buf_str(c->words, "<|channel|>commentary to=");
        buf_add(c->words, who, n_who);
        buf_str(c->words, " <|constrain|>json<|message|>");
    }
    buf_clear(&c->held);
}

/* Which of the texts the held bytes are; -1: they may become one; -2: they can't. */
static int look(const struct channels *c, const char *const *texts)
{
    int found = -2;
    for (int i = 0; texts[i]; i++) {
        size_t len = strlen(texts[i]), n = c->held.len < len ? c->held.len : len;
        if (memcmp(c->held.data, texts[i], n) == 0)
            found = n == len ? i : found < 0 ? -1 : found;
    }
    return found;
}

static void let_go(struct channels *c, size_t n)
{
    buf_add(c->in == CHANNELS_THOUGHTS ? c->thoughts : c->words, c->held.data, n);
    memmove(c->held.data, c->held.data + n, c->held.len - n + 1);
    c->held.len -= n;
}

static bool header_ends(const struct channels *c)
{
    size_t n = sizeof message - 1;
    return c->held.len >= n && memcmp(c->held.data + c->held.len - n, message, n) == 0;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void look_for_end(struct channels *c)
{
    int end;
    while (c->held.len && (end = look(c, ends)) != -1) {
        if (end < 0) {
            let_go(c, 1);
            continue;
        }
        c->in = CHANNELS_HEADER;
        if (end < ENDS_ALONE)
            buf_clear(&c->held);
        return;
    }
}

void channels_byte(struct channels *c, char byte)
{
    bool is_between = c->in == CHANNELS_HEADER && (c->has_thoughts || c->has_words);
    if (is_between && !c->held.len && byte == '\n')
        return;
    buf_char(&c->held, byte);
    if (c->in == CHANNELS_HEADER && header_ends(c)) {
        read_header(c);
        return;
    }
    if (c->in == CHANNELS_HEADER && look(c, begins) != -2 && c->held.len < HEADER_MAX)
        return;
    if (c->in == CHANNELS_HEADER)
        begin(c, CHANNELS_WORDS);
    look_for_end(c);
}

/* A header that does not end says nothing. */
void channels_end(struct channels *c)
{
    if (c->in != CHANNELS_HEADER && c->held.len)
        let_go(c, c->held.len);
    buf_clear(&c->held);
}
