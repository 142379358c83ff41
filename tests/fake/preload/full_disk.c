/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that is full when a test says so. Loaded before the C library (LD_PRELOAD), it counts the
 * calls that write below the folder FULL_DISK_DIR, and lets those from the `from`th on fail with
 * ENOSPC, until the `to`th. Both numbers, and the count, stand in the file FULL_DISK_CTL, which the
 * test maps too: four 64-bit integers, seen, from, to, room.
 *
 * What writes: write, pwrite, fallocate, a sync, a new file, a new folder, a new name. Taking away
 * does not: unlink and truncation need no room. Who asks how much is left hears `room`, unless that
 * is negative. A file `reserve` that goes leaves room for RESERVE writes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { RESERVE = 64 };

struct control {
    _Atomic int64_t seen, from, to, room;
};

static _Atomic(struct control *) control;
static const char *dir;
static size_t n_dir;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FULL_DISK_CTL");
    dir = getenv("FULL_DISK_DIR");
    int fd = path && dir ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    n_dir = strlen(dir);
    void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED)
        atomic_store(&control, at);
}

static bool is_below(const char *path)
{
    return n_dir && strncmp(path, dir, n_dir) == 0 && (path[n_dir] == '/' || !path[n_dir]);
}

/* The disk is full, and errno says so. */
static bool is_full(const char *path)
{
    struct control *c = atomic_load(&control);
    if (!c || !path || !is_below(path))
        return false;
    int64_t i = atomic_fetch_add(&c->seen, 1);
    if (i < atomic_load(&c->from) || i >= atomic_load(&c->to))
        return false;
    errno = ENOSPC;
    return true;
}

static bool path_of(int fd, char path[PATH_MAX])
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int old = errno;
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    errno = old;
    path[n < 0 ? 0 : n] = 0;
    return n >= 0;
}

static bool is_full_fd(int fd)
{
    char path[PATH_MAX];
    return atomic_load(&control) && path_of(fd, path) && is_full(path);
}

/* The next write would fail, and this is none. */
static bool is_full_now(struct control *c)
{
    int64_t i = atomic_load(&c->seen);
    return i >= atomic_load(&c->from) && i < atomic_load(&c->to);
}

/* The function behind this one; what POSIX leaves open about such pointers, dlsym settles. */
#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *p, size_t n)
{
    NEXT(write);
    return is_full_fd(fd) ? -1 : next(fd, p, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    NEXT(pwrite);
    return is_full_fd(fd) ? -1 : next(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
    NEXT(pwrite64);
    return is_full_fd(fd) ? -1 : next(fd, p, n, at);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    NEXT(fallocate);
    return is_full_fd(fd) ? -1 : next(fd, mode, at, n);
}

int fsync(int fd)
{
    NEXT(fsync);
    return is_full_fd(fd) ? -1 : next(fd);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    return is_full_fd(fd) ? -1 : next(fd);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    return is_full(path) ? -1 : next(path, mode);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);
    return is_full(to) ? -1 : next(from, to);
}

int unlinkat(int at, const char *name, int flags)
{
    NEXT(unlinkat);
    struct control *c = atomic_load(&control);
    char path[PATH_MAX];
    int rc = next(at, name, flags);
    if (!rc && c && strcmp(name, "reserve") == 0 && path_of(at, path) && is_below(path) &&
        is_full_now(c))
        atomic_store(&c->from, atomic_load(&c->seen) + RESERVE);
    return rc;
}

int fstatvfs(int fd, struct statvfs *out)
{
    NEXT(fstatvfs);
    struct control *c = atomic_load(&control);
    char path[PATH_MAX];
    int rc = next(fd, out);
    int64_t room = c ? atomic_load(&c->room) : -1;
    if (!rc && room >= 0 && path_of(fd, path) && is_below(path))
        out->f_bavail = (fsblkcnt_t)room / out->f_frsize;
    return rc;
}
int fstatvfs64(int fd, struct statvfs64 *out) __attribute__((alias("fstatvfs")));

int open(const char *path, int flags, ...)
{
    NEXT(open);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    bool makes = (flags & O_CREAT) && access(path, F_OK) != 0;
    return makes && is_full(path) ? -1 : next(path, flags, mode);
}

/* Sizes have 64 bits anyway. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
