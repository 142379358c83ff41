/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: looked at without a trace first, then locked, then looked at again, since another server
 * may have marked it meanwhile.
 */
#include "server/data/data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

static const char *const names[DATA_FOLDER_COUNT] = {
#define FOLDER(name, path, what) path,
    DATA_FOLDERS(FOLDER)
#undef FOLDER
};

static const char *const things[DATA_FOLDER_COUNT] = {
#define FOLDER(name, path, what) what,
    DATA_FOLDERS(FOLDER)
#undef FOLDER
};

const char *data_folder_name(enum data_folder folder)
{
    return names[folder];
}

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int look(struct data_dir *d, bool adopts, struct err *e)
{
    char said[DATA_LOOK_BYTES];
    struct stat st;
    if (data_look(d->fd, &d->was, d->id, said, e))
        return -1;
    if (d->was == DATA_FOREIGN && !adopts)
        return err_set(e, ERR_EXISTS,
                       "is not empty, and not a data directory of tandem: it holds %s. Give an "
                       "empty folder or a new one; `tandem doctor --data-dir DIR --repair` makes "
                       "this one a data directory, and leaves what lies there",
                       said);
    d->has_store = !fstatat(d->fd, DATA_STORE, &st, AT_SYMLINK_NOFOLLOW) && st.st_size > 0;
    if (d->has_store && !S_ISREG(st.st_mode))
        return err_set(e, ERR_BAD_INPUT, DATA_STORE " is no regular file; links are not followed");
    return 0;
}

/* Makes a folder of the directory, or opens it. */
static int open_folder(const struct data_dir *d, const char *name, struct err *e)
{
    if (mkdirat(d->fd, name, 0777) && errno != EEXIST)
        return err_sys(e, "making %s/", name);
    int fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(e, ERR_BAD_INPUT,
                       "%s/ is a link, or no folder, and links are not followed here: move what it "
                       "leads to into its place, or mount it there",
                       name);
    return fd < 0 ? err_sys(e, "opening %s/", name) : fd;
}

int data_dir_folders(struct data_dir *d, struct err *e)
{
    for (int i = 0; i < DATA_FOLDER_COUNT; i++)
        if (d->folder[i] < 0 && (d->folder[i] = open_folder(d, names[i], e)) < 0)
            return -1;
    return fs_sync_dir(d->path, e);
}

int data_dir_open(struct data_dir *d, const char *path, bool adopts, struct err *e)
{
    *d = (struct data_dir){.path = xstrdup(path), .lock_fd = -1};
    char *lock = join(path, "lock");
    for (int i = 0; i < DATA_FOLDER_COUNT; i++)
        d->folder[i] = -1;
    d->fd = fs_mkdirs(path, e) ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0 && !e->code)
        err_sys(e, "opening it");
    if (d->fd >= 0 && !look(d, adopts, e))
        d->lock_fd = fs_lock(lock, e);
    free(lock);
    return d->lock_fd < 0 || look(d, adopts, e) ? -1 : 0;
}

int data_dir_mark(struct data_dir *d, const char *id, struct err *e)
{
    char text[256];
    char *path = join(d->path, DATA_MARK);
    int n = snprintf(text, sizeof text,
                     "This folder is a data directory of tandem: the program owns what it made "
                     "here.\nid %s\n",
                     id);
    int rc = aside_put(path, text, (size_t)n, e);
    free(path);
    if (!rc)
        snprintf(d->id, sizeof d->id, "%s", id);
    return rc;
}

void data_dir_close(struct data_dir *d)
{
    for (int i = 0; i < DATA_FOLDER_COUNT; i++)
        if (d->folder[i] >= 0)
            close(d->folder[i]);
    if (d->fd >= 0)
        close(d->fd);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->path);
}

/* ---- what lies there ----------------------------------------------------------------------- */

static int count(int fd, size_t *n, struct err *e)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    *n = 0;
    if (!dir) {
        if (own >= 0)
            close(own);
        return err_sys(e, "reading a folder");
    }
    for (struct dirent *it; (it = readdir(dir));) {
        const char *dot = strrchr(it->d_name, '.');
        *n += *it->d_name != '.' && !(dot && strcmp(dot, ".json") == 0) && !fs_is_temp(it->d_name);
    }
    closedir(dir);
    return 0;
}

int data_dir_count(const struct data_dir *d, char text[DATA_LOOK_BYTES], struct err *e)
{
    int at = 0;
    *text = 0;
    for (int i = 0; i < DATA_FOLDER_COUNT; i++) {
        size_t n;
        if (i == DATA_BACKUPS)
            continue;
        if (count(d->folder[i], &n, e))
            return -1;
        if (n)
            at += snprintf(text + at, DATA_LOOK_BYTES - (size_t)at, "%s%zu %s%s", at ? ", " : "", n,
                           things[i], n > 1 ? "s" : "");
    }
    return 0;
}

int data_open(const struct data_dir *d, enum data_folder folder, const char *name, struct err *e)
{
    return fs_open_at(d->folder[folder], name, e);
}

static bool is_ours(const char *stem)
{
    return data_is_our_name(stem);
}

int data_dir_sweep(const struct data_dir *d, struct err *e)
{
    static const enum data_folder in[] = {DATA_FILES, DATA_ADAPTERS, DATA_MODELS, DATA_PARTS};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof in / sizeof *in; i++) {
        char *path = join(d->path, names[in[i]]);
        rc = fs_sweep(path, is_ours, e);
        free(path);
    }
    return rc;
}
