/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a file's bytes are those of its row. A piece is read at a time, so that who has other
 * things to do besides can do them between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "server/store/store_own.h"

enum { PIECE_BYTES = 256 << 10 };

static int differs(const struct store_proof *p, const char *how, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "The file %.64s is not as it was stored: %s.", p->file->id, how);
}

int store_proof_begin(struct store *s, const struct file_row *f, struct store_proof *p,
                      struct err *e)
{
    struct err why = ERR_INIT;
    *p = (struct store_proof){.file = f, .fd = data_open(&s->dir, DATA_FILES, f->id, &why)};
    sha256_init(&p->hash);
    if (p->fd >= 0)
        return 0;
    if (why.code == ERR_NOT_FOUND)
        return differs(p, "it is missing", e);
    if (why.code == ERR_BAD_INPUT)
        return differs(p, "something else has its place", e);
    return err_set(e, why.code, "%s", why.msg);
}

void store_proof_end(struct store_proof *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static int conclude(struct store_proof *p, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    if (p->n_read != p->file->bytes)
        return differs(p, "its size differs", e);
    sha256_end(&p->hash, digest);
    if (strcmp(sha256_text(digest, text), p->file->sha256) != 0)
        return differs(p, "its SHA-256 differs", e);
    return lseek(p->fd, 0, SEEK_SET) ? err_sys(e, "reading %s", p->file->id) : 0;
}

int store_proof_read(struct store_proof *p, int64_t most, struct err *e)
{
    char *piece = xmalloc(PIECE_BYTES);
    ssize_t n = 1;
    for (int64_t done = 0; n != 0 && done < most && p->n_read <= p->file->bytes;) {
        do
            n = read(p->fd, piece, PIECE_BYTES);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            break;
        sha256_add(&p->hash, piece, (size_t)n);
        p->n_read += n;
        done += n;
    }
    free(piece);
    if (n < 0)
        return err_sys(e, "reading %s", p->file->id);
    return n > 0 && p->n_read <= p->file->bytes ? 1 : conclude(p, e);
}

int store_file_open(struct store *s, const struct file_row *f, struct err *e)
{
    struct store_proof p;
    int rc = store_proof_begin(s, f, &p, e) ? -1 : 1;
    while (rc == 1)
        rc = store_proof_read(&p, PIECE_BYTES, e);
    if (rc)
        store_proof_end(&p);
    return p.fd;
}
