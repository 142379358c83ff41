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
#include <stdatomic.h>
#include <sys/types.h>

#include "server/data/data_dir.h"
#include "server/store/store.h"

struct store_blob {
    const void *p;
    size_t n;
};

struct store {
    pthread_mutex_t lock;
    sqlite3 *db; /* owned */
    struct data_dir dir;
    atomic_bool leaves;
    dev_t dev[2]; /* of the directory and of the store's file, when they were opened */
    ino_t ino[2];
    bool is_open;        /* the two are known */
    atomic_bool is_lost; /* one of them is not there any more, or another one is */
    int64_t copied_at; /* seconds since 1970: the last daily copy, by who makes them; 0: none yet */
    bool (*has_key)(void *ctx, const char *owner); /* NULL: everybody has one */
    void *has_key_ctx;
    void (*notice_came)(void *ctx); /* NULL: ends of jobs leave no notice */
    void *notice_ctx;
};

int store_prepare(struct store *s, struct err *e); /* checked, and of this version */

/* Statements without values; one that gives a number, 0 where it gives no row. */
int store_script(struct store *s, const char *sql, const char *what, struct err *e);
int store_int(struct store *s, const char *sql, int64_t *out, struct err *e);

/* Opens the store of a directory that is open, or begins one in it. */
int store_open(struct store *s, struct err *e);
int store_begin_anew(struct store *s, struct err *e);

/* Enters a model by its note, and an ended job where the one that made it is not known. */
int store_tuned_enter(struct store *s, const struct job_tuned *t, bool is_shared, struct err *e);

/* Copies in backups/, newest first. */
enum { STORE_BACKUP_BYTES = 32, STORE_BACKUPS_MAX = 64 };
struct store_backups {
    char name[STORE_BACKUPS_MAX][STORE_BACKUP_BYTES];
    size_t n;
};
int store_backups(const struct data_dir *dir, struct store_backups *out, struct err *e);
int store_has_backup(struct store *s, bool *has, struct err *e);
int store_back_up(struct store *s, struct err *e);

/* Notes beside files and models (NAME.json), for a store that is lost. */
int store_note_file(struct store *s, const struct file_row *f, struct err *e);
int store_note_tuned(struct store *s, const struct job_tuned *t, struct err *e);
int store_note_drop(struct store *s, enum data_folder folder, const char *name, struct err *e);
int store_note_read(struct store *s, enum data_folder folder, const char *name, struct buf *out,
                    struct err *e);
int store_note_all(struct store *s, struct err *e); /* of all rows */

/* A transaction; store_end commits where rc is 0 and takes all back otherwise; returns rc, or -1
 * with the fault of the commit. */
int store_begin(struct store *s, struct err *e);
int store_end(struct store *s, int rc, struct err *e);

/* A statement with its values bound, one letter of `types` each: t text (NULL is null), i int64_t,
 * b a struct store_blob * (whose p NULL is null). */
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
int store_put_notice(struct store *s, const struct job *j, struct err *e);
bool store_wants_notice(const struct store *s, const struct job *j); /* of one that is to end */

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

/* Keeps the place of the owner's row for pages that go on behind it; of an open transaction. */
int store_keep_place(struct store *s, const char *table, const char *key, const char *owner,
                     const char *value, struct err *e);

/* Of the owner's places those that are too many go; of an open transaction. */
int store_trim_places(struct store *s, const char *owner, struct err *e);

/* Deletes the owner's row of a table whose `key` has this value, as a transaction, and keeps its
 * place for pages that go on behind it. ERR_NOT_FOUND, without words. */
int store_drop(struct store *s, const char *table, const char *key, const char *owner,
               const char *value, struct err *e);

#endif
