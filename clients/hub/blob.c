/* SPDX-License-Identifier: Apache-2.0
 *
 * What came of an earlier try is read once for its hash. A whole that is not what its hash says was
 * either continued from something else, and is fetched once more from the beginning, or is not what
 * the hub said; it is removed.
 */
#include "clients/hub/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/hub/sha1.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/sha256.h"

enum { LOCK_WAIT_MS = 100, READ_BYTES = 256 << 10 };

struct fetch {
    struct hub_blob *b;
    int fd; /* of the incomplete file */
    int64_t have;
    bool is_sha256, was_continued;
    struct sha256 sha256;
    struct sha1 sha1;
};

int hub_blob_ask(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c, struct err *e)
{
    struct hub_said said;
    struct stat s;
    int n_try = 0;
    while (hub_http_get(h, b->path, 0, NULL, &said, e))
        if (!hub_http_again(h, &n_try, &said, e))
            return err_wrap(e, "%s", b->name);
    if (!*said.hash || said.size < 0)
        return err_set(e, ERR_IO, "%s: the hub does not say the file's hash and size", b->name);
    memcpy(b->hash, said.hash, sizeof b->hash);
    b->size = said.size;
    char *path = hub_cache_blob(c, b->hash, "");
    b->got = stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == b->size ? b->size : 0;
    free(path);
    return 0;
}

/* ---- bytes ---- */

static void hash_begin(struct fetch *f)
{
    char front[64];
    int n = snprintf(front, sizeof front, "blob %lld", (long long)f->b->size);
    sha256_init(&f->sha256);
    sha1_init(&f->sha1);
    sha1_add(&f->sha1, front, (size_t)n + 1);
}

static void hash_add(struct fetch *f, const void *p, size_t n)
{
    if (f->is_sha256)
        sha256_add(&f->sha256, p, n);
    else
        sha1_add(&f->sha1, p, n);
}

static bool is_right(struct fetch *f)
{
    uint8_t digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];
    size_t n = f->is_sha256 ? SHA256_BYTES : SHA1_BYTES;
    if (f->is_sha256)
        sha256_end(&f->sha256, digest);
    else
        sha1_end(&f->sha1, digest);
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return !strcmp(text, f->b->hash);
}

static int start_over(struct fetch *f, struct err *e)
{
    f->have = 0;
    atomic_store(&f->b->got, 0);
    hash_begin(f);
    if (ftruncate(f->fd, 0))
        return err_sys(e, "%s: emptying what came", f->b->name);
    return 0;
}

static int on_begin(void *ctx, int64_t from, struct err *e)
{
    struct fetch *f = ctx;
    if (from == f->have)
        return 0;
    return from == 0 ? start_over(f, e)
                     : err_set(e, ERR_IO, "%s: the server sends byte %lld where %lld was asked for",
                               f->b->name, (long long)from, (long long)f->have);
}

static int on_bytes(void *ctx, const void *p, size_t n, struct err *e)
{
    struct fetch *f = ctx;
    if ((uint64_t)(f->b->size - f->have) < n)
        return err_set(e, ERR_CORRUPT, "%s: the hub says %lld bytes, and more of them come",
                       f->b->name, (long long)f->b->size);
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(f->fd, (const char *)p + done, n - done, (off_t)f->have);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return err_sys(e, "%s: writing into the cache", f->b->name);
        hash_add(f, (const char *)p + done, (size_t)put);
        done += (size_t)put;
        f->have += put;
    }
    atomic_store(&f->b->got, f->have);
    return 0;
}

/* What an earlier try left is read for its hash. */
static int take_rest(struct fetch *f, const struct hub_http *h, struct err *e)
{
    struct stat s;
    ssize_t n = 1;
    hash_begin(f);
    if (fstat(f->fd, &s))
        return err_sys(e, "%s", f->b->name);
    if (s.st_size > f->b->size)
        return start_over(f, e);
    char *part = xmalloc(READ_BYTES);
    while (n > 0 && !hub_http_wait(h, 0)) {
        n = pread(f->fd, part, READ_BYTES, (off_t)f->have);
        if (n > 0) {
            hash_add(f, part, (size_t)n);
            f->have += n;
        }
    }
    free(part);
    if (n < 0)
        return err_sys(e, "%s: reading what came before", f->b->name);
    f->was_continued = f->have > 0;
    atomic_store(&f->b->got, f->have);
    return 0;
}

/* ---- a whole file ---- */

static int fetch_rest(struct fetch *f, struct hub_http *h, struct err *e)
{
    const struct hub_sink sink = {on_begin, on_bytes, f};
    int n_try = 0;
    int64_t most = f->have; /* that ever came: a server that begins anew each time has an end too */
    while (f->have < f->b->size) {
        struct hub_said said;
        int rc = hub_http_get(h, f->b->path, f->have, &sink, &said, e);
        if (!rc && f->have < f->b->size)
            rc = err_set(e, ERR_IO, "%s: %lld bytes came of %lld", f->b->name, (long long)f->have,
                         (long long)f->b->size);
        if (!rc)
            break;
        if (said.status == 416 && start_over(f, e) == 0)
            e->code = ERR_IO;
        n_try = f->have > most ? 0 : n_try;
        most = f->have > most ? f->have : most;
        if (!hub_http_again(h, &n_try, &said, e))
            return strstr(e->msg, f->b->name) ? -1 : err_wrap(e, "%s", f->b->name);
    }
    return 0;
}

static int fetch_whole(struct fetch *f, struct hub_http *h, const char *part, const char *path,
                       struct err *e)
{
    bool right = false;
    for (int i = 0; !right && i < 2; i++) {
        if (fetch_rest(f, h, e))
            return -1;
        right = is_right(f);
        if (!right && (!f->was_continued || i))
            break;
        f->was_continued = false;
        if (!right && start_over(f, e))
            return -1;
    }
    if (!right) {
        unlink(part);
        return err_set(e, ERR_CORRUPT,
                       "%s: what came is not what the hub says (%s %s): nothing of it is kept",
                       f->b->name, f->is_sha256 ? "SHA-256" : "Git's SHA-1", f->b->hash);
    }
    if (fsync(f->fd))
        return err_sys(e, "%s: writing into the cache", f->b->name);
    return fs_rename(part, path, e);
}

static int fetch_locked(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c,
                        struct err *e)
{
    struct fetch f = {.b = b, .fd = -1, .is_sha256 = strlen(b->hash) == 64};
    char *part = hub_cache_blob(c, b->hash, ".incomplete"), *path = hub_cache_blob(c, b->hash, "");
    int rc = 0;
    struct stat s;
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == b->size) {
        atomic_store(&b->got, b->size); /* another fetched it meanwhile */
        goto done;
    }
    f.fd = open(part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    rc = f.fd < 0                                                   ? err_sys(e, "making %s", part)
         : take_rest(&f, h, e) || fetch_whole(&f, h, part, path, e) ? -1
                                                                    : 0;
done:
    if (f.fd >= 0)
        close(f.fd);
    free(part);
    free(path);
    return rc;
}

int hub_blob_get(struct hub_blob *b, struct hub_http *h, const struct hub_cache *c, struct err *e)
{
    if (b->got == b->size && b->size)
        return 0;
    char *path = hub_cache_lock(c, b->hash);
    int lock;
    struct err why;
    do {
        why = (struct err)ERR_INIT;
        lock = fs_lock(path, &why);
    } while (lock < 0 && why.code == ERR_BUSY && !hub_http_wait(h, LOCK_WAIT_MS));
    free(path);
    if (lock < 0)
        return *e = why, -1;
    int rc = fetch_locked(b, h, c, e);
    close(lock);
    return rc;
}
