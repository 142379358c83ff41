/* SPDX-License-Identifier: Apache-2.0
 *
 * A data directory: a folder that bears the program's mark, a file DATA_MARK with an id, which the
 * store inside has too. The mark is made in an empty folder only, or beside a store of ours that
 * has none yet; whatever else lies somewhere is refused, and not touched. So nobody's files are
 * taken for the program's because an option named the wrong folder.
 *
 * The folders below it are held open, and what lies in them is reached from there: a link in the
 * place of one is refused, and a link in one is not followed. The directory is locked for as long
 * as it is open, so two servers never share one.
 *
 * Thread: data_dir_open and data_dir_close by one; the others: any.
 */
#ifndef SERVER_DATA_DATA_DIR_H
#define SERVER_DATA_DATA_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define DATA_MARK    "tandem.id"
#define DATA_STORE   "store.db"
#define DATA_RESERVE "reserve"

enum { DATA_ID_BYTES = 40, DATA_LOOK_BYTES = 256 };

/* name, what lies in it */
#define DATA_FOLDERS(X)                                                                            \
    X(FILES, "files", "file")                                                                      \
    X(CHECKPOINTS, "checkpoints", "training state")                                                \
    X(ADAPTERS, "adapters", "adapter")                                                             \
    X(MODELS, "models", "model")                                                                   \
    X(BATCHES, "batches", "answer file")                                                           \
    X(PARTS, "parts", "part of an upload")                                                         \
    X(LOOPS, "loops", "state of a client's training")                                              \
    X(BACKUPS, "backups", "backup of the store")

enum data_folder {
#define FOLDER(name, path, what) DATA_##name,
    DATA_FOLDERS(FOLDER)
#undef FOLDER
        DATA_FOLDER_COUNT
};

/* What a folder is. */
enum data_kind {
    DATA_EMPTY,    /* or not there */
    DATA_MARKED,   /* it has our mark */
    DATA_UNMARKED, /* no mark, and a database under the store's name: the store says whose it is */
    DATA_FOREIGN
};

struct data_dir {
    char *path;                    /* owned */
    int fd, lock_fd;               /* owned; -1: not open */
    int folder[DATA_FOLDER_COUNT]; /* owned */
    enum data_kind was;            /* before it was opened */
    char id[DATA_ID_BYTES];        /* of the mark; "": it has none yet */
    bool has_store;                /* a file that is not empty lay there */
};

/* ERR_BUSY: another process has it. ERR_EXISTS: it is somebody else's; `adopts` opens that too, and
 * leaves what lies there. The folders are not open yet. One that fails to open may be closed. */
int data_dir_open(struct data_dir *d, const char *path, bool adopts, struct err *e);
void data_dir_close(struct data_dir *d);

int data_dir_mark(struct data_dir *d, const char *id, struct err *e); /* writes the mark */
int data_dir_folders(struct data_dir *d, struct err *e); /* makes and opens those it has not yet */

/* "files", and the like. */
const char *data_folder_name(enum data_folder folder);

/* Looks at a folder without touching it; said: for people, what somebody else's holds. */
int data_look(int fd, enum data_kind *kind, char id[DATA_ID_BYTES], char said[DATA_LOOK_BYTES],
              struct err *e);

/* "3 files, 1 adapter": what of ours lies in the folders, backups not; "": nothing. */
int data_dir_count(const struct data_dir *d, char text[DATA_LOOK_BYTES], struct err *e);

/* A regular file of a folder, to be read; ERR_NOT_FOUND. Errors name `name` alone. */
int data_open(const struct data_dir *d, enum data_folder folder, const char *name, struct err *e);

/* Removes a file of a folder that a row, or its name, says is ours; missing is fine. Where the
 * disk takes it that is synced: what was deleted does not come back at a power cut. */
int data_remove(const struct data_dir *d, enum data_folder folder, const char *name, struct err *e);

/* Removes a folder that the program made (engine/base/made.h); one in which something else lies is
 * set aside. */
int data_remove_made(const struct data_dir *d, enum data_folder folder, const char *name,
                     struct err *e);

/* The same of the training state of a job. */
int data_remove_state(const struct data_dir *d, const char *job, struct err *e);

/* Moves what is not known to lost+found/, with a line of the log that says why. */
int data_set_aside(const struct data_dir *d, enum data_folder folder, const char *name,
                   const char *why, struct err *e);

/* The same of what lies in the folder that `from` has open. */
int data_set_aside_at(const struct data_dir *d, int from, const char *name, const char *why,
                      struct err *e);

/* Whether this is a name that only the program gives: an id before 24 drawn letters. */
bool data_is_our_name(const char *name);

/* Bytes that the disk has left for who runs us; INT64_MAX: it does not say. */
int64_t data_room(const struct data_dir *d);

/* The reserve: a file that lies there while the disk has room, for what makes room on one that has
 * none: a row that goes is written down first. false: it was given already. */
void data_reserve_keep(const struct data_dir *d);
bool data_reserve_give(const struct data_dir *d);

/* Removes what a killed server left half made in the folders. */
int data_dir_sweep(const struct data_dir *d, struct err *e);

#endif
