/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain system calls, each error with its path. A rename is on the disk only once the folder that
 * holds the name is synced; both folders, when it moves between two.
 */
#include "engine/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"

static const char temp_mark[] = ".tmp-";

enum { TEMP_TRIES = 100, TREE_DEPTH_MAX = 64 };

static int read_fd(int fd, const char *path, struct buf *out, struct err *e)
{
    for (;;) {
        if (buf_reserve(out, 1)) /* a byte past the ceiling is asked for only to be refused */
            return 0;
        size_t room = out->cap - out->len - 1;
        ssize_t n = read(fd, out->data + out->len, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "reading %s", path);
        if (n == 0)
            return 0;
        out->len += (size_t)n;
        out->data[out->len] = 0;
    }
}

/* Whether the file ends where the buffer's ceiling does. */
static bool at_end(int fd)
{
    char c;
    ssize_t n;
    do
        n = read(fd, &c, 1);
    while (n < 0 && errno == EINTR);
    return n == 0;
}

int fs_read_fd(int fd, const char *path, struct buf *out, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(e, "reading %s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_BAD_INPUT, "reading %s: is a folder", path);
    if (S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size < out->max_bytes - out->len)
        buf_reserve(out, (size_t)st.st_size + 1); /* one more, to see the end without growing */
    if (read_fd(fd, path, out, e))
        return -1;
    if (out->failed && !out->no_memory && out->len == out->max_bytes && at_end(fd))
        out->failed = false; /* it fits to the byte */
    return buf_check(out, path, e);
}

int fs_read(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    int rc = fs_read_fd(fd, path, out, e);
    close(fd);
    return rc;
}

/* Opening a pipe would wait for who writes to it, and a device may do anything; so neither waits,
 * and both are refused. */
static int open_file(int dir, const char *path, int flags, struct err *e)
{
    struct stat st;
    int fd = openat(dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
    if (fd < 0 && errno == ELOOP)
        return err_set(e, ERR_BAD_INPUT, "%s: is a link, which is not followed here", path);
    if (fd < 0 && errno == ENXIO)
        return err_set(e, ERR_BAD_INPUT, "%s: is no regular file", path);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    if (fstat(fd, &st))
        err_sys(e, "reading %s", path);
    else if (!S_ISREG(st.st_mode))
        err_set(e, ERR_BAD_INPUT,
                S_ISDIR(st.st_mode) ? "%s: is a folder" : "%s: is no regular file", path);
    else
        return fd;
    close(fd);
    return -1;
}

int fs_open(const char *path, struct err *e)
{
    return open_file(AT_FDCWD, path, 0, e);
}

int fs_open_at(int dir, const char *name, struct err *e)
{
    return open_file(dir, name, O_NOFOLLOW, e);
}

/* The folder that holds the entry `path`; free() it. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

int fs_sync_dir(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    if (fsync(fd))
        rc = err_sys(e, "syncing %s", path);
    close(fd);
    return rc;
}

int fs_sync_parent(const char *path, struct err *e)
{
    char *parent = parent_of(path);
    int rc = fs_sync_dir(parent, e);
    free(parent);
    return rc;
}

static int make_dir(const char *path, struct err *e)
{
    struct stat st;
    if (!mkdir(path, 0777))
        return fs_sync_parent(path, e);
    if (errno != EEXIST)
        return err_sys(e, "making folder %s", path);
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return 0;
    return err_set(e, ERR_EXISTS, "making folder %s: something else has this name", path);
}

int fs_mkdirs(const char *path, struct err *e)
{
    char *part = xstrdup(path), *at = part, next;
    int rc;
    do {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        next = *at;
        *at = 0;
        rc = make_dir(part, e);
        *at = next;
    } while (!rc && next);
    free(part);
    return rc;
}

int fs_rename(const char *from, const char *to, struct err *e)
{
    if (rename(from, to))
        return err_sys(e, "renaming %s to %s", from, to);
    if (fs_sync_parent(to, e))
        return -1;
    char *a = parent_of(from), *b = parent_of(to);
    int rc = strcmp(a, b) ? fs_sync_dir(a, e) : 0;
    free(a);
    free(b);
    return rc;
}

int fs_remove(const char *path, struct err *e)
{
    return unlink(path) && errno != ENOENT ? err_sys(e, "removing %s", path) : 0;
}

/* What the entry `name` of the folder `at` is, and all below it, goes. Entries are reached from the
 * folders that hold them, and no link is followed, whoever puts one there meanwhile. */
static int remove_at(int at, const char *name, int depth)
{
    if (!unlinkat(at, name, 0) || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d || depth == TREE_DEPTH_MAX) {
        if (d)
            closedir(d);
        else if (fd >= 0)
            close(fd);
        return -1;
    }
    int rc = 0;
    for (struct dirent *it; !rc && (it = readdir(d));)
        if (strcmp(it->d_name, ".") != 0 && strcmp(it->d_name, "..") != 0)
            rc = remove_at(dirfd(d), it->d_name, depth + 1);
    closedir(d);
    return rc || (unlinkat(at, name, AT_REMOVEDIR) && errno != ENOENT) ? -1 : 0;
}

int fs_remove_tree(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(e, "removing %s", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_EXISTS, "removing %s: is no folder, and stays", path);
    return remove_at(AT_FDCWD, path, 0) ? err_sys(e, "removing %s", path) : 0;
}

char *fs_temp_name(const char *path)
{
    uint32_t drawn = 0;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        BUG("the system has no random bytes to give");
    size_t n = strlen(path) + FS_TEMP_TAIL + 1;
    char *name = xmalloc(n);
    snprintf(name, n, "%s%s%06" PRIx32, path, temp_mark, drawn & 0xffffff);
    return name;
}

bool fs_is_temp(const char *name)
{
    size_t n = strlen(name), drawn = FS_TEMP_TAIL - (sizeof temp_mark - 1);
    return n > FS_TEMP_TAIL && !strncmp(name + n - FS_TEMP_TAIL, temp_mark, sizeof temp_mark - 1) &&
           strspn(name + n - drawn, "0123456789abcdef") == drawn;
}

int fs_temp_file(const char *path, char **name, struct err *e)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        *name = fs_temp_name(path);
        int fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        free(*name);
        if (errno != EEXIST)
            break;
    }
    *name = NULL;
    return err_sys(e, "making a file beside %s", path);
}

char *fs_temp_dir(const char *path, struct err *e)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        char *name = fs_temp_name(path);
        if (!mkdir(name, 0777))
            return name;
        free(name);
        if (errno != EEXIST)
            break;
    }
    err_sys(e, "making a folder beside %s", path);
    return NULL;
}

/* One that is ours; whatever else bears such a name stays. */
static int sweep_one(const char *dir, const char *name, bool (*is_ours)(const char *stem),
                     struct err *e)
{
    char *stem = xstrndup(name, strlen(name) - FS_TEMP_TAIL);
    bool ours = is_ours(stem);
    free(stem);
    if (!ours)
        return 0;
    size_t n = strlen(dir) + strlen(name) + 2;
    struct stat st;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    int rc = lstat(path, &st)       ? err_sys(e, "removing %s", path)
             : S_ISDIR(st.st_mode)  ? fs_remove_tree(path, e)
             : !S_ISREG(st.st_mode) ? 0
                                    : fs_remove(path, e);
    free(path);
    return rc;
}

int fs_sweep(const char *dir, bool (*is_ours)(const char *stem), struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_sys(e, "opening %s", dir);
    int rc = 0;
    for (struct dirent *it; !rc && (it = readdir(d));)
        if (fs_is_temp(it->d_name))
            rc = sweep_one(dir, it->d_name, is_ours, e);
    closedir(d);
    return rc;
}

static int lock_is_held(int fd, const char *path, struct err *e)
{
    char who[32] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);
    who[n > 0 ? strspn(who, "0123456789") : 0] = 0;
    return err_set(e, ERR_BUSY, "%s is locked by process %s: another server uses this folder", path,
                   *who ? who : "(unknown)");
}

static int64_t bytes_in(int at, int depth)
{
    int64_t sum = 0;
    DIR *d = fdopendir(at);
    if (!d)
        close(at);
    for (const struct dirent *x; d && (x = readdir(d));) {
        struct stat st;
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0 ||
            fstatat(dirfd(d), x->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISREG(st.st_mode))
            sum += st.st_size;
        int fd = S_ISDIR(st.st_mode) && depth > 0
                     ? openat(dirfd(d), x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1;
        if (fd >= 0)
            sum += bytes_in(fd, depth - 1);
    }
    if (d)
        closedir(d);
    return sum;
}

int64_t fs_bytes(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? bytes_in(fd, 1) : 0;
}

int fs_lock(const char *path, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            lock_is_held(fd, path, e);
        else
            err_sys(e, "locking %s", path);
        close(fd);
        return -1;
    }
    char who[32];
    int n = snprintf(who, sizeof who, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, who, (size_t)n, 0) != n) {
        err_sys(e, "writing %s", path);
        close(fd);
        return -1;
    }
    return fd;
}
