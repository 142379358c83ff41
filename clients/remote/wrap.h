/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer's words on a terminal's lines while they come: a character is shown as soon as it is
 * there, and a word that its line has no room for is taken back from there and shown again on the
 * next. What is between words (spaces, styles) waits for the next one, and where a line ends in its
 * place its spaces are left out. A word longer than a line is left to the terminal, and so is text
 * that is not to be wrapped (code). Wide characters are words of their own, but for marks that
 * belong to the one before or behind.
 *
 * The last column stays empty: there the cursor of one terminal is not where that of another is.
 * The width is asked anew for each piece of text; a line that was wider than it is now was changed
 * by the terminal, each in its own way, and ends behind its word.
 *
 * Where the cursor cannot be moved, or there are fewer columns than TERM_WIDTH_MIN, nothing
 * changes.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_WRAP_H
#define CLIENTS_REMOTE_WRAP_H

#include "clients/remote/term.h"

enum { WRAP_STYLE = 16, WRAP_WORD = 1024, WRAP_GAP = 256, WRAP_CHARACTER = 5 };

struct wrap {
    const struct term *term; /* borrowed */
    int width;               /* of the terminal; 0: nothing is wrapped */
    int column;              /* behind what is shown */
    bool is_folded;          /* the terminal began a line within a word */
    bool is_lost;            /* where the cursor is now the terminal alone knows */
    char part[WRAP_CHARACTER], last[WRAP_CHARACTER]; /* the character that comes; the one before */
    size_t n_part;
    int last_columns;
    char word[WRAP_WORD]; /* as it is shown, with its styles */
    size_t n_word;
    int word_columns;
    bool is_long;       /* a part of it was forgotten: it stays where it is */
    char gap[WRAP_GAP]; /* spaces, and styles behind them, that are to be shown */
    size_t n_gap;
    int gap_columns;
    char style[WRAP_STYLE], word_style[WRAP_STYLE]; /* now, and where the word begins */
};

void wrap_init(struct wrap *w, const struct term *t);
void wrap_look(struct wrap *w); /* how wide the terminal is now */

/* `is_raw`: it is not to be wrapped. A style says all that holds from here on. */
void wrap_char(struct wrap *w, struct buf *out, char c, bool is_raw);
void wrap_style(struct wrap *w, struct buf *out, const char *style);
void wrap_end(struct wrap *w, struct buf *out); /* what waited */

#endif
