/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes beside files and models, by which a lost store is filled again. One is written before its
 * row and removed before it, so that what was deleted never comes back by its note.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/sidecar.h"
#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "server/store/store_own.h"

static int put(struct store *s, enum data_folder folder, const char *name, struct buf *text,
               struct err *e)
{
    const char *in = data_folder_name(folder);
    size_t n = strlen(s->dir.path) + strlen(in) + strlen(name) + sizeof "//.json";
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s/%s.json", s->dir.path, in, name);
    int rc =
        buf_check(text, "a note beside a file", e) ? -1 : aside_put(path, text->data, text->len, e);
    free(path);
    buf_release(text);
    return rc;
}

int store_note_file(struct store *s, const struct file_row *f, struct err *e)
{
    struct buf text;
    buf_init(&text, SIDECAR_BYTES_MAX);
    sidecar_write_file(&text, f);
    return put(s, DATA_FILES, f->id, &text, e);
}

static enum data_folder folder_of(const struct job_tuned *t)
{
    return t->is_full ? DATA_MODELS : DATA_ADAPTERS;
}

int store_note_tuned(struct store *s, const struct job_tuned *t, struct err *e)
{
    struct buf text;
    bool shares;
    if (store_job_shares(s, t->job, &shares, e))
        return -1;
    buf_init(&text, SIDECAR_BYTES_MAX);
    sidecar_write_tuned(&text, t, shares);
    return put(s, folder_of(t), t->dir, &text, e);
}

int store_note_drop(struct store *s, enum data_folder folder, const char *name, struct err *e)
{
    size_t n = strlen(name) + sizeof ".json";
    char *note = xmalloc(n);
    snprintf(note, n, "%s.json", name);
    int rc = data_remove(&s->dir, folder, note, e);
    free(note);
    return rc;
}

int store_note_read(struct store *s, enum data_folder folder, const char *name, struct buf *out,
                    struct err *e)
{
    size_t n = strlen(name) + sizeof ".json";
    char *note = xmalloc(n);
    snprintf(note, n, "%s.json", name);
    int fd = data_open(&s->dir, folder, note, e);
    int rc = fd < 0 ? -1 : fs_read_fd(fd, note, out, e);
    if (fd >= 0)
        close(fd);
    free(note);
    return rc;
}

int store_note_all(struct store *s, struct err *e)
{
    struct arena a;
    struct store_page page = {.limit = 1000};
    struct file_row *file;
    struct job_tuned *tuned;
    bool more = true;
    size_t n;
    int rc = 0;
    arena_init(&a, 0);
    while (!rc && more) {
        rc = store_file_list(s, NULL, NULL, &page, &a, &file, &n, &more, e);
        for (size_t i = 0; !rc && i < n; i++)
            rc = store_note_file(s, &file[i], e);
        page.after = !rc && n ? file[n - 1].id : NULL;
    }
    page.after = NULL;
    for (more = true; !rc && more;) {
        rc = store_tuned_list(s, NULL, NULL, &page, &a, &tuned, &n, &more, e);
        for (size_t i = 0; !rc && i < n; i++)
            rc = store_note_tuned(s, &tuned[i], e);
        page.after = !rc && n ? tuned[n - 1].id : NULL;
    }
    arena_release(&a);
    return rc;
}
