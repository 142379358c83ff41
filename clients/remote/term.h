/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stream leads to: a terminal, its width and whether it may be coloured, or something else,
 * which gets plain lines of any length. NO_COLOR (set to anything but nothing) and TERM=dumb turn
 * colours off, the latter also what moves the cursor.
 *
 * Texts that others wrote (names, messages, answers) are shown by term_put: what a terminal would
 * obey is not in what it prints, and what is no UTF-8 becomes U+FFFD.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_TERM_H
#define CLIENTS_REMOTE_TERM_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/buf.h"

enum { TERM_WIDTH = 80, TERM_WIDTH_MIN = 20 };

enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_GOOD, TERM_BAD, TERM_CODE };

struct term {
    FILE *out; /* borrowed */
    bool is_tty, has_color;
    bool has_cursor; /* a line may be drawn anew */
};

void term_init(struct term *t, FILE *out);

/* Columns there are now; to be drawn in, TERM_WIDTH_MIN or more. */
int term_width_now(const struct term *t);
int term_width(const struct term *t);

/* What begins a style; "" where there are no colours. */
const char *term_style(const struct term *t, enum term_style style);

/* Columns that a text takes; of the character at its begin, whose bytes are *n. A text that is cut
 * to some columns keeps so many bytes. */
int term_columns(const char *text);
int term_character(const char *text, size_t *n);
size_t term_cut(const char *text, int columns);

/* The text without what a terminal would obey. Newlines and tabs become spaces in term_put, and are
 * kept in an answer (term_clean with `keeps_lines`). */
void term_clean(struct buf *out, const char *text, size_t n, bool keeps_lines);
void term_put(FILE *out, const char *text);

#endif
