/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a data directory from outside of a server, in the order in which things stand on each
 * other: the mark, the store, rows, files.
 */
#include "server/store/store_doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/sidecar.h"
#include "engine/base/aside.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "server/store/store_own.h"

enum { TEXT_BYTES = 700, PAGE = 1000, PIECE_BYTES = 1 << 20 };

struct looking {
    struct store_doctor *r;
    struct store *s;
    struct arena arena;
};

__attribute__((format(printf, 3, 4))) static void say(struct looking *l, bool is_amiss,
                                                      const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    l->r->n_amiss += is_amiss;
    l->r->say(l->r->ctx, is_amiss, text);
}

/* ---- the store ----------------------------------------------------------------------------- */

static void close_db(struct store *s)
{
    sqlite3_close(s->db);
    s->db = NULL;
}

/* The database and what SQLite keeps beside it go to lost+found. */
static int set_store_aside(struct store *s, struct err *e)
{
    static const char *const part[] = {DATA_STORE, DATA_STORE "-wal", DATA_STORE "-shm"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (data_set_aside_at(&s->dir, s->dir.fd, part[i], "set aside by doctor", e))
            return -1;
    s->dir.has_store = false;
    return 0;
}

static int copy(int from, const char *to, struct err *e)
{
    struct aside out;
    char *piece = xmalloc(PIECE_BYTES);
    ssize_t n = 0;
    int rc = aside_init(&out, to, e);
    while (!rc && (n = read(from, piece, PIECE_BYTES)) > 0)
        rc = aside_write(&out, piece, (size_t)n, e);
    if (!rc)
        rc = n < 0 ? err_sys(e, "reading a backup") : aside_commit(&out, e);
    aside_release(&out);
    free(piece);
    return rc;
}

/* One backup in the place of the store, opened as a server opens it. */
static int try_backup(struct store *s, const char *name, struct err *e)
{
    size_t n = strlen(s->dir.path) + sizeof "/" DATA_STORE;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/" DATA_STORE, s->dir.path);
    int fd = data_open(&s->dir, DATA_BACKUPS, name, e);
    int rc = fd < 0 ? -1 : copy(fd, path, e);
    if (fd >= 0)
        close(fd);
    free(path);
    if (rc)
        return -1;
    s->dir.has_store = true;
    return store_open(s, e);
}

static int restore(struct looking *l, struct err *e)
{
    struct store *s = l->s;
    struct store_backups all;
    if (store_backups(&s->dir, &all, e))
        return -1;
    for (size_t i = 0; i < all.n; i++) {
        struct err why = ERR_INIT;
        if (!try_backup(s, all.name[i], &why)) {
            say(l, false, "the store was restored from backups/%s", all.name[i]);
            return 0;
        }
        say(l, true, "backups/%s cannot be used: %s", all.name[i], why.msg);
        close_db(s);
        if (set_store_aside(s, e))
            return -1;
    }
    if (store_begin_anew(s, e))
        return -1;
    say(l, false, "a new store was begun: there is no backup of the old one");
    return 0;
}

/* 0: the store is open; 1: it is not, and that was said. */
static int open_store(struct looking *l, struct err *e)
{
    struct store *s = l->s;
    struct err why = ERR_INIT;
    char id[STORE_ID_BYTES];
    if (s->dir.was != DATA_FOREIGN && !store_open(s, &why))
        return 0;
    if (s->dir.was != DATA_FOREIGN)
        say(l, !l->r->repairs, "%s", why.msg);
    if (!l->r->repairs || (why.code && why.code != ERR_CORRUPT && why.code != ERR_EXISTS))
        return l->r->repairs ? err_set(e, why.code, "%s", why.msg) : 1;
    close_db(s);
    store_id("dir-", id);
    if (!*s->dir.id && data_dir_mark(&s->dir, id, e))
        return -1;
    if (s->dir.was == DATA_FOREIGN)
        say(l, false, "the folder is a data directory from here on; what lay there is left");
    return data_dir_folders(&s->dir, e) || set_store_aside(s, e) || restore(l, e) ? -1 : 0;
}

/* ---- rows without files -------------------------------------------------------------------- */

static void look_at_file(struct looking *l, const struct file_row *f)
{
    char text[SHA256_TEXT_BYTES];
    struct err why = ERR_INIT;
    int64_t bytes;
    int fd = data_open(&l->s->dir, DATA_FILES, f->id, &why);
    if (fd < 0) {
        say(l, true, "row without a file: %s ('%.100s', of '%s')", f->id, f->name, f->owner);
        return;
    }
    if (made_digest(fd, f->id, text, &bytes, &why))
        say(l, true, "%s", why.msg);
    else if (strcmp(text, f->sha256) != 0)
        say(l, true, "file altered: files/%s is not as it was written: its SHA-256 differs", f->id);
    close(fd);
}

static void look_at_model(struct looking *l, const struct job_tuned *t)
{
    const char *in = data_folder_name(t->is_full ? DATA_MODELS : DATA_ADAPTERS);
    char *path = arena_printf(&l->arena, "%s/%s/%s", l->s->dir.path, in, t->dir);
    struct err why = ERR_INIT;
    struct stat st;
    if (lstat(path, &st))
        say(l, true, "row without a model: %s (%s/%s, of '%s')", t->name, in, t->dir, t->owner);
    else if (made_check(path, &why) && why.code != ERR_NOT_FOUND)
        say(l, true, "model altered: %s/%s: %s", in, t->dir, why.msg);
}

static int look_at_rows(struct looking *l, struct err *e)
{
    struct store_page page = {.limit = PAGE};
    struct file_row *file;
    struct job_tuned *tuned;
    bool more = true;
    size_t n, n_file = 0, n_tuned = 0;
    for (; more; page.after = n ? file[n - 1].id : NULL, n_file += n) {
        if (store_file_list(l->s, NULL, NULL, &page, &l->arena, &file, &n, &more, e))
            return -1;
        for (size_t i = 0; i < n; i++)
            look_at_file(l, &file[i]);
    }
    page.after = NULL;
    for (more = true; more; page.after = n ? tuned[n - 1].id : NULL, n_tuned += n) {
        if (store_tuned_list(l->s, NULL, NULL, &page, &l->arena, &tuned, &n, &more, e))
            return -1;
        for (size_t i = 0; i < n; i++)
            look_at_model(l, &tuned[i]);
    }
    say(l, false, "the store has %zu files and %zu models", n_file, n_tuned);
    return 0;
}

/* ---- files without rows -------------------------------------------------------------------- */

static int enter_file(struct looking *l, const char *name, const struct buf *note, struct err *e)
{
    char text[SHA256_TEXT_BYTES];
    struct file_row f;
    int64_t bytes;
    if (sidecar_read_file(note->data, note->len, &l->arena, &f, e))
        return -1;
    if (strcmp(f.id, name) != 0)
        return err_set(e, ERR_CORRUPT, "the note beside it is of another file");
    int fd = data_open(&l->s->dir, DATA_FILES, name, e);
    int rc = fd < 0 ? -1 : made_digest(fd, name, text, &bytes, e);
    if (fd >= 0)
        close(fd);
    if (!rc && (strcmp(text, f.sha256) != 0 || bytes != f.bytes))
        rc = err_set(e, ERR_CORRUPT, "it is not as it was written: its SHA-256 differs");
    return rc ? -1 : store_file_add(l->s, &f, e);
}

static int enter_model(struct looking *l, enum data_folder in, const char *name,
                       const struct buf *note, struct err *e)
{
    struct job_tuned t;
    bool shares;
    char *path = arena_printf(&l->arena, "%s/%s/%s", l->s->dir.path, data_folder_name(in), name);
    if (sidecar_read_tuned(note->data, note->len, &l->arena, &t, &shares, e))
        return -1;
    if (strcmp(t.dir, name) != 0 || t.is_full != (in == DATA_MODELS))
        return err_set(e, ERR_CORRUPT, "the note beside it is of another model");
    if (made_check(path, e))
        return -1;
    return store_tuned_enter(l->s, &t, shares, e);
}

static int look_at_entry(struct looking *l, enum data_folder in, const char *name, struct err *e)
{
    struct buf note;
    struct err why = ERR_INIT;
    const char *dot = strrchr(name, '.');
    bool has;
    if (*name == '.' || (dot && strcmp(dot, ".json") == 0))
        return 0;
    if (in == DATA_FILES ? store_file_has(l->s, name, &has, e)
                         : store_tuned_has(l->s, name, &has, e))
        return -1;
    if (has)
        return 0;
    buf_init(&note, SIDECAR_BYTES_MAX);
    int rc = store_note_read(l->s, in, name, &note, &why);
    const char *folder = data_folder_name(in);
    if (rc)
        say(l, true, "without a row: %s/%.100s, and no note beside it says whose it is", folder,
            name);
    else if (!l->r->repairs)
        say(l, true, "without a row: %s/%.100s; --repair enters it by the note beside it", folder,
            name);
    else if (in == DATA_FILES ? enter_file(l, name, &note, &why)
                              : enter_model(l, in, name, &note, &why))
        say(l, true, "without a row: %s/%.100s cannot be entered: %s", folder, name, why.msg);
    else
        say(l, false, "entered again by its note: %s/%s", folder, name);
    buf_release(&note);
    return 0;
}

static int look_at_folder(struct looking *l, enum data_folder in, struct err *e)
{
    int fd = openat(l->s->dir.folder[in], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int rc = d ? 0 : err_sys(e, "reading %s/", data_folder_name(in));
    for (struct dirent *it; !rc && (it = readdir(d));)
        rc = look_at_entry(l, in, it->d_name, e);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int look(struct looking *l, struct err *e)
{
    int rc = open_store(l, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    say(l, false, "data directory of id %s", l->s->dir.id);
    if (look_at_folder(l, DATA_FILES, e) || look_at_folder(l, DATA_ADAPTERS, e) ||
        look_at_folder(l, DATA_MODELS, e) || look_at_rows(l, e))
        return -1;
    return l->r->n_amiss || !l->r->repairs ? 0 : store_back_up(l->s, e);
}

int store_doctor(struct store_doctor *r, const char *dir, struct err *e)
{
    struct looking l = {.r = r};
    struct stat st;
    r->n_amiss = 0;
    if (stat(dir, &st))
        return err_sys(e, "%s", dir);
    l.s = xcalloc(1, sizeof *l.s);
    pthread_mutex_init(&l.s->lock, NULL);
    arena_init(&l.arena, 0);
    int rc = data_dir_open(&l.s->dir, dir, r->repairs, e) || look(&l, e) ? -1 : 0;
    arena_release(&l.arena);
    store_free(l.s);
    return rc ? err_wrap(e, "data directory %s", dir) : 0;
}
