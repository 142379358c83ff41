/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of cells: on a terminal in columns under their names, no wider than it is; elsewhere with
 * tabs between the cells, whole, and without the names, which a program knows.
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
    char **cell; /* owned [n_cell], each owned: row by row */
    size_t n_cell, cap;
};

void table_init(struct table *t, const char *const *name, int n_column);
void table_release(struct table *t);
void table_add(struct table *t, const char *text); /* copied, harmless from then on */
void table_print(const struct table *t, const struct term *term);

#endif
