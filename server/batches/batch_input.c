/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the lines of a batch's file are. The file is read once for that, a piece at a time, and a
 * line again when it is its turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "server/batches/batches_own.h"

enum { PIECE_BYTES = 1 << 20 };

/* The line that is being read. */
struct reading {
    struct batch_input *in;
    int64_t at, begin; /* of the next byte; of the line */
    int64_t number;
    bool has_text; /* something but spaces */
    struct api_error *fault;
};

static int end_line(struct reading *r, struct err *e)
{
    int64_t n = r->at - r->begin;
    r->number++;
    if (!r->has_text)
        return 0;
    if (n > BATCH_LINE_BYTES_MAX) {
        api_fail(r->fault, 400, "line_too_long", NULL, "The line has more than %d bytes.",
                 BATCH_LINE_BYTES_MAX);
        return 1;
    }
    if (r->in->line.n == BATCH_LINES_MAX) {
        api_fail(r->fault, 400, "too_many_requests", NULL, "The file has more than %d requests.",
                 BATCH_LINES_MAX);
        return 1;
    }
    const struct batch_place p = {.at = r->begin, .n = (int32_t)n, .number = (int32_t)r->number};
    return vec_try_push(&r->in->line, "the lines of a batch", e, p);
}

static int take_piece(struct reading *r, const char *p, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++, r->at++) {
        if (p[i] != '\n') {
            r->has_text |= p[i] != ' ' && p[i] != '\t' && p[i] != '\r';
            continue;
        }
        int rc = end_line(r, e);
        if (rc)
            return rc;
        r->begin = r->at + 1;
        r->has_text = false;
    }
    return 0;
}

static int find_lines(struct reading *r, struct err *e)
{
    char *piece = xmalloc(PIECE_BYTES);
    ssize_t n = 1;
    int rc = 0;
    while (!rc && n > 0) {
        do
            n = read(r->in->fd, piece, PIECE_BYTES);
        while (n < 0 && errno == EINTR);
        rc = n < 0 ? err_sys(e, "reading a batch's file") : take_piece(r, piece, (size_t)n, e);
    }
    free(piece);
    return rc || !r->has_text ? rc : end_line(r, e);
}

static int open_file(struct batch_input *in, struct store *s, const struct batch *b,
                     struct api_error *fault, struct err *e)
{
    struct arena a;
    struct file_row f;
    struct err why = ERR_INIT;
    arena_init(&a, 1 << 16);
    int rc = store_file_get_held(s, b->owner, b->input_file, &a, &f, &why);
    if (!rc && f.bytes > BATCH_FILE_BYTES_MAX) {
        api_fail(fault, 400, "file_too_large", "input_file_id",
                 "The file has more than the %d bytes that a batch may have.",
                 BATCH_FILE_BYTES_MAX);
        arena_release(&a);
        return 1;
    }
    in->fd = rc ? -1 : store_file_open(s, &f, &why);
    arena_release(&a);
    if (in->fd >= 0)
        return 0;
    if (why.code != ERR_CORRUPT && why.code != ERR_NOT_FOUND)
        return err_set(e, why.code, "%s", why.msg);
    api_fail(fault, 400, "file_altered", "input_file_id", "%.400s", why.msg);
    return 1;
}

int batch_input_init(struct batch_input *in, struct store *s, const struct batch *b,
                     struct api_error *fault, int64_t *fault_line, struct err *e)
{
    *in = (struct batch_input){.fd = -1};
    struct reading r = {.in = in, .fault = fault};
    *fault_line = 0;
    int rc = open_file(in, s, b, fault, e);
    if (rc)
        return rc;
    rc = find_lines(&r, e);
    if (rc == 1)
        *fault_line = r.number;
    if (rc || in->line.n)
        return rc;
    api_fail(fault, 400, "empty_file", "input_file_id", "The file has no requests.");
    return 1;
}

void batch_input_release(struct batch_input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
    vec_release(&in->line);
}

const char *batch_input_read(const struct batch_input *in, size_t i, struct arena *a, struct err *e)
{
    const struct batch_place *p = &in->line.at[i];
    char *text = arena_try(a, (size_t)p->n + 1, 1, e);
    size_t done = 0;
    while (text && done < (size_t)p->n) {
        ssize_t n = pread(in->fd, text + done, (size_t)p->n - done, p->at + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            err_set(e, ERR_IO, "a batch's file cannot be read");
            return NULL;
        }
        done += (size_t)n;
    }
    if (text)
        text[p->n] = 0;
    return text;
}
