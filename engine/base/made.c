/* SPDX-License-Identifier: Apache-2.0
 *
 * The list is read as strictly as it is written: one that somebody edited is none. Everything is
 * reached from the folder's descriptor, and no link is followed.
 */
#include "engine/base/made.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"

static const char first[] = "# made by tandem\n";

enum { LIST_BYTES_MAX = 4 << 20, PIECE_BYTES = 1 << 20, DIGITS = SHA256_TEXT_BYTES - 1 };

/* The lines of a list point into its text. */
struct line {
    const char *digest, *name;
};

struct list {
    struct buf text;
    VEC(struct line) line;
};

static void list_release(struct list *l)
{
    buf_release(&l->text);
    vec_release(&l->line);
}

int made_digest(int fd, const char *name, char text[SHA256_TEXT_BYTES], int64_t *bytes,
                struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha;
    char *piece = xmalloc(PIECE_BYTES);
    ssize_t n;
    *bytes = 0;
    sha256_init(&sha);
    while ((n = read(fd, piece, PIECE_BYTES)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        sha256_add(&sha, piece, (size_t)n);
        *bytes += n;
    }
    int rc = n < 0 ? err_sys(e, "reading %s", name) : 0;
    free(piece);
    sha256_end(&sha, digest);
    sha256_text(digest, text);
    return rc;
}

/* The folder, and the name in it, that a line names: "model.safetensors", "1_Pooling/config.json".
 * *in is `dir` itself or for close_in; -1: there is no such folder, or a link. */
static int open_in(int dir, const char *line, int *in, const char **name, struct err *e)
{
    const char *cut = strchr(line, '/');
    *in = dir;
    *name = line;
    if (!cut)
        return 0;
    char *folder = xmalloc((size_t)(cut - line) + 1);
    snprintf(folder, (size_t)(cut - line) + 1, "%s", line);
    *in = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *name = cut + 1;
    int rc = *in >= 0          ? 0
             : errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "%s is not there", folder)
                               : err_sys(e, "opening %s", folder);
    free(folder);
    return rc;
}

static void close_in(int dir, int in)
{
    if (in != dir && in >= 0)
        close(in);
}

static int open_line(int dir, const char *line, struct err *e)
{
    const char *name;
    int in;
    if (open_in(dir, line, &in, &name, e))
        return -1;
    int fd = fs_open_at(in, name, e);
    close_in(dir, in);
    return fd;
}

static int digest_at(int dir, const char *name, char text[SHA256_TEXT_BYTES], struct err *e)
{
    int64_t bytes;
    int fd = open_line(dir, name, e);
    if (fd < 0)
        return -1;
    int rc = made_digest(fd, name, text, &bytes, e);
    close(fd);
    return rc;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return err_set(e, ERR_EXISTS, "%s: is no folder that this program made", dir);
    return fd < 0 ? err_sys(e, "opening %s", dir) : fd;
}

/* A stream over the entries that does not close the descriptor. */
static DIR *entries(int dir, struct err *e)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        err_sys(e, "reading a folder");
        if (fd >= 0)
            close(fd);
    }
    return d;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int list_one(int dir, const char *name, struct buf *out, struct err *e)
{
    char text[SHA256_TEXT_BYTES];
    if (strchr(name, '\n') || strchr(name, '\\')) /* the form would have to escape it */
        return err_set(e, ERR_BAD_INPUT, "a file's name has a backslash or a line's end");
    if (digest_at(dir, name, text, e))
        return -1;
    buf_printf(out, "%s  %s\n", text, name);
    return 0;
}

static bool is_folder(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int list_folder(int dir, const char *folder, struct buf *out, struct err *e)
{
    int fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : entries(fd, e);
    int rc = d ? 0 : -1;
    for (struct dirent *it; !rc && (it = readdir(d));) {
        char name[2 * sizeof it->d_name];
        if (is_dot(it->d_name))
            continue;
        snprintf(name, sizeof name, "%s/%s", folder, it->d_name);
        rc = is_folder(fd, it->d_name)
                 ? err_set(e, ERR_BAD_INPUT, "%s: a folder in a folder of the folder", name)
                 : list_one(dir, name, out, e);
    }
    if (d)
        closedir(d);
    if (fd >= 0)
        close(fd);
    return rc;
}

int made_list(const char *dir, struct err *e)
{
    struct buf out;
    int fd = open_dir(dir, e), rc = -1;
    DIR *d = fd < 0 ? NULL : entries(fd, e);
    size_t n = strlen(dir) + sizeof "/" MADE_LIST;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/" MADE_LIST, dir);
    buf_init(&out, LIST_BYTES_MAX);
    buf_str(&out, first);
    if (!d)
        goto done;
    rc = 0;
    for (struct dirent *it; !rc && (it = readdir(d));)
        if (!is_dot(it->d_name) && strcmp(it->d_name, MADE_LIST) != 0)
            rc = is_folder(fd, it->d_name) ? list_folder(fd, it->d_name, &out, e)
                                           : list_one(fd, it->d_name, &out, e);
    if (!rc)
        rc = buf_check(&out, MADE_LIST, e) ? -1 : aside_put(path, out.data, out.len, e);
done:
    if (d)
        closedir(d);
    if (fd >= 0)
        close(fd);
    buf_release(&out);
    free(path);
    return rc ? err_wrap(e, "%s", dir) : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int no_list(struct err *e)
{
    return err_set(e, ERR_CORRUPT, "%s is not as it was written", MADE_LIST);
}

/* A file of the folder, or of a folder in it. */
static bool is_within(const char *name)
{
    const char *cut = strchr(name, '/');
    bool is_up = name[0] == '.' && (name[1] == '/' || (name[1] == '.' && name[2] == '/'));
    if (!cut)
        return !is_dot(name);
    return cut > name && !is_up && cut[1] && !strchr(cut + 1, '/') && !is_dot(cut + 1);
}

/* Cuts the text into lines of digest, two spaces, name. */
static int list_cut(struct list *l, struct err *e)
{
    char *p = l->text.data;
    if (strlen(p) != l->text.len || strncmp(p, first, sizeof first - 1) != 0)
        return no_list(e);
    for (p += sizeof first - 1; *p;) {
        char *end = strchr(p, '\n');
        if (!end || end - p < DIGITS + 3 || strspn(p, "0123456789abcdef") != DIGITS ||
            strncmp(p + DIGITS, "  ", 2) != 0)
            return no_list(e);
        *end = 0;
        p[DIGITS] = 0;
        struct line line = {p, p + DIGITS + 2};
        if (!is_within(line.name))
            return no_list(e);
        vec_push(&l->line, line);
        p = end + 1;
    }
    return 0;
}

static int list_read(int dir, struct list *l, struct err *e)
{
    *l = (struct list){.line = {0}};
    buf_init(&l->text, LIST_BYTES_MAX);
    int fd = fs_open_at(dir, MADE_LIST, e);
    int rc = fd < 0 ? -1 : fs_read_fd(fd, MADE_LIST, &l->text, e);
    if (!rc)
        rc = l->text.len ? list_cut(l, e) : no_list(e);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Whether it has files of that folder. */
static bool list_has_folder(const struct list *l, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < l->line.n; i++)
        if (strncmp(l->line.at[i].name, name, n) == 0 && l->line.at[i].name[n] == '/')
            return true;
    return false;
}

static bool list_has(const struct list *l, const char *name)
{
    for (size_t i = 0; i < l->line.n; i++)
        if (strcmp(l->line.at[i].name, name) == 0)
            return true;
    return strcmp(name, MADE_LIST) == 0;
}

/* ---- checking ------------------------------------------------------------------------------ */

struct made_reading {
    int dir, fd; /* owned; fd: of the file that is being read, -1: none */
    struct list list;
    size_t next; /* of the list's lines */
    struct sha256 hash;
};

int made_proof_begin(struct made_proof *p, const char *dir, struct err *e)
{
    struct made_reading *r = xcalloc(1, sizeof *r);
    p->at = r;
    r->fd = -1;
    r->dir = open_dir(dir, e);
    return r->dir < 0 ? -1 : list_read(r->dir, &r->list, e);
}

void made_proof_end(struct made_proof *p)
{
    struct made_reading *r = p->at;
    p->at = NULL;
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    if (r->dir >= 0)
        close(r->dir);
    list_release(&r->list);
    free(r);
}

static int open_next(struct made_reading *r, struct err *e)
{
    r->fd = open_line(r->dir, r->list.line.at[r->next].name, e);
    sha256_init(&r->hash);
    if (r->fd >= 0)
        return 0;
    if (e->code == ERR_NOT_FOUND)
        e->code = ERR_CORRUPT;
    return -1;
}

static int close_file(struct made_reading *r, struct err *e)
{
    const struct line *line = &r->list.line.at[r->next++];
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    close(r->fd);
    r->fd = -1;
    sha256_end(&r->hash, digest);
    if (strcmp(sha256_text(digest, text), line->digest) == 0)
        return 0;
    return err_set(e, ERR_CORRUPT, "%s is not as it was written: its SHA-256 differs", line->name);
}

int made_proof_read(struct made_proof *p, int64_t most, struct err *e)
{
    struct made_reading *r = p->at;
    char *piece = xmalloc(PIECE_BYTES);
    int rc = 0;
    while (!rc && most > 0 && r->next < r->list.line.n) {
        rc = r->fd < 0 ? open_next(r, e) : 0;
        ssize_t n = rc ? 0 : read(r->fd, piece, PIECE_BYTES);
        if (n < 0 && errno != EINTR)
            rc = err_sys(e, "reading %s", r->list.line.at[r->next].name);
        if (n > 0)
            sha256_add(&r->hash, piece, (size_t)n);
        most -= n > 0 ? n : 0;
        if (!rc && n == 0)
            rc = close_file(r, e);
    }
    free(piece);
    return rc ? -1 : r->next < r->list.line.n;
}

int made_check(const char *dir, struct err *e)
{
    struct made_proof p = {NULL};
    int rc = made_proof_begin(&p, dir, e) ? -1 : 1;
    while (rc == 1)
        rc = made_proof_read(&p, INT64_MAX, e);
    made_proof_end(&p);
    return rc;
}

/* ---- removing ------------------------------------------------------------------------------ */

static bool is_empty(int fd)
{
    struct err e = ERR_INIT;
    DIR *d = entries(fd, &e);
    bool empty = d != NULL;
    for (struct dirent *it; empty && (it = readdir(d));)
        empty = is_dot(it->d_name);
    if (d)
        closedir(d);
    return empty;
}

static int is_ours(int fd, const char *dir, const char *folder, const struct list *l,
                   struct err *e);

static int is_folder_ours(int fd, const char *dir, const char *folder, const struct list *l,
                          struct err *e)
{
    int in = openat(fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = in < 0 ? err_sys(e, "opening %s", folder) : is_ours(in, dir, folder, l, e);
    if (in >= 0)
        close(in);
    return rc;
}

/* All that is there is on the list; folder: in `dir`, NULL: that itself. */
static int is_ours(int fd, const char *dir, const char *folder, const struct list *l, struct err *e)
{
    DIR *d = entries(fd, e);
    int rc = d ? 0 : -1;
    for (struct dirent *it; !rc && (it = readdir(d));) {
        char name[2 * sizeof it->d_name];
        if (is_dot(it->d_name))
            continue;
        snprintf(name, sizeof name, "%s%s%s", folder ? folder : "", folder ? "/" : "", it->d_name);
        if (!folder && list_has_folder(l, name) && is_folder(fd, name))
            rc = is_folder_ours(fd, dir, name, l, e);
        else if (!list_has(l, name))
            rc = err_set(e, ERR_EXISTS, "%s: holds '%.100s', which this program did not put there",
                         dir, name);
    }
    if (d)
        closedir(d);
    return rc;
}

/* And the folder that it was the last file of. */
static int remove_line(int fd, const char *line)
{
    struct err unused = ERR_INIT;
    const char *name;
    int in, rc = open_in(fd, line, &in, &name, &unused);
    if (rc)
        return unused.code == ERR_NOT_FOUND ? 0 : -1;
    rc = unlinkat(in, name, 0) && errno != ENOENT ? -1 : 0;
    if (in != fd && !rc && is_empty(in)) {
        char *folder = xstrdup(line);
        *strchr(folder, '/') = 0;
        rc = unlinkat(fd, folder, AT_REMOVEDIR) && errno != ENOENT ? -1 : 0;
        free(folder);
    }
    close_in(fd, in);
    return rc;
}

/* The folder's descriptor and list; an empty folder has an empty one. -1 with ERR_NOT_FOUND: there
 * is no folder. */
static int look(const char *dir, struct list *l, struct err *e)
{
    *l = (struct list){.line = {0}};
    int fd = open_dir(dir, e);
    if (fd < 0 || is_empty(fd))
        return fd;
    int rc = list_read(fd, l, e);
    if (rc && (e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT))
        err_set(e, ERR_EXISTS, "%s: has no list (%s) of files that this program made", dir,
                MADE_LIST);
    if (!rc)
        rc = is_ours(fd, dir, NULL, l, e);
    if (!rc)
        return fd;
    close(fd);
    return -1;
}

int made_may_remove(const char *dir, struct err *e)
{
    struct list l;
    int fd = look(dir, &l, e);
    list_release(&l);
    if (fd < 0)
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    close(fd);
    return 0;
}

int made_remove(const char *dir, struct err *e)
{
    struct list l;
    int fd = look(dir, &l, e), rc = 0;
    if (fd < 0) {
        list_release(&l);
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    }
    for (size_t i = 0; !rc && i < l.line.n; i++)
        rc = remove_line(fd, l.line.at[i].name);
    if (rc || (unlinkat(fd, MADE_LIST, 0) && errno != ENOENT) || (rmdir(dir) && errno != ENOENT))
        rc = err_sys(e, "removing %s", dir);
    close(fd);
    list_release(&l);
    return rc;
}
