/* SPDX-License-Identifier: Apache-2.0
 *
 * A file written aside: its bytes go to a name of their own in the same folder, and only
 * aside_commit, after they are on the disk, gives them the name that others read. So a reader sees
 * the old file or the new one, whole, whatever happens between. Without a commit, or after a
 * failure, aside_release leaves nothing behind but what was there before; what a killed process
 * leaves is found by fs_sweep.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_ASIDE_H
#define ENGINE_BASE_ASIDE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct aside {
    int fd;          /* owned; -1: none */
    char *path;      /* owned: the name to be */
    char *temp;      /* owned: the name until then; NULL once committed */
    int64_t n_bytes; /* written so far */
};

/* An aside that failed to open may be released. */
int aside_init(struct aside *a, const char *path, struct err *e);
int aside_write(struct aside *a, const void *p, size_t n, struct err *e);
int aside_write_at(struct aside *a, const void *p, size_t n, int64_t at,
                   struct err *e); /* any thread, where no other writes; n_bytes stays */
int aside_reserve(struct aside *a, int64_t n, struct err *e); /* disk space for n bytes, at once */
int aside_commit(struct aside *a, struct err *e);
void aside_release(struct aside *a);

/* All of it for bytes at hand. */
int aside_put(const char *path, const void *p, size_t n, struct err *e);

#endif
