/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is typed: moved in, corrected, recalled. The keys are those of every shell: arrows,
 * Home, End, Delete, Ctrl-A E B F D K U W; Ctrl-R looks older lines through for what is typed then.
 * Text that is pasted may have lines, and Alt-Enter begins one; they are sent as one.
 *
 * The line is drawn on one row of the terminal, which scrolls sideways when it is longer. edit_feed
 * and what it leaves in the struct know nothing of terminals: edit_read gives it what is typed.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_EDIT_H
#define CLIENTS_REMOTE_EDIT_H

#include "clients/remote/term.h"

enum { EDIT_BYTES_MAX = 1 << 20, EDIT_HISTORY_MAX = 500, EDIT_SEQUENCE = 8, EDIT_QUERY = 64 };

enum edit_end {
    EDIT_GOES_ON,
    EDIT_DONE,    /* Enter: `text` is what was typed */
    EDIT_DROPPED, /* Ctrl-C */
    EDIT_OVER     /* Ctrl-D on an empty line, or nothing more can come */
};

struct edit {
    char *text; /* owned, terminated */
    size_t n, cap;
    size_t at;      /* bytes before the cursor */
    char **history; /* owned [n_history], each owned; the oldest first */
    size_t n_history, place;
    char *draft; /* owned: what was typed before older lines were looked at; NULL */
    enum { EDIT_PLAIN, EDIT_ESCAPED, EDIT_CSI, EDIT_SS3 } state;
    char sequence[EDIT_SEQUENCE];
    size_t n_sequence;
    bool pastes, searches;
    char query[EDIT_QUERY]; /* what is searched for */
    size_t n_query;
};

void edit_init(struct edit *e);
void edit_release(struct edit *e);
void edit_clear(struct edit *e); /* before the next line; history stays */

/* A line of an earlier run, the newest so far. */
void edit_remember(struct edit *e, const char *text);

/* One byte that was typed. EDIT_DONE puts the line into the history. */
enum edit_end edit_feed(struct edit *e, unsigned char c);

/* Prompt and line on the row where the cursor stands. */
void edit_draw(const struct edit *e, const struct term *t, const char *prompt);

/* A whole line. Where stdin or `t` is no terminal: the next line of stdin, and nothing is drawn. */
enum edit_end edit_read(struct edit *e, const struct term *t, const char *prompt);

#endif
