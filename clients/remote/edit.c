/* SPDX-License-Identifier: Apache-2.0
 *
 * The line and what each key does to it; see edit_read.c for the terminal.
 */
#include "clients/remote/edit.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum {
    CTRL_A = 1,
    CTRL_B,
    CTRL_C,
    CTRL_D,
    CTRL_E,
    CTRL_F,
    CTRL_G,
    CTRL_H = 8,
    CTRL_K = 11,
    CTRL_N = 14,
    CTRL_P = 16,
    CTRL_R = 18,
    CTRL_U = 21,
    CTRL_W = 23,
    ESCAPE = 27,
    DELETE = 127
};

void edit_init(struct edit *e)
{
    *e = (struct edit){.n = 0};
    e->cap = 256;
    e->text = xcalloc(1, e->cap);
}

void edit_release(struct edit *e)
{
    for (size_t i = 0; i < e->n_history; i++)
        free(e->history[i]);
    free(e->history);
    free(e->draft);
    free(e->text);
}

void edit_clear(struct edit *e)
{
    e->n = e->at = 0;
    e->text[0] = 0;
    e->place = e->n_history;
    e->state = EDIT_PLAIN;
    e->pastes = e->searches = false;
    free(e->draft);
    e->draft = NULL;
}

/* ---- the text ------------------------------------------------------------------------------ */

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80; /* of a character that began before */
}

static size_t before(const struct edit *e, size_t at)
{
    if (at == 0)
        return 0;
    do
        at--;
    while (at > 0 && is_inside(e->text[at]));
    return at;
}

static size_t behind(const struct edit *e, size_t at)
{
    if (at == e->n)
        return at;
    do
        at++;
    while (at < e->n && is_inside(e->text[at]));
    return at;
}

static void cut(struct edit *e, size_t lo, size_t hi)
{
    memmove(e->text + lo, e->text + hi, e->n - hi + 1);
    e->n -= hi - lo;
    e->at = lo;
}

static void insert(struct edit *e, char c)
{
    if (e->n + 2 > EDIT_BYTES_MAX)
        return;
    if (e->n + 2 > e->cap) {
        e->cap *= 2;
        e->text = xrealloc(e->text, e->cap);
    }
    memmove(e->text + e->at + 1, e->text + e->at, e->n - e->at + 1);
    e->text[e->at++] = c;
    e->n++;
}

static size_t word_before(const struct edit *e)
{
    size_t at = e->at;
    while (at > 0 && e->text[at - 1] == ' ')
        at--;
    while (at > 0 && e->text[at - 1] != ' ')
        at--;
    return at;
}

/* ---- older lines --------------------------------------------------------------------------- */

static void set_text(struct edit *e, const char *text)
{
    e->n = e->at = 0;
    e->text[0] = 0;
    for (; *text; text++)
        insert(e, *text);
}

static void recall(struct edit *e, size_t place)
{
    if (e->place == e->n_history && place < e->n_history) {
        free(e->draft);
        e->draft = xstrdup(e->text);
    }
    e->place = place;
    set_text(e, place < e->n_history ? e->history[place] : e->draft ? e->draft : "");
}

void edit_remember(struct edit *e, const char *text)
{
    bool is_new = e->n_history == 0 || strcmp(e->history[e->n_history - 1], text) != 0;
    if (!*text || !is_new)
        return;
    if (e->n_history == EDIT_HISTORY_MAX) {
        free(e->history[0]);
        memmove(e->history, e->history + 1, --e->n_history * sizeof *e->history);
    }
    e->history = xrealloc(e->history, (e->n_history + 1) * sizeof *e->history);
    e->history[e->n_history++] = xstrdup(text);
}

static void older(struct edit *e)
{
    if (e->place > 0)
        recall(e, e->place - 1);
}

static void newer(struct edit *e)
{
    if (e->place < e->n_history)
        recall(e, e->place + 1);
}

/* ---- the search ---------------------------------------------------------------------------- */

/* The newest line from `place` backwards that has what is searched for; none: nothing changes. */
static void find_older(struct edit *e, size_t place)
{
    while (place-- > 0)
        if (strstr(e->history[place], e->query)) {
            recall(e, place);
            return;
        }
}

static void begin_search(struct edit *e)
{
    if (e->place == e->n_history) {
        free(e->draft);
        e->draft = xstrdup(e->text);
    }
    e->searches = true;
    e->n_query = 0;
    e->query[0] = 0;
}

static void shorten_query(struct edit *e)
{
    while (e->n_query > 0 && is_inside(e->query[--e->n_query]))
        ;
    e->query[e->n_query] = 0;
    find_older(e, e->n_history);
}

/* Whether the key is the search's; any other one ends it, and works on the line that was found. */
static bool search(struct edit *e, unsigned char c)
{
    size_t from = e->place < e->n_history ? e->place : e->n_history;
    if (c == CTRL_R) {
        find_older(e, from);
    } else if (c == CTRL_H || c == DELETE) {
        shorten_query(e);
    } else if (c == CTRL_G || c == CTRL_C) {
        recall(e, e->n_history);
        e->searches = false;
    } else if (c >= ' ') {
        if (e->n_query + 1 < EDIT_QUERY) {
            e->query[e->n_query++] = (char)c;
            e->query[e->n_query] = 0;
        }
        find_older(e, from < e->n_history ? from + 1 : from);
    } else {
        e->searches = false;
    }
    return e->searches || c == CTRL_G || c == CTRL_C;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void arrow(struct edit *e, char which)
{
    switch (which) {
    case 'A':
        older(e);
        break;
    case 'B':
        newer(e);
        break;
    case 'C':
        e->at = behind(e, e->at);
        break;
    case 'D':
        e->at = before(e, e->at);
        break;
    case 'H':
        e->at = 0;
        break;
    case 'F':
        e->at = e->n;
        break;
    default:
        break;
    }
}

/* ESC [ digits ~ */
static void numbered(struct edit *e)
{
    int64_t which = strtol(e->sequence, NULL, 10);
    if (which == 1 || which == 7)
        e->at = 0;
    else if (which == 4 || which == 8)
        e->at = e->n;
    else if (which == 3)
        cut(e, e->at, behind(e, e->at));
    else if (which == 200 || which == 201)
        e->pastes = which == 200;
}

static void escaped(struct edit *e, unsigned char c)
{
    if (e->state == EDIT_ESCAPED && c == '\r') {
        e->state = EDIT_PLAIN;
        insert(e, '\n');
        return;
    }
    if (e->state == EDIT_ESCAPED) {
        e->state = c == '[' ? EDIT_CSI : c == 'O' ? EDIT_SS3 : EDIT_PLAIN;
        e->n_sequence = 0;
        return;
    }
    if (e->state == EDIT_CSI && c < '@') { /* of its parameters; a long one is none of ours */
        if (e->n_sequence + 1 < EDIT_SEQUENCE)
            e->sequence[e->n_sequence++] = (char)c;
        return;
    }
    e->sequence[e->n_sequence] = 0;
    e->state = EDIT_PLAIN;
    if (c == '~')
        numbered(e);
    else if (!e->pastes)
        arrow(e, (char)c);
}

static enum edit_end control(struct edit *e, unsigned char c)
{
    switch (c) {
    case '\r':
    case '\n':
        edit_remember(e, e->text);
        return EDIT_DONE;
    case CTRL_C:
        return EDIT_DROPPED;
    case CTRL_D:
        if (e->n == 0)
            return EDIT_OVER;
        cut(e, e->at, behind(e, e->at));
        break;
    case CTRL_A:
    case CTRL_E:
        e->at = c == CTRL_A ? 0 : e->n;
        break;
    case CTRL_B:
    case CTRL_F:
        e->at = c == CTRL_B ? before(e, e->at) : behind(e, e->at);
        break;
    case CTRL_P:
        older(e);
        break;
    case CTRL_N:
        newer(e);
        break;
    case CTRL_R:
        begin_search(e);
        break;
    case CTRL_K:
        cut(e, e->at, e->n);
        break;
    case CTRL_U:
        cut(e, 0, e->at);
        break;
    case CTRL_W:
        cut(e, word_before(e), e->at);
        break;
    case CTRL_H:
    case DELETE:
        cut(e, before(e, e->at), e->at);
        break;
    default:
        break;
    }
    return EDIT_GOES_ON;
}

enum edit_end edit_feed(struct edit *e, unsigned char c)
{
    if (e->searches && !e->pastes && e->state == EDIT_PLAIN && search(e, c))
        return EDIT_GOES_ON;
    if (e->state != EDIT_PLAIN)
        escaped(e, c);
    else if (c == ESCAPE)
        e->state = EDIT_ESCAPED;
    else if (e->pastes && (c == '\r' || c == '\n' || c == '\t'))
        insert(e, c == '\r' ? '\n' : (char)c);
    else if (c < ' ' || c == DELETE)
        return e->pastes ? EDIT_GOES_ON : control(e, c);
    else
        insert(e, (char)c);
    return EDIT_GOES_ON;
}
