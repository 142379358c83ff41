/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the store share: the connection, its lock, and statements as one line each.
 *
 * Thread: inside store_begin and store_end.
 */
#ifndef SERVER_STORE_STORE_OWN_H
#define SERVER_STORE_STORE_OWN_H

#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store.h"

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

/* Whether a statement of one text gives a row, as a transaction. */
int store_has(struct store *s, const char *sql, const char *of, bool *has, struct err *e);

/* A column as text in the arena; NULL for null. */
const char *store_text(sqlite3_stmt *q, int column, struct arena *a);

int store_fault(struct store *s, struct err *e, const char *what);

/* Rows of a transaction that is open. */
int store_put_file(struct store *s, const char *verb, const struct file_row *f, struct err *e);
int store_put_tuned(struct store *s, const struct job_tuned *t, struct err *e);

/* What a list is made of; one place, so that all of them page alike. */
struct store_list {
    const char *table, *columns;
    const char *where; /* of ?1 and ?2 */
    const char *of[2]; /* borrowed: their values; NULL is null */
    size_t size;       /* of a thing */
    int (*take)(sqlite3_stmt *q, struct arena *a, void *out, struct err *e);
};

/* A page of it, as a transaction: *n things in the arena; NULL with ERR_BAD_INPUT where the list
 * never had a thing `page->after`. One that was deleted since still has its place. */
void *store_list(struct store *s, const struct store_list *l, const struct store_page *page,
                 struct arena *a, size_t *n, bool *more, struct err *e);

/* Deletes the owner's row of a table whose `key` has this value, as a transaction, and keeps its
 * place for pages that go on behind it. ERR_NOT_FOUND, without words. */
int store_drop(struct store *s, const char *table, const char *key, const char *owner,
               const char *value, struct err *e);

#endif
