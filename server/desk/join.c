/* SPDX-License-Identifier: Apache-2.0
 *
 * A part is read while it is copied, and what it was is known behind its last byte: a file of a
 * part that is altered is never committed.
 */
#include "server/desk/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "server/data/data_dir.h"

enum { PIECE_BYTES = 256 << 10 };

int join_begin(struct join *j, struct desk *d, const char *file, const struct part **part, size_t n,
               int64_t bytes, struct err *e)
{
    char *path = desk_file_path(d, file);
    *j = (struct join){.dir = store_dir(desk_store(d)), .part = part, .n = n, .fd = -1};
    j->file.fd = -1;
    sha256_init(&j->hash);
    md5_init(&j->md5);
    int rc = aside_init(&j->file, path, e) || aside_reserve(&j->file, bytes, e) ? -1 : 0;
    free(path);
    return rc;
}

void join_release(struct join *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    aside_release(&j->file);
}

static int differs(const struct join *j, const char *how, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "The part %.64s is not as it was stored: %s.",
                   j->part[j->at]->id, how);
}

static int open_part(struct join *j, struct err *e)
{
    struct err why = ERR_INIT;
    j->fd = data_open(j->dir, DATA_PARTS, j->part[j->at]->id, &why);
    j->n_read = 0;
    sha256_init(&j->one);
    return j->fd >= 0                  ? 0
           : why.code == ERR_NOT_FOUND ? differs(j, "it is missing", e)
           : why.code == ERR_BAD_INPUT ? differs(j, "something else has its place", e)
                                       : err_set(e, why.code, "%s", why.msg);
}

static int end_part(struct join *j, struct err *e)
{
    const struct part *p = j->part[j->at];
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    sha256_end(&j->one, digest);
    close(j->fd);
    j->fd = -1;
    if (j->n_read != p->bytes)
        return differs(j, "its size differs", e);
    if (strcmp(sha256_text(digest, text), p->sha256) != 0)
        return differs(j, "its SHA-256 differs", e);
    j->at++;
    return 0;
}

/* A piece of the part that is open: how many bytes; 0: none is left. */
static ssize_t copy(struct join *j, char *piece, struct err *e)
{
    ssize_t n;
    do
        n = read(j->fd, piece, PIECE_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading %s", j->part[j->at]->id);
    j->n_read += n;
    if (j->n_read > j->part[j->at]->bytes)
        return differs(j, "its size differs", e);
    sha256_add(&j->one, piece, (size_t)n);
    sha256_add(&j->hash, piece, (size_t)n);
    md5_add(&j->md5, piece, (size_t)n);
    return n == 0 || !aside_write(&j->file, piece, (size_t)n, e) ? n : -1;
}

int join_step(struct join *j, int64_t most, struct err *e)
{
    char *piece = xmalloc(PIECE_BYTES);
    int rc = 0;
    while (!rc && most > 0 && j->at < j->n) {
        if (j->fd < 0 && (rc = open_part(j, e)))
            break;
        ssize_t n = copy(j, piece, e);
        rc = n < 0 ? -1 : n == 0 ? end_part(j, e) : 0;
        most -= n;
    }
    free(piece);
    return rc ? -1 : j->at < j->n;
}
