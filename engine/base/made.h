/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that the program made whole: adapters, models. The last thing that is written into one is
 * the list of its files with their SHA-256 (MADE_LIST, in the form that `sha256sum -c` reads), so
 * that it can be told later whether they are still what was written, and which of the things in the
 * folder are the program's to remove. A file that somebody else put there is never removed. Files
 * may lie in folders of the folder, not deeper.
 *
 * Thread: any, one at a time for a folder.
 */
#ifndef ENGINE_BASE_MADE_H
#define ENGINE_BASE_MADE_H

#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/sha256.h"

#define MADE_LIST "tandem.sha256"

/* Lists all regular files of a folder that nobody else knows of yet; on the disk when it returns,
 * but for the folder's own entries. */
int made_list(const char *dir, struct err *e);

/* The files are those of the list. ERR_CORRUPT names the one that differs or is missing,
 * ERR_NOT_FOUND: the folder has no list. */
int made_check(const char *dir, struct err *e);

/* The same a part at a time, for who has other things to do between: begin, read until it says 0;
 * whatever they said, end. */
struct made_proof {
    struct made_reading *at; /* owned; NULL: not begun */
};
int made_proof_begin(struct made_proof *p, const char *dir, struct err *e);
int made_proof_read(struct made_proof *p, int64_t most, struct err *e); /* 1: there is more */
void made_proof_end(struct made_proof *p);                              /* twice is fine */

/* 0: made_remove would remove it, or there is nothing. ERR_EXISTS: it has no list, or holds what
 * the list does not name, or is no folder. */
int made_may_remove(const char *dir, struct err *e);

/* Removes the folder; with ERR_EXISTS, as above, nothing was removed. */
int made_remove(const char *dir, struct err *e);

/* The digest and size of a file that is open; the descriptor stands at its end then. */
int made_digest(int fd, const char *name, char text[SHA256_TEXT_BYTES], int64_t *bytes,
                struct err *e);

#endif
