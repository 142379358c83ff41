/* SPDX-License-Identifier: Apache-2.0
 *
 * What a batch's lines were answered: a line of the log for each, in the order in which they ended,
 *
 *     0000012 o {"id":...}
 *
 * the line's place in the input from 0, o for an answer and e for an error, and the line of the
 * file that is made of it. What was not written to its end is cut off when the log is opened, and
 * asked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "server/batches/batches_own.h"

enum { PREFIX = 10, PENDING_BYTES = 1 << 30 };

/* ---- what lies there ------------------------------------------------------------------------- */

/* A whole line of the log, counted. */
static bool take(struct batch_log *l, const char *line, size_t n, struct batch *b)
{
    char *end;
    if (n < PREFIX + 3 || line[n - 1] != '\n' || memchr(line, 0, n))
        return false;
    size_t i = (size_t)strtoul(line, &end, 10);
    char kind = line[PREFIX - 2];
    if (end != line + PREFIX - 3 || i >= l->n_line || l->mark[i].kind ||
        (kind != BATCH_GOOD && kind != BATCH_BAD) ||
        batch_usage_add(line + PREFIX, n - PREFIX - 1, &b->usage))
        return false;
    l->mark[i] =
        (struct batch_mark){.at = l->end + PREFIX, .n = (int32_t)(n - PREFIX - 1), .kind = kind};
    l->n_answered++;
    b->n_good += kind == BATCH_GOOD;
    b->n_bad += kind == BATCH_BAD;
    return true;
}

static int read_all(struct batch_log *l, struct batch *b, struct err *e)
{
    int fd = dup(l->fd);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return err_sys(e, "a batch's answers");
    }
    while ((n = getline(&line, &cap, f)) > 0 && take(l, line, (size_t)n, b))
        l->end += n;
    bool failed = ferror(f);
    free(line);
    fclose(f);
    return failed || ftruncate(l->fd, l->end) ? err_sys(e, "a batch's answers") : 0;
}

int batch_log_init(struct batch_log *l, const char *path, size_t n_line, struct batch *b,
                   struct err *e)
{
    *l = (struct batch_log){.fd = -1, .n_line = n_line};
    buf_init(&l->pending, PENDING_BYTES);
    b->n_good = b->n_bad = 0;
    b->usage = (struct batch_usage){0};
    l->mark = try_alloc(n_line, sizeof *l->mark, "the lines of a batch", e);
    if (!l->mark)
        return -1;
    memset(l->mark, 0, n_line * sizeof *l->mark);
    l->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return err_sys(e, "a batch's answers");
    return fs_sync_parent(path, e) || read_all(l, b, e) ? -1 : 0;
}

void batch_log_release(struct batch_log *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    mem_free(l->mark);
    l->mark = NULL;
    buf_release(&l->pending);
}

/* ---- what comes ------------------------------------------------------------------------------ */

int batch_log_add(struct batch_log *l, size_t i, enum batch_kind kind, const struct buf *json)
{
    size_t was = l->pending.len;
    ASSERT(l->mark[i].kind != BATCH_GOOD && l->mark[i].kind != BATCH_BAD);
    buf_printf(&l->pending, "%07zu %c ", i, (char)kind);
    buf_add(&l->pending, json->data, json->len);
    if (json->failed || buf_char(&l->pending, '\n')) {
        l->pending.failed = l->pending.no_memory = false;
        l->pending.len = was;
        return -1;
    }
    l->mark[i] = (struct batch_mark){
        .at = l->end + (int64_t)was + PREFIX, .n = (int32_t)json->len, .kind = (char)kind};
    l->n_answered++;
    return 0;
}

/* A part that was written, of what could not be written whole, is taken back. */
int batch_log_write(struct batch_log *l, struct err *e)
{
    size_t done = 0;
    while (done < l->pending.len) {
        ssize_t n =
            pwrite(l->fd, l->pending.data + done, l->pending.len - done, l->end + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            err_sys(e, "a batch's answers");
            (void)!ftruncate(l->fd, l->end); /* if not now, when the log is opened */
            return -1;
        }
        done += (size_t)n;
    }
    l->end += (int64_t)done;
    l->is_dirty |= done > 0;
    buf_clear(&l->pending);
    return 0;
}

int batch_log_sync(struct batch_log *l, struct err *e)
{
    if (l->is_dirty && fdatasync(l->fd))
        return err_sys(e, "a batch's answers");
    l->is_dirty = false;
    return 0;
}

int batch_log_read(const struct batch_log *l, size_t i, struct buf *out, struct err *e)
{
    const struct batch_mark *m = &l->mark[i];
    size_t done = 0;
    if (buf_reserve(out, (size_t)m->n + 1))
        return buf_check(out, "an answer of a batch", e);
    while (done < (size_t)m->n) {
        ssize_t n = pread(l->fd, out->data + out->len, (size_t)m->n - done, m->at + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_CORRUPT, "a batch's answers cannot be read");
        done += (size_t)n;
        out->len += (size_t)n;
    }
    return buf_char(out, '\n') ? buf_check(out, "an answer of a batch", e) : 0;
}
