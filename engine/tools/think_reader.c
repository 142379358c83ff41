/* SPDX-License-Identifier: Apache-2.0
 *
 * What may still become a mark, and spaces that may turn out to stand at an end, are held back.
 */
#include "engine/tools/think_reader.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/tools/channels.h"
#include "engine/tools/json_scan.h"

enum { TEXT_MAX = 256 << 20 };

enum state { BEGIN, THOUGHTS, GAP, WORDS };

struct think_reader {
    const struct think_marks *marks; /* borrowed */
    enum state state;
    struct channels channels;         /* of texts that are messages */
    struct buf thoughts, words, held; /* held: spaces, then the beginning of a mark */
    size_t n_space;
};

static const struct think_marks rows[] = {{"<think>", "</think>", NULL},
                                          {"[THINK]", "[/THINK]", NULL}};

/* Harmony: behind the thoughts stands what stood behind the prompt. */
static const struct think_marks channels = {
    "<|channel|>analysis<|message|>", "<|end|><|start|>assistant", "<|channel|>final<|message|>"};

/* Granite's thoughts come with marks around the answer too. */
const struct think_marks *think_marks_told(const char *template)
{
    if (strstr(template, "<|channel|>analysis<|message|>") && strstr(template, "<|channel|>final"))
        return &channels;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(template, rows[i].close) && !strstr(template, "<response>"))
            return &rows[i];
    return NULL;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t len = strlen(end);
    return n >= len && memcmp(text + n - len, end, len) == 0;
}

enum think_place think_place_of(const struct think_marks *m, const char *prompt, size_t n)
{
    while (n && json_scan_is_space(prompt[n - 1]))
        n--;
    return ends_with(prompt, n, m->open)    ? THINK_INSIDE
           : m->say                         ? THINK_MAY
           : ends_with(prompt, n, m->close) ? THINK_NOT
                                            : THINK_MAY;
}

struct think_reader *think_reader_new(const struct think_marks *m, enum think_place place)
{
    struct think_reader *r = xcalloc(1, sizeof *r);
    r->marks = m;
    r->state = place == THINK_INSIDE ? THOUGHTS : place == THINK_MAY ? BEGIN : WORDS;
    buf_init(&r->thoughts, TEXT_MAX);
    buf_init(&r->words, TEXT_MAX);
    buf_init(&r->held, TEXT_MAX);
    channels_init(&r->channels,
                  place == THINK_INSIDE ? CHANNELS_THOUGHTS
                  : place == THINK_MAY  ? CHANNELS_HEADER
                                        : CHANNELS_WORDS,
                  &r->thoughts, &r->words);
    return r;
}

void think_reader_free(struct think_reader *r)
{
    if (!r)
        return;
    buf_release(&r->thoughts);
    buf_release(&r->words);
    buf_release(&r->held);
    channels_release(&r->channels);
    free(r);
}

const struct buf *think_reader_thoughts(const struct think_reader *r)
{
    return &r->thoughts;
}

struct buf *think_reader_words(struct think_reader *r)
{
    return &r->words;
}

static void hold_nothing(struct think_reader *r)
{
    r->n_space = 0;
    buf_clear(&r->held);
}

static void let_go(struct think_reader *r, struct buf *to)
{
    if (r->held.len)
        buf_add(to, r->held.data, r->held.len);
    hold_nothing(r);
}

/* What is held but for its spaces. 1: it is the mark; 0: it may become it; -1: neither. */
static int look(const struct think_reader *r, const char *mark)
{
    size_t n = r->held.len - r->n_space, len = strlen(mark);
    if (n > len || (n && memcmp(r->held.data + r->n_space, mark, n) != 0))
        return -1;
    return n == len;
}

/* The first byte of what is held is a thought, with the spaces before it; unless they begin all. */
static void think(struct think_reader *r)
{
    size_t n = r->n_space ? r->n_space : 1;
    if (!r->n_space || r->thoughts.len)
        buf_add(&r->thoughts, r->held.data, n);
    memmove(r->held.data, r->held.data + n, r->held.len - n + 1);
    r->held.len -= n;
    r->n_space = 0;
    while (r->n_space < r->held.len && json_scan_is_space(r->held.data[r->n_space]))
        r->n_space++;
}

static void take(struct think_reader *r, char c)
{
    int is;
    if (r->state == WORDS) {
        buf_char(&r->words, c);
        return;
    }
    if (r->state == GAP && json_scan_is_space(c))
        return;
    if (r->state == GAP) {
        r->state = WORDS;
        buf_char(&r->words, c);
        return;
    }
    r->n_space += r->n_space == r->held.len && json_scan_is_space(c);
    buf_char(&r->held, c);
    if (r->state == BEGIN) {
        is = look(r, r->marks->open);
        if (is < 0) {
            r->state = WORDS;
            let_go(r, &r->words);
        } else if (is > 0) {
            r->state = THOUGHTS;
            hold_nothing(r);
        }
        return;
    }
    while (r->held.len && (is = look(r, r->marks->close)) != 0) {
        if (is < 0) {
            think(r);
            continue;
        }
        r->state = GAP;
        hold_nothing(r);
    }
}

void think_reader_push(struct think_reader *r, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (r->marks->say)
            channels_byte(&r->channels, text[i]);
        else
            take(r, text[i]);
}

/* Half a mark is what it is; spaces at the end of thoughts go. */
void think_reader_end(struct think_reader *r)
{
    bool has_more = r->held.len > r->n_space;
    if (r->marks->say) {
        channels_end(&r->channels);
        return;
    }
    if (r->state == THOUGHTS && has_more)
        let_go(r, &r->thoughts);
    else if (r->state == BEGIN)
        let_go(r, &r->words);
    hold_nothing(r);
}
