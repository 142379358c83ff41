/* SPDX-License-Identifier: Apache-2.0
 *
 * See disk_file.h.
 */
#include "engine/load/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"

enum { LFS_BYTES = 64 };

int disk_file_read(const struct disk_file *f, uint64_t at, void *dst, size_t n, struct err *e)
{
    char *p = dst;
    while (n) {
        ssize_t got = pread(f->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "%s: read at byte %llu", f->name, (unsigned long long)at);
        if (got == 0)
            return err_set(e, ERR_IO, "%s: ends at byte %llu; it was cut while it was open",
                           f->name, (unsigned long long)at);
        p += got, at += (uint64_t)got, n -= (size_t)got;
    }
    return 0;
}

static int refuse_pointer(const struct disk_file *f, struct err *e)
{
    char first[LFS_BYTES];
    size_t n = f->bytes < sizeof first ? (size_t)f->bytes : sizeof first;
    if (disk_file_read(f, 0, first, n, e))
        return -1;
    return path_is_lfs_pointer(first, n) ? path_err_lfs(f->name, e) : 0;
}

int disk_file_init(struct disk_file *f, const char *path, const char *name, struct err *e)
{
    struct stat st;
    f->name = xstrdup(name);
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st))
        return err_sys(e, "%s", f->name);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_BAD_INPUT, "%s: not a regular file", f->name);
    f->bytes = (uint64_t)st.st_size;
    return refuse_pointer(f, e);
}

void disk_file_release(struct disk_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->name);
}
