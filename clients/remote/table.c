/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns are as wide as their widest cell. Where the terminal is narrower, the widest column gives
 * way, a character at a time, down to what a name can still be told by.
 */
#include "clients/remote/table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { GAP = 2, LEAST = 6, CELL_BYTES_MAX = 1 << 20 };

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

static void squeeze(const struct table *t, int width[TABLE_COLUMNS_MAX], int room)
{
    int sum = GAP * (t->n_column - 1);
    for (int c = 0; c < t->n_column; c++)
        sum += width[c];
    while (sum > room) {
        int widest = 0;
        for (int c = 1; c < t->n_column; c++)
            widest = width[c] > width[widest] ? c : widest;
        if (width[widest] <= LEAST)
            return;
        width[widest]--;
        sum--;
    }
}

static void put_row(const struct term *term, const char *const *cell, int n, const int *width,
                    int room)
{
    for (int c = 0; c < n && room > 0; c++) {
        int has = term_columns(cell[c]), most = width[c] < room ? width[c] : room;
        bool is_cut = has > most && most > 1;
        size_t bytes = term_cut(cell[c], is_cut ? most - 1 : most);
        int shown = has > most ? most : has;
        fprintf(term->out, "%.*s%s", (int)bytes, cell[c], is_cut ? "~" : "");
        room -= most + GAP;
        if (c + 1 < n && room > 0)
            fprintf(term->out, "%*s", most - shown + GAP, "");
    }
}

void table_print(const struct table *t, const struct term *term)
{
    int width[TABLE_COLUMNS_MAX], room = term_width(term);
    measure(t, width);
    squeeze(t, width, room);
    if (term->is_tty && t->n_cell > 0) {
        fputs(term_style(term, TERM_BOLD), term->out);
        put_row(term, t->name, t->n_column, width, room);
        fprintf(term->out, "%s\n", term_style(term, TERM_PLAIN));
    }
    for (size_t i = 0; i < t->n_cell; i += (size_t)t->n_column) {
        const char *const *row = (const char *const *)(t->cell + i);
        if (term->is_tty)
            put_row(term, row, t->n_column, width, room);
        else
            for (int c = 0; c < t->n_column; c++)
                fprintf(term->out, "%s%s", c ? "\t" : "", row[c]);
        fputc('\n', term->out);
    }
}
