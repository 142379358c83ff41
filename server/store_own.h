/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the store share: the connection, its lock, and statements as one line each.
 *
 * Thread: inside store_begin and store_end.
 */
#ifndef SERVER_STORE_OWN_H
#define SERVER_STORE_OWN_H

#include <pthread.h>
#include <sqlite3.h>

#include "server/store.h"

struct store {
    pthread_mutex_t lock;
    sqlite3 *db; /* owned */
    int lock_fd; /* owned: the directory's */
};

/* A transaction; store_end commits where rc is 0 and takes all back otherwise; returns rc, or -1
 * with the fault of the commit. */
int store_begin(struct store *s, struct err *e);
int store_end(struct store *s, int rc, struct err *e);

/* A statement with its values bound, one letter of `types` each: t text (NULL is null), i int64_t.
 */
sqlite3_stmt *store_query(struct store *s, struct err *e, const char *sql, const char *types, ...);

/* Runs to the end a statement that gives no rows; finalizes it. */
int store_run(struct store *s, sqlite3_stmt *q, struct err *e);

/* 1: a row is there; 0: no more; -1: a fault. */
int store_row(struct store *s, sqlite3_stmt *q, struct err *e);

/* A column as text in the arena; NULL for null. */
const char *store_text(sqlite3_stmt *q, int column, struct arena *a);

int store_fault(struct store *s, struct err *e, const char *what);

#endif
