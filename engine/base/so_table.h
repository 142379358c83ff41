/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of others, loaded where they are first wanted, because they are large or not on every
 * machine. What is called of one is a table of pointers to functions; here it is filled.
 *
 * Thread: any; one at a time for a table.
 */
#ifndef ENGINE_BASE_SO_TABLE_H
#define ENGINE_BASE_SO_TABLE_H

#include <stddef.h>

struct so_row {
    const char *name; /* of a function */
    size_t at;        /* offset of its pointer in the table */
};

/* Opens the first of `files` that is there (NULL ends them), which stays open, and looks up all
 * rows. -1: `why` says what it lacks, or why the first cannot be opened. */
int so_table_fill(void *table, const struct so_row *rows, size_t n_row, const char *const *files,
                  char *why, size_t size);

#endif
