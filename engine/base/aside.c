/* SPDX-License-Identifier: Apache-2.0
 *
 * Write, sync, rename, sync the folder: in this order, or a power cut leaves an empty file under
 * the good name.
 */
#include "engine/base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"

int aside_init(struct aside *a, const char *path, struct err *e)
{
    *a = (struct aside){.path = xstrdup(path)};
    a->fd = fs_temp_file(path, &a->temp, e);
    return a->fd < 0 ? -1 : 0;
}

int aside_write(struct aside *a, const void *p, size_t n, struct err *e)
{
    for (const char *at = p; n;) {
        ssize_t done = write(a->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(e, "writing %s", a->path);
        at += done;
        n -= (size_t)done;
        a->n_bytes += done;
    }
    return 0;
}

int aside_write_at(struct aside *a, const void *p, size_t n, int64_t at, struct err *e)
{
    for (const char *from = p; n;) {
        ssize_t done = pwrite(a->fd, from, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(e, "writing %s", a->path);
        from += done;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

int aside_reserve(struct aside *a, int64_t n, struct err *e)
{
    if (n <= 0 || !fallocate(a->fd, FALLOC_FL_KEEP_SIZE, 0, n))
        return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS) /* then the writes find out */
        return 0;
    return err_sys(e, "reserving %lld bytes for %s", (long long)n, a->path);
}

int aside_commit(struct aside *a, struct err *e)
{
    if (fsync(a->fd))
        return err_sys(e, "syncing %s", a->path);
    int fd = a->fd;
    a->fd = -1;
    if (close(fd))
        return err_sys(e, "closing %s", a->path);
    if (fs_rename(a->temp, a->path, e))
        return -1;
    free(a->temp);
    a->temp = NULL;
    return 0;
}

void aside_release(struct aside *a)
{
    if (a->fd >= 0)
        close(a->fd);
    if (a->temp)
        unlink(a->temp);
    free(a->temp);
    free(a->path);
    *a = (struct aside){.fd = -1};
}

int aside_put(const char *path, const void *p, size_t n, struct err *e)
{
    struct aside a;
    int rc = aside_init(&a, path, e);
    if (!rc)
        rc = aside_write(&a, p, n, e);
    if (!rc)
        rc = aside_commit(&a, e);
    aside_release(&a);
    return rc;
}
