/* SPDX-License-Identifier: Apache-2.0
 *
 * What the disk has left; and the reserve, a file whose bytes are given back when a full disk would
 * keep what makes room from being written down.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "server/data/data_dir.h"

enum { RESERVE_BYTES = 1 << 20, ROOM_FOR_RESERVE = 16 << 20 };

int64_t data_room(const struct data_dir *d)
{
    struct statvfs s;
    if (fstatvfs(d->fd, &s))
        return INT64_MAX;
    return (int64_t)s.f_bavail * (int64_t)s.f_frsize;
}

void data_reserve_keep(const struct data_dir *d)
{
    struct stat st;
    if (!fstatat(d->fd, DATA_RESERVE, &st, AT_SYMLINK_NOFOLLOW) || data_room(d) < ROOM_FOR_RESERVE)
        return;
    int fd = openat(d->fd, DATA_RESERVE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (fallocate(fd, 0, 0, RESERVE_BYTES))
        unlinkat(d->fd, DATA_RESERVE, 0); /* a disk that sets nothing aside */
    close(fd);
}

bool data_reserve_give(const struct data_dir *d)
{
    if (unlinkat(d->fd, DATA_RESERVE, 0))
        return false;
    log_event(LOG_WARN, "the disk is full: the reserve is given for a deletion");
    return true;
}
