/* SPDX-License-Identifier: Apache-2.0
 *
 * What a disk is told. Loaded before the C library (LD_PRELOAD), it writes down every call that
 * changes what lies below the folder DISK_LOG_DIR, in the order in which they happened, into the
 * file DISK_LOG_FILE: what was written and where, names that came and went, and what was synced. A
 * test makes of it what a disk holds when the power goes between any two of them
 * (tests/lib/power.py).
 *
 * A record is a `struct record`, n_name bytes of names and n_data bytes of data. Things are told by
 * their inode numbers; the folder must be there, and be one file system. One lock is held around a
 * call and its record, so their order is that of the file. What stdio writes never passes here: it
 * is found, and written down, when its file is synced.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { BEGIN, CREATE, MKDIR, WRITE, CUT, SYNC, RENAME, REMOVE, LINK };

/* CREATE, MKDIR: a = folder, b = what is new; LINK the same. WRITE: a = file, b = offset. CUT: a =
 * file, b = its size from here on. SYNC: a. RENAME: a, b = folders, "FROM\0TO". REMOVE: a = folder.
 */
struct record {
    uint32_t kind, n_name;
    uint64_t a, b, n_data;
};

enum { N_KNOWN = 1 << 16, PIECE_BYTES = 1 << 16 };

/* What lies below the folder: how long each file is as far as it was written down. */
static struct known {
    uint64_t ino;
    int64_t size;
} known[N_KNOWN];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;
static dev_t device;

/* The function behind this one; what POSIX leaves open about such pointers, dlsym settles. */
#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static struct known *find(uint64_t ino, bool adds)
{
    size_t i = (size_t)(ino * 0x9E3779B97F4A7C15u >> 48) % N_KNOWN;
    for (size_t tried = 0; tried < N_KNOWN; tried++, i = (i + 1) % N_KNOWN) {
        if (known[i].ino == 0 && adds)
            known[i].ino = ino;
        if (known[i].ino == ino)
            return &known[i];
        if (known[i].ino == 0)
            return NULL;
    }
    abort(); /* more things than a test makes */
}

static void put(enum kind kind, uint64_t a, uint64_t b, const char *name, size_t n_name,
                const void *data, size_t n_data)
{
    struct record r = {(uint32_t)kind, (uint32_t)n_name, a, b, n_data};
    struct iovec part[3] = {
        {&r, sizeof r}, {(void *)(uintptr_t)name, n_name}, {(void *)(uintptr_t)data, n_data}};
    if (writev(out, part, 3) != (ssize_t)(sizeof r + n_name + n_data))
        abort();
}

static int note(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    if (type != FTW_NS)
        find(st->st_ino, true)->size = st->st_size;
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *dir = getenv("DISK_LOG_DIR"), *path = getenv("DISK_LOG_FILE");
    struct stat st;
    if (!dir || !path || stat(dir, &st))
        return;
    device = st.st_dev;
    nftw(dir, note, 16, FTW_PHYS);
    out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (out >= 0)
        put(BEGIN, st.st_ino, 0, NULL, 0, NULL, 0);
}

/* The file or folder of ours that is open; NULL: none is. */
static struct known *opened(int fd)
{
    struct stat st;
    if (out < 0 || fd == out || fstat(fd, &st) || st.st_dev != device)
        return NULL;
    return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? find(st.st_ino, false) : NULL;
}

/* The folder of ours that holds the entry; 0: another's. */
static uint64_t folder_of(int at, const char *path, const char **name)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat st;
    *name = slash ? slash + 1 : path;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (out < 0 || fstatat(at, *parent ? parent : "/", &st, 0) || st.st_dev != device)
        return 0;
    return find(st.st_ino, false) ? st.st_ino : 0;
}

static uint64_t ino_at(int at, const char *path)
{
    struct stat st;
    return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_ino;
}

static void put_name(enum kind kind, uint64_t a, uint64_t b, const char *name)
{
    put(kind, a, b, name, strlen(name), NULL, 0);
}

/* ---- files that are opened ----------------------------------------------------------------- */

/* A file that was opened, and may be new or emptied by that. */
static void put_open(int fd, uint64_t folder, const char *name, bool was, bool cuts)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return;
    if (!was)
        put_name(CREATE, folder, st.st_ino, name);
    else if (cuts)
        put(CUT, st.st_ino, 0, NULL, 0, NULL, 0);
    if (!was || cuts)
        find(st.st_ino, true)->size = 0;
}

static int open_at(int at, const char *path, int flags, mode_t mode)
{
    NEXT(openat);
    const char *name;
    uint64_t folder = flags & (O_CREAT | O_TRUNC) ? folder_of(at, path, &name) : 0;
    if (!folder)
        return next(at, path, flags, mode);
    pthread_mutex_lock(&lock);
    bool was = ino_at(at, path) != 0;
    int fd = next(at, path, flags, mode);
    if (fd >= 0)
        put_open(fd, folder, name, was, flags & O_TRUNC);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags, mode)                                                                       \
    va_list ap;                                                                                    \
    va_start(ap, flags);                                                                           \
    mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;                        \
    va_end(ap)

int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE_OF(flags, mode);
    return open_at(at, path, flags, mode);
}

FILE *fopen(const char *path, const char *how)
{
    NEXT(fopen);
    const char *name;
    uint64_t folder = *how == 'r' ? 0 : folder_of(AT_FDCWD, path, &name);
    if (!folder)
        return next(path, how);
    pthread_mutex_lock(&lock);
    bool was = ino_at(AT_FDCWD, path) != 0;
    FILE *f = next(path, how);
    if (f)
        put_open(fileno(f), folder, name, was, *how == 'w');
    pthread_mutex_unlock(&lock);
    return f;
}

/* Sizes have 64 bits anyway. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int at, const char *path, int flags, ...) __attribute__((alias("openat")));
FILE *fopen64(const char *path, const char *how) __attribute__((alias("fopen")));

/* ---- bytes --------------------------------------------------------------------------------- */

static void put_write(struct known *k, int64_t at, const void *p, ssize_t n)
{
    if (n <= 0)
        return;
    put(WRITE, k->ino, (uint64_t)at, NULL, 0, p, (size_t)n);
    if (k->size < at + n)
        k->size = at + n;
}

ssize_t write(int fd, const void *p, size_t n)
{
    NEXT(write);
    struct known *k = opened(fd);
    if (!k)
        return next(fd, p, n);
    pthread_mutex_lock(&lock);
    ssize_t done = next(fd, p, n);
    put_write(k, lseek(fd, 0, SEEK_CUR) - (done > 0 ? done : 0), p, done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    NEXT(pwrite);
    struct known *k = opened(fd);
    if (!k)
        return next(fd, p, n, at);
    pthread_mutex_lock(&lock);
    ssize_t done = next(fd, p, n, at);
    put_write(k, at, p, done);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t size)
{
    NEXT(ftruncate);
    struct known *k = opened(fd);
    if (!k)
        return next(fd, size);
    pthread_mutex_lock(&lock);
    int rc = next(fd, size);
    if (!rc) {
        put(CUT, k->ino, (uint64_t)size, NULL, 0, NULL, 0);
        k->size = size;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) __attribute__((alias("pwrite")));
int ftruncate64(int fd, off64_t size) __attribute__((alias("ftruncate")));

/* What came into the file without passing here. */
static void put_unseen(struct known *k, int fd)
{
    static char piece[PIECE_BYTES];
    struct stat st;
    ssize_t n = 1;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return;
    while (k->size < st.st_size && n > 0)
        put_write(k, k->size, piece, n = pread(fd, piece, sizeof piece, k->size));
    if (n < 0)
        abort(); /* it was opened to be written only, by what does not write through us */
}

static int sync_by(int (*next)(int), int fd)
{
    struct known *k = opened(fd);
    if (!k)
        return next(fd);
    pthread_mutex_lock(&lock);
    put_unseen(k, fd);
    int rc = next(fd);
    if (!rc)
        put(SYNC, k->ino, 0, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

int fsync(int fd)
{
    NEXT(fsync);
    return sync_by(next, fd);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    return sync_by(next, fd);
}

/* ---- names --------------------------------------------------------------------------------- */

int mkdirat(int at, const char *path, mode_t mode)
{
    NEXT(mkdirat);
    const char *name;
    uint64_t folder = folder_of(at, path, &name);
    if (!folder)
        return next(at, path, mode);
    pthread_mutex_lock(&lock);
    int rc = next(at, path, mode);
    uint64_t ino = rc ? 0 : ino_at(at, path);
    if (ino) {
        put_name(MKDIR, folder, ino, name);
        find(ino, true)->size = 0;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int unlinkat(int at, const char *path, int flags)
{
    NEXT(unlinkat);
    const char *name;
    uint64_t folder = folder_of(at, path, &name);
    if (!folder)
        return next(at, path, flags);
    pthread_mutex_lock(&lock);
    int rc = next(at, path, flags);
    if (!rc)
        put_name(REMOVE, folder, 0, name);
    pthread_mutex_unlock(&lock);
    return rc;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    NEXT(renameat2);
    char names[2 * NAME_MAX + 2];
    const char *a, *b;
    uint64_t of = folder_of(at, from, &a), into = folder_of(to_at, to, &b);
    if (!of || !into)
        return next(at, from, to_at, to, flags);
    pthread_mutex_lock(&lock);
    int n = snprintf(names, sizeof names, "%s%c%s", a, 0, b), rc = next(at, from, to_at, to, flags);
    if (!rc)
        put(RENAME, of, into, names, (size_t)n, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

int renameat(int at, const char *from, int to_at, const char *to)
{
    return renameat2(at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    NEXT(linkat);
    const char *name;
    uint64_t folder = folder_of(to_at, to, &name);
    if (!folder)
        return next(at, from, to_at, to, flags);
    pthread_mutex_lock(&lock);
    int rc = next(at, from, to_at, to, flags);
    if (!rc)
        put_name(LINK, folder, ino_at(to_at, to), name);
    pthread_mutex_unlock(&lock);
    return rc;
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
