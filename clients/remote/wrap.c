/* SPDX-License-Identifier: Apache-2.0
 *
 * A word is taken back by its own columns: what is before it in its line may be wider on this
 * terminal than by our count.
 */
#include "clients/remote/wrap.h"

#include <string.h>

enum { TAB = 8 };

/* No line begins with one of these, nor ends with one of those. */
static const char closing[] =
    ")]},.:;!?%*`_’”…‥、。，．：；！？％）］｝〉》」』】〕〗・ー々ゝゞヽヾ"
    "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ🏻🏼🏽🏾🏿";
static const char opening[] = "([{*`_‘“（［｛〈《「『【〔〖\u200D";

static bool is_one_of(const char *set, const char *character)
{
    return *character && strstr(set, character);
}

static int room(const struct wrap *w)
{
    return w->width - 1;
}

void wrap_look(struct wrap *w)
{
    int width = w->term->has_cursor ? term_width_now(w->term) : 0;
    width = width < TERM_WIDTH_MIN ? 0 : width;
    if (width != w->width && (w->is_folded || w->column > width - 1))
        w->is_lost = w->column > 0;
    w->width = width;
}

static void begin_word(struct wrap *w)
{
    w->n_word = 0;
    w->word_columns = 0;
    w->is_long = false;
    memcpy(w->word_style, w->style, sizeof w->style);
}

void wrap_init(struct wrap *w, const struct term *t)
{
    *w = (struct wrap){.term = t};
    snprintf(w->style, sizeof w->style, "%s", term_style(t, TERM_PLAIN));
    begin_word(w);
    wrap_look(w);
}

static void begin_line(struct wrap *w, struct buf *out)
{
    buf_char(out, '\n');
    w->column = w->last_columns = 0;
    w->last[0] = 0;
    w->is_folded = w->is_lost = false;
    begin_word(w);
}

/* ---- between words ------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static void put_gap(struct wrap *w, struct buf *out, bool has_spaces)
{
    for (size_t i = 0; i < w->n_gap; i++)
        if (has_spaces || !is_space(w->gap[i]))
            buf_char(out, w->gap[i]);
    w->column += has_spaces ? w->gap_columns : 0;
    w->n_gap = 0;
    w->gap_columns = 0;
}

static void add_gap(struct wrap *w, struct buf *out, const char *text)
{
    size_t n = strlen(text);
    if (w->n_gap + n > sizeof w->gap)
        put_gap(w, out, w->column + w->gap_columns <= room(w));
    memcpy(w->gap + w->n_gap, text, n);
    w->n_gap += n;
    if (is_space(*text))
        w->gap_columns += *text == ' ' ? 1 : TAB - (w->column + w->gap_columns) % TAB;
}

/* ---- words --------------------------------------------------------------------------------- */

static void add_word(struct wrap *w, const char *text)
{
    size_t n = strlen(text);
    w->is_long = w->is_long || w->n_word + n > sizeof w->word;
    if (w->is_long)
        return;
    memcpy(w->word + w->n_word, text, n);
    w->n_word += n;
}

static bool is_word_begin(const struct wrap *w, int columns)
{
    if (w->n_gap > 0)
        return true;
    return columns > 0 && (columns == 2 || w->last_columns == 2) && !is_one_of(closing, w->part) &&
           !is_one_of(opening, w->last);
}

static void put_first(struct wrap *w, struct buf *out, int columns)
{
    bool has_room = !w->is_lost && w->column + w->gap_columns + columns <= room(w);
    if (!has_room && w->column > 0) {
        begin_line(w, out);
        put_gap(w, out, false);
    }
    put_gap(w, out, true);
    begin_word(w);
}

static void put_next(struct wrap *w, struct buf *out, int columns)
{
    bool has_room = w->column + columns <= room(w), begins_line = w->column <= w->word_columns;
    if (has_room || begins_line || w->is_long || w->is_lost)
        return;
    buf_printf(out, "\033[%dD\033[K\n", w->word_columns);
    if (strcmp(w->style, w->word_style) != 0)
        buf_str(out, w->word_style);
    buf_add(out, w->word, w->n_word);
    w->column = w->word_columns;
    w->is_folded = false;
}

static void put_character(struct wrap *w, struct buf *out)
{
    size_t n;
    int columns = term_character(w->part, &n);
    if (is_word_begin(w, columns))
        put_first(w, out, columns);
    else
        put_next(w, out, columns);
    buf_str(out, w->part);
    add_word(w, w->part);
    w->word_columns += columns;
    w->column += columns;
    if (w->column > w->width) {
        w->column = columns;
        w->is_folded = true;
    }
    memcpy(w->last, w->part, sizeof w->last);
    w->last_columns = columns > 0 ? columns : w->last_columns;
}

/* ---- the text ------------------------------------------------------------------------------ */

static size_t bytes_of(unsigned char first)
{
    return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static void put_raw(struct wrap *w, struct buf *out, char c)
{
    wrap_end(w, out);
    if (c == '\n') {
        begin_line(w, out);
        return;
    }
    buf_char(out, c);
    w->column = 1;
    w->is_lost = true;
}

void wrap_char(struct wrap *w, struct buf *out, char c, bool is_raw)
{
    if (is_raw || w->width == 0) {
        put_raw(w, out, c);
    } else if (c == '\n') {
        wrap_end(w, out);
        begin_line(w, out);
    } else if (is_space(c)) {
        add_gap(w, out, (char[]){c, 0});
    } else {
        w->part[w->n_part++] = c;
        if (w->n_part < bytes_of((unsigned char)w->part[0]))
            return;
        w->part[w->n_part] = 0;
        w->n_part = 0;
        put_character(w, out);
    }
}

void wrap_style(struct wrap *w, struct buf *out, const char *style)
{
    snprintf(w->style, sizeof w->style, "%s", style);
    if (w->n_gap > 0) {
        add_gap(w, out, style);
    } else {
        buf_str(out, style);
        add_word(w, style);
    }
}

void wrap_end(struct wrap *w, struct buf *out)
{
    buf_add(out, w->part, w->n_part);
    w->n_part = 0;
    put_gap(w, out, w->width == 0 || w->column + w->gap_columns <= room(w));
}
