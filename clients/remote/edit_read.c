/* SPDX-License-Identifier: Apache-2.0
 *
 * The line on its terminal: every byte as it is typed, and the row drawn anew. The terminal is as
 * it was before each time that edit_read returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "clients/remote/edit.h"
#include "clients/remote/interrupt.h"

enum { ROW_BYTES_MAX = EDIT_BYTES_MAX + 4096, READ_BYTES = 4096 };

/* Where the shown part begins, so that the cursor is in it. */
static size_t begin_of(const char *text, size_t at, int room)
{
    size_t from = 0, n;
    int columns = 0;
    for (size_t i = 0; i < at; i += n)
        columns += term_character(text + i, &n);
    while (columns > room && from < at) {
        columns -= term_character(text + from, &n);
        from += n;
    }
    return from;
}

static int columns_of(const char *text, size_t lo, size_t hi)
{
    int columns = 0;
    for (size_t n; lo < hi; lo += n)
        columns += term_character(text + lo, &n);
    return columns;
}

void edit_draw(const struct edit *e, const struct term *t, const char *prompt)
{
    char search[EDIT_QUERY + 16];
    snprintf(search, sizeof search, "(search: %s) ", e->query);
    prompt = e->searches ? search : prompt;
    int n_prompt = term_columns(prompt), room = term_width(t) - n_prompt - 1;
    size_t from = begin_of(e->text, e->at, room > 1 ? room : 1);
    size_t shown = term_cut(e->text + from, room > 1 ? room : 1);
    struct buf row;
    buf_init(&row, ROW_BYTES_MAX);
    buf_printf(&row, "\r\033[K%s%s%s", term_style(t, TERM_BOLD), prompt, term_style(t, TERM_PLAIN));
    term_clean(&row, e->text + from, shown, false);
    buf_printf(&row, "\r\033[%dC", n_prompt + columns_of(e->text, from, e->at));
    fwrite(row.data, 1, row.len, t->out);
    fflush(t->out);
    buf_release(&row);
}

/* ---- a terminal ---------------------------------------------------------------------------- */

static enum edit_end type_line(struct edit *e, const struct term *t, const char *prompt)
{
    enum edit_end end = EDIT_GOES_ON;
    while (end == EDIT_GOES_ON) {
        unsigned char typed; /* one by one: what is behind Enter belongs to who reads next */
        edit_draw(e, t, prompt);
        ssize_t n = read(STDIN_FILENO, &typed, 1);
        if (n == 1)
            end = edit_feed(e, typed);
        else if (n == 0 || errno != EINTR || interrupt_seen())
            end = EDIT_OVER;
    }
    e->at = e->n;
    if (end == EDIT_DONE)
        edit_draw(e, t, prompt);
    return end;
}

static enum edit_end type_raw(struct edit *e, const struct term *t, const char *prompt)
{
    struct termios was, raw;
    if (tcgetattr(STDIN_FILENO, &was) != 0)
        return EDIT_OVER;
    raw = was;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    fputs("\033[?2004h", t->out); /* pasted text says that it is */
    enum edit_end end = type_line(e, t, prompt);
    fputs("\033[?2004l\r\n", t->out);
    fflush(t->out);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &was);
    return end;
}

/* ---- no terminal --------------------------------------------------------------------------- */

static enum edit_end read_plain(struct edit *e)
{
    int c;
    while ((c = getchar()) != EOF && c != '\n')
        if (c != '\r' && c != '\033')
            edit_feed(e, c == '\t' ? ' ' : (unsigned char)c);
    return c == EOF && e->n == 0 ? EDIT_OVER : EDIT_DONE;
}

enum edit_end edit_read(struct edit *e, const struct term *t, const char *prompt)
{
    edit_clear(e);
    if (t->has_cursor && isatty(STDIN_FILENO))
        return type_raw(e, t, prompt);
    return read_plain(e);
}
