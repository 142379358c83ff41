/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders, as far as the program owns them: whole reads with a ceiling, folders, renames
 * that survive a power cut, locks. Files that must never be seen half written are written with
 * engine/base/aside.h.
 *
 * Every error names the path.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_FS_H
#define ENGINE_BASE_FS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

/* Appends the whole file; ERR_TOO_LARGE past the buffer's ceiling. */
int fs_read(const char *path, struct buf *out, struct err *e);
int fs_read_fd(int fd, const char *path, struct buf *out, struct err *e); /* what is left of it */

/* A regular file to be read; pipes, devices and sockets are refused, and none is waited for.
 * fs_open_at takes an entry of a folder that is open, and follows no link. */
int fs_open(const char *path, struct err *e);
int fs_open_at(int dir, const char *name, struct err *e);

/* Makes a folder and those above it that are missing; one that is there already is fine. */
int fs_mkdirs(const char *path, struct err *e);

int fs_sync_dir(const char *path, struct err *e);    /* its entries are on the disk */
int fs_sync_parent(const char *path, struct err *e); /* the entry `path` itself is */

/* Atomic within a file system, and on the disk when it returns. A folder may only replace an
 * empty one. */
int fs_rename(const char *from, const char *to, struct err *e);

int fs_remove(const char *path, struct err *e); /* a file; missing is fine */

/* Of a folder's files, and those of its folders, but not of theirs; what cannot be seen counts
 * nothing. */
int64_t fs_bytes(const char *path);

/* A folder and all in it, following no link; missing is fine, anything but a folder stays, with
 * ERR_EXISTS. For folders of which the program knows that all of it is its own; what it made whole,
 * and others may have put something into, goes by engine/base/made.h. */
int fs_remove_tree(const char *path, struct err *e);

/* Things being made have names of this form, so that what a crash left behind can be told. They
 * lie beside `path`; free() the names. */
enum { FS_TEMP_TAIL = 11 }; /* ".tmp-xxxxxx" */
char *fs_temp_name(const char *path);
bool fs_is_temp(const char *name);
int fs_temp_file(const char *path, char **name, struct err *e); /* a fresh file's descriptor */
char *fs_temp_dir(const char *path, struct err *e);

/* Removes what has such a name in dir and was made for one that is_ours says is of this program. */
int fs_sweep(const char *dir, bool (*is_ours)(const char *stem), struct err *e);

/* Holds a lock file for as long as the descriptor stays open (a crash lets it go too); -1 with
 * ERR_BUSY and the holder's process id when another process has it. */
int fs_lock(const char *path, struct err *e);

#endif
