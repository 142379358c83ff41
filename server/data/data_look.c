/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose a folder is, from its entries. A file system's own lost+found is nobody's, so that a volume
 * of its own is a new data directory; so are a lock and a mark that were being made when a first
 * start was killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "server/data/data_dir.h"

enum { MARK_BYTES_MAX = 4096, SHOWN = 3 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

bool data_is_our_name(const char *name)
{
    static const char *const prefix[] = {"file-rows-", "file-output-", "file-errors-", "file-",
                                         "ftjob-",     "batch_",       "part_"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++) {
        size_t n = strlen(prefix[i]);
        if (strncmp(name, prefix[i], n) == 0 && strspn(name + n, letters) == 24)
            return name[n + 24] == 0 || strcmp(name + n + 24, ".json") == 0 ||
                   strncmp(name + n + 24, "-step-", 6) == 0;
    }
    return false;
}

/* The id of a mark; one that cannot be read is none. */
static int read_mark(int fd, char id[DATA_ID_BYTES], struct err *e)
{
    static const char before[] = "\nid ";
    struct err why = ERR_INIT;
    struct buf b;
    *id = 0;
    int mark = fs_open_at(fd, DATA_MARK, &why);
    if (mark < 0)
        return why.code == ERR_NOT_FOUND || why.code == ERR_BAD_INPUT
                   ? 0
                   : err_set(e, why.code, "%s", why.msg);
    buf_init(&b, MARK_BYTES_MAX);
    int rc = fs_read_fd(mark, DATA_MARK, &b, &why);
    const char *at = !rc && b.data ? strstr(b.data, before) : NULL;
    size_t n = 0;
    if (at) {
        at += sizeof before - 1;
        n = strspn(at, letters);
        n += at[n] == '-' ? 1 + strspn(at + n + 1, letters) : 0;
    }
    if (n > 0 && n < DATA_ID_BYTES && at[n] == '\n')
        snprintf(id, DATA_ID_BYTES, "%.*s", (int)n, at);
    buf_release(&b);
    close(mark);
    return 0;
}

static bool has_store(int fd)
{
    struct stat st;
    return !fstatat(fd, DATA_STORE, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
           st.st_size > 0;
}

/* An entry that does not make a folder somebody's. */
static bool is_nobodys(const char *name)
{
    static const char *const known[] = {".", "..", "lock", "lost+found"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    return strncmp(name, DATA_MARK, sizeof DATA_MARK - 1) == 0 && fs_is_temp(name);
}

/* How many entries are somebody's, and the names of some. */
static int list(int fd, char said[DATA_LOOK_BYTES], size_t *n, struct err *e)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    int at = 0;
    *n = 0;
    *said = 0;
    if (!d) {
        if (own >= 0)
            close(own);
        return err_sys(e, "reading the folder");
    }
    for (struct dirent *it; (it = readdir(d));) {
        if (is_nobodys(it->d_name))
            continue;
        if (++*n <= SHOWN)
            at += snprintf(said + at, DATA_LOOK_BYTES - (size_t)at, "%s'%.48s'", at ? ", " : "",
                           it->d_name);
    }
    closedir(d);
    if (*n > SHOWN)
        snprintf(said + at, DATA_LOOK_BYTES - (size_t)at, " and %zu more", *n - SHOWN);
    return 0;
}

int data_look(int fd, enum data_kind *kind, char id[DATA_ID_BYTES], char said[DATA_LOOK_BYTES],
              struct err *e)
{
    size_t n;
    if (read_mark(fd, id, e) || list(fd, said, &n, e))
        return -1;
    *kind = *id ? DATA_MARKED : has_store(fd) ? DATA_UNMARKED : n ? DATA_FOREIGN : DATA_EMPTY;
    return 0;
}
