/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a batch: its state in the store, and at its end the two files of its owner. The
 * files are named after the batch, so that a kill before they are entered makes the same files
 * again; the row, with them, is what ends it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/aside.h"
#include "engine/base/mem.h"
#include "engine/base/sha256.h"
#include "server/batches/batches_own.h"
#include "server/data/data_dir.h"

enum { LINE_BYTES = 1 << 30, LINE_ARENA = 256 << 20, FILES = 2 };

static char *path_of(const struct batch_run *r, enum data_folder folder, const char *name)
{
    const char *dir = r->all->opt.dir, *below = data_folder_name(folder);
    size_t n = strlen(dir) + strlen(below) + strlen(name) + 3;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s/%s", dir, below, name);
    return path;
}

char *batch_log_path(const struct batch_run *r)
{
    return path_of(r, DATA_BATCHES, r->batch.id);
}

/* ---- a file of answers ----------------------------------------------------------------------- */

struct making {
    const struct batch_run *run;
    struct aside aside;
    struct sha256 sha;
    struct buf line;
    const char *code, *message; /* of lines that were not answered; NULL: not in the file */
    int64_t bytes_left;         /* for those */
};

/* Of a line that nobody answered; its id is as its answer's. */
static int put_missed(struct making *m, size_t i, struct err *e)
{
    const struct batch_run *r = m->run;
    struct arena a;
    struct batch_line line;
    struct api_error fault;
    char id[STORE_ID_BYTES];
    arena_init(&a, LINE_ARENA);
    const char *text = batch_input_read(&r->input, i, &a, e);
    int rc = text ? 0 : -1;
    if (!rc &&
        batch_line_parse(text, (size_t)r->input.line.at[i].n, r->batch.endpoint, &a, &line, &fault))
        rc = err_set(e, ERR_NO_MEMORY, "%s", fault.message);
    if (!rc) {
        store_id("batch_req_", id);
        batch_missed_write(&m->line, id, line.custom_id, m->code, m->message);
        rc = buf_char(&m->line, '\n') ? buf_check(&m->line, "a line of a batch", e) : 0;
    }
    arena_release(&a);
    m->bytes_left -= (int64_t)m->line.len;
    if (m->bytes_left < 0)
        buf_clear(&m->line);
    return rc;
}

static int put_line(struct making *m, size_t i, bool is_error, struct err *e)
{
    char kind = m->run->log.mark[i].kind;
    buf_clear(&m->line);
    if (is_error ? kind == BATCH_GOOD : kind != BATCH_GOOD)
        return 0;
    if (kind == BATCH_OPEN_LINE && (!m->code || m->bytes_left <= 0))
        return 0;
    if (kind == BATCH_OPEN_LINE ? put_missed(m, i, e)
                                : batch_log_read(&m->run->log, i, &m->line, e))
        return -1;
    sha256_add(&m->sha, m->line.data, m->line.len);
    return aside_write(&m->aside, m->line.data, m->line.len, e);
}

/* What is known of its size. */
static int reserve(struct making *m, bool is_error, struct err *e)
{
    const struct batch_log *l = &m->run->log;
    int64_t n = 0;
    for (size_t i = 0; i < l->n_line; i++)
        if (l->mark[i].kind == (is_error ? BATCH_BAD : BATCH_GOOD))
            n += l->mark[i].n + 1;
    return aside_reserve(&m->aside, n, e);
}

static int put_lines(struct making *m, bool is_error, struct err *e)
{
    int rc = 0;
    sha256_init(&m->sha);
    buf_init(&m->line, LINE_BYTES);
    for (size_t i = 0; !rc && i < m->run->log.n_line; i++)
        rc = put_line(m, i, is_error, e);
    buf_release(&m->line);
    return rc;
}

static void describe(struct batch_run *r, bool is_error, int64_t now, struct making *m,
                     struct file_row *f)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    sha256_end(&m->sha, digest);
    f->owner = r->batch.owner;
    f->purpose = "batch_output";
    f->name = arena_printf(&r->attempt, "%s_%s.jsonl", r->batch.id, is_error ? "error" : "output");
    f->sha256 = arena_strdup(&r->attempt, sha256_text(digest, text));
    f->bytes = m->aside.n_bytes;
    f->created = now;
    f->expires = r->batch.keep_s ? now + r->batch.keep_s : 0;
}

/* 1: it would be empty, and is not there. */
static int make_file(struct batch_run *r, bool is_error, const char *code, const char *message,
                     struct file_row *f, struct err *e)
{
    struct making m = {.run = r, .code = code, .message = message, .bytes_left = r->bytes_left};
    const char *tail = strchr(r->batch.id, '_');
    f->id = arena_printf(&r->attempt, "file-%s-%s", is_error ? "errors" : "output",
                         tail ? tail + 1 : r->batch.id);
    char *path = path_of(r, DATA_FILES, f->id);
    int rc = aside_init(&m.aside, path, e) || reserve(&m, is_error, e) || put_lines(&m, is_error, e)
                 ? -1
                 : 0;
    bool is_empty = !rc && m.aside.n_bytes == 0;
    if (!rc && !is_empty) {
        describe(r, is_error, (int64_t)time(NULL), &m, f);
        rc = aside_commit(&m.aside, e);
    }
    aside_release(&m.aside);
    free(path);
    return rc ? -1 : is_empty;
}

static int make_files(struct batch_run *r, const char *code, const char *message,
                      struct file_row file[FILES], size_t *n, struct err *e)
{
    *n = 0;
    for (int is_error = 0; is_error < FILES; is_error++) {
        int rc = make_file(r, is_error, code, message, &file[*n], e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            *(is_error ? &r->batch.error_file : &r->batch.output_file) = file[(*n)++].id;
    }
    return 0;
}

/* ---- states ---------------------------------------------------------------------------------- */

int batch_tell(struct batch_run *r, unsigned from, struct err *e)
{
    r->has_news = false;
    return store_batch_change(r->all->opt.store, &r->batch, from, NULL, 0, e);
}

int batch_move(struct batch_run *r, enum batch_state to, unsigned from, struct err *e)
{
    struct batch was = r->batch;
    r->batch.state = to;
    r->batch.at[to] = (int64_t)time(NULL);
    int rc = batch_tell(r, from, e);
    if (rc)
        r->batch = was;
    return rc;
}

int batch_see_quota(struct batch_run *r, struct err *e)
{
    int64_t has = 0;
    if (r->quota && store_file_bytes(r->all->opt.store, r->batch.owner, &has, e))
        return -1;
    r->bytes_left = r->quota ? r->quota - has - r->log.end : INT64_MAX;
    return 0;
}

int batch_end(struct batch_run *r, enum batch_state to, const char *code, const char *message,
              struct err *e)
{
    struct file_row file[FILES] = {{0}};
    struct batch was = r->batch;
    size_t n = 0;
    batch_flights_drop(r);
    if (r->is_open && (batch_log_write(&r->log, e) || batch_log_sync(&r->log, e) ||
                       batch_see_quota(r, e) || make_files(r, code, message, file, &n, e))) {
        r->batch = was;
        return -1;
    }
    r->batch.state = to;
    r->batch.at[to] = (int64_t)time(NULL);
    if (store_batch_change(r->all->opt.store, &r->batch, BATCH_OPEN, file, n, e)) {
        r->batch = was;
        return -1;
    }
    r->is_over = true;
    struct err unheard = ERR_INIT; /* what stays is found at the next start */
    data_remove(store_dir(r->all->opt.store), DATA_BATCHES, r->batch.id, &unheard);
    return 0;
}
