/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain system calls, each error with its path. A rename is on the disk only once the folder that
 * holds the name is synced; both folders, when it moves between two.
 */
#include "engine/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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

enum { TEMP_TRIES = 100 };

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

int fs_read(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    struct stat st;
    int rc = -1;
    if (fstat(fd, &st)) {
        err_sys(e, "reading %s", path);
        goto out;
    }
    if (S_ISDIR(st.st_mode)) {
        err_set(e, ERR_BAD_INPUT, "reading %s: is a folder", path);
        goto out;
    }
    if (S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size < out->max_bytes - out->len)
        buf_reserve(out, (size_t)st.st_size + 1); /* one more, to see the end without growing */
    if (read_fd(fd, path, out, e))
        goto out;
    if (out->failed && !out->no_memory && out->len == out->max_bytes && at_end(fd))
        out->failed = false; /* it fits to the byte */
    rc = buf_check(out, path, e);
out:
    close(fd);
    return rc;
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

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path) && errno != ENOENT ? -1 : 0;
}

int fs_remove_tree(const char *path, struct err *e)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
        return err_sys(e, "removing %s", path);
    return 0;
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
    size_t n = strlen(name);
    return n > FS_TEMP_TAIL && !strncmp(name + n - FS_TEMP_TAIL, temp_mark, sizeof temp_mark - 1);
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

int fs_sweep(const char *dir, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_sys(e, "opening %s", dir);
    int rc = 0;
    for (struct dirent *it; !rc && (it = readdir(d));) {
        if (!fs_is_temp(it->d_name))
            continue;
        size_t n = strlen(dir) + strlen(it->d_name) + 2;
        char *path = xmalloc(n);
        snprintf(path, n, "%s/%s", dir, it->d_name);
        rc = fs_remove_tree(path, e);
        free(path);
    }
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

int fs_lock(const char *path, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
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
