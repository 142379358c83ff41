/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns are as wide as their widest cell. Where the terminal is narrower, they give way as the
 * table says: names down to what they can still be told by, then whole columns, and what has room
 * again when a wider one is gone comes back.
 */
#include "clients/remote/table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { GAP = 2, LEAST = 6, NAME = 24, GONE = -1, CELL_BYTES_MAX = 1 << 20 };

void table_init(struct table *t, const char *const *name, int n_column)
{
    ASSERT(n_column <= TABLE_COLUMNS_MAX);
    *t = (struct table){.name = name, .n_column = n_column};
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->n_cell; i++)
        free(t->cell[i]);
    free(t->cell);
}

void table_add(struct table *t, const char *text)
{
    struct buf b;
    buf_init(&b, CELL_BYTES_MAX);
    buf_str(&b, "");
    term_clean(&b, text, strlen(text), false);
    if (t->n_cell == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->cell = xrealloc(t->cell, t->cap * sizeof *t->cell);
    }
    char *cell = buf_take(&b);
    t->cell[t->n_cell++] = cell ? cell : xstrdup("");
}

static void measure(const struct table *t, int width[TABLE_COLUMNS_MAX])
{
    for (int c = 0; c < t->n_column; c++)
        width[c] = term_columns(t->name[c]);
    for (size_t i = 0; i < t->n_cell; i++) {
        int n = term_columns(t->cell[i]), *w = &width[i % (size_t)t->n_column];
        *w = n > *w ? n : *w;
    }
}

/* A width of GONE is of a column that is left out. */
static int sum_of(const struct table *t, const int *width)
{
    int sum = -GAP;
    for (int c = 0; c < t->n_column; c++)
        sum += width[c] == GONE ? 0 : width[c] + GAP;
    return sum;
}

/* Cuts the widest, until all fit or none has more than LEAST. */
static void squeeze(const struct table *t, int width[TABLE_COLUMNS_MAX], int room)
{
    for (int sum = sum_of(t, width); sum > room; sum--) {
        int widest = 0;
        for (int c = 1; c < t->n_column; c++)
            widest = width[c] > width[widest] ? c : widest;
        if (width[widest] <= LEAST)
            return;
        width[widest]--;
    }
}

/* The column that is left out next, or -1: in their order, and at last those that may be cut. */
static int next_out(const struct table *t, const int *width)
{
    int out = -1;
    for (int c = 0; c < t->n_column; c++)
        if (width[c] != GONE && t->gives[c] != '0' && (out < 0 || t->gives[c] < t->gives[out]))
            out = c;
    return out;
}

static void leave_out(const struct table *t, int width[TABLE_COLUMNS_MAX], int room)
{
    int gone[TABLE_COLUMNS_MAX], had[TABLE_COLUMNS_MAX], n = 0;
    for (int c; sum_of(t, width) > room && (c = next_out(t, width)) >= 0; n++) {
        gone[n] = c;
        had[n] = width[c];
        width[c] = GONE;
    }
    while (n-- > 0)
        if (sum_of(t, width) + GAP + had[n] <= room)
            width[gone[n]] = had[n];
}

static void fit(const struct table *t, int width[TABLE_COLUMNS_MAX], int room)
{
    if (!t->gives) {
        squeeze(t, width, room);
        return;
    }
    int whole[TABLE_COLUMNS_MAX];
    for (int c = 0; c < t->n_column; c++) {
        whole[c] = width[c];
        width[c] = t->gives[c] == 'c' && width[c] > NAME ? NAME : width[c];
    }
    leave_out(t, width, room);
    for (int c = 0; c < t->n_column; c++) {
        int more = room - sum_of(t, width), lacks = whole[c] - width[c];
        if (width[c] != GONE && more > 0)
            width[c] += lacks < more ? lacks : more;
    }
}

/* An id wider than the terminal: as many lines as it takes. */
static void put_folded(const struct term *term, const char *cell, int room)
{
    size_t n;
    while (term_columns(cell) > room && (n = term_cut(cell, room)) > 0) {
        fprintf(term->out, "%.*s\n", (int)n, cell);
        cell += n;
    }
    fputs(cell, term->out);
}

static void put_row(const struct table *t, const struct term *term, const char *const *cell,
                    const int *width, int room)
{
    int gap = 0;
    for (int c = 0; c < t->n_column && room > 0; c++) {
        if (width[c] == GONE)
            continue;
        int has = term_columns(cell[c]), most = width[c] < room ? width[c] : room;
        fprintf(term->out, "%*s", gap, "");
        if (t->gives && t->gives[c] == '0' && has > room) {
            put_folded(term, cell[c], room);
            return;
        }
        bool is_cut = has > most && most > 1;
        size_t bytes = term_cut(cell[c], is_cut ? most - 1 : most);
        fprintf(term->out, "%.*s%s", (int)bytes, cell[c], is_cut ? "~" : "");
        room -= most + GAP;
        gap = most - (has > most ? most : has) + GAP;
    }
}

void table_print(const struct table *t, const struct term *term)
{
    int width[TABLE_COLUMNS_MAX], room = term_width(term);
    measure(t, width);
    fit(t, width, room);
    if (term->is_tty && t->n_cell > 0) {
        fputs(term_style(term, TERM_BOLD), term->out);
        put_row(t, term, t->name, width, room);
        fprintf(term->out, "%s\n", term_style(term, TERM_PLAIN));
    }
    for (size_t i = 0; i < t->n_cell; i += (size_t)t->n_column) {
        const char *const *row = (const char *const *)(t->cell + i);
        if (term->is_tty)
            put_row(t, term, row, width, room);
        else
            for (int c = 0; c < t->n_column; c++)
                fprintf(term->out, "%s%s", c ? "\t" : "", row[c]);
        fputc('\n', term->out);
    }
}
