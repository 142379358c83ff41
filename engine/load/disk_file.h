/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of weights that stays open: bytes at places, all of them or an error that names the file.
 * It is read, not mapped: a file that is cut while it is open is an error, and not the process's
 * end.
 *
 * Thread: any reads.
 */
#ifndef ENGINE_LOAD_DISK_FILE_H
#define ENGINE_LOAD_DISK_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct disk_file {
    int fd;
    char *name; /* owned: what errors call it */
    uint64_t bytes;
};

/* A regular file, and no Git LFS pointer. disk_file_release is due where it failed, too. */
int disk_file_init(struct disk_file *f, const char *path, const char *name, struct err *e);
void disk_file_release(struct disk_file *f);

int disk_file_read(const struct disk_file *f, uint64_t at, void *dst, size_t n, struct err *e);

#endif
