/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of cells: on a terminal in columns under their names, no wider than it is; elsewhere with
 * tabs between the cells, whole, and without the names, which a program knows.
 *
 * A column of ids is never cut: what a command takes must be there to be copied. The others give
 * way, and an id that is wider than the whole terminal goes on in the next line.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_TABLE_H
#define CLIENTS_REMOTE_TABLE_H

#include "clients/remote/term.h"

enum { TABLE_COLUMNS_MAX = 8 };

struct table {
    const char *const *name; /* [n_column], borrowed */
    int n_column;
    /* [n_column], borrowed: which column gives way where a terminal is narrow. '0' stands whole,
     * for it is what commands take; '1' is left out first, then '2'; 'c' may be cut. NULL: the
     * widest is cut. */
    const char *gives;
    char **cell; /* owned [n_cell], each owned: row by row */
    size_t n_cell, cap;
};

void table_init(struct table *t, const char *const *name, int n_column);
void table_release(struct table *t);
void table_add(struct table *t, const char *text); /* copied, harmless from then on */
void table_print(const struct table *t, const struct term *term);

#endif
