/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of an upload made one file: copied in their order into a file aside, a piece in each turn
 * of an errand. Every part is held to what was stored of it.
 *
 * Thread: the desk's.
 */
#ifndef SERVER_DESK_JOIN_H
#define SERVER_DESK_JOIN_H

#include "api/parts.h"
#include "engine/base/aside.h"
#include "server/desk/desk.h"

struct join {
    const struct data_dir *dir; /* borrowed */
    const struct part **part;   /* borrowed: [n] in their order */
    size_t n, at;
    struct aside file;
    int fd;             /* owned: of part `at`; -1: not open */
    int64_t n_read;     /* of its bytes */
    struct sha256 one;  /* of them */
    struct sha256 hash; /* of all, like the next */
    struct md5 md5;
};

int join_begin(struct join *j, struct desk *d, const char *file, const struct part **part, size_t n,
               int64_t bytes, struct err *e);
int join_step(struct join *j, int64_t most, struct err *e); /* 1: there is more */
void join_release(struct join *j); /* what was not committed is gone; twice is fine */

/* All parts of an upload that needs them no more: their bytes, then their rows. A part without a
 * row is nobody's, and kept aside. */
int desk_parts_drop(struct desk *d, const char *upload, struct err *e);

#endif
