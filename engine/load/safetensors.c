/* SPDX-License-Identifier: Apache-2.0
 *
 * See safetensors.h. Layout: u64 little-endian n, n bytes of header, data.
 */
#include "engine/load/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"

struct st_file {
    int fd;
    char *name; /* owned */
    uint64_t file_bytes, data_at;
    struct st_header header;
};

/* All n bytes at `at`, or an error. */
static int read_at(const struct st_file *f, uint64_t at, void *dst, size_t n, struct err *e)
{
    char *p = dst;
    while (n) {
        ssize_t got = pread(f->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "%s: read at byte %llu", f->name, (unsigned long long)at);
        if (got == 0)
            return err_set(e, ERR_IO, "%s: ends at byte %llu; it was cut while it was open",
                           f->name, (unsigned long long)at);
        p += got, at += (uint64_t)got, n -= (size_t)got;
    }
    return 0;
}

static int open_regular(struct st_file *f, const char *path, struct err *e)
{
    struct stat st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st))
        return err_sys(e, "%s", f->name);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_BAD_INPUT, "%s: not a regular file", f->name);
    f->file_bytes = (uint64_t)st.st_size;
    return 0;
}

static int read_header_len(const struct st_file *f, uint64_t *len, struct err *e)
{
    unsigned char b[8];
    char first[64];
    size_t n_first = f->file_bytes < sizeof first ? (size_t)f->file_bytes : sizeof first;
    *len = 0;
    if (read_at(f, 0, first, n_first, e))
        return -1;
    if (path_is_lfs_pointer(first, n_first))
        return path_err_lfs(f->name, e);
    if (f->file_bytes < sizeof b)
        return err_set(e, ERR_BAD_INPUT, "%s: %llu bytes are too few for a safetensors file",
                       f->name, (unsigned long long)f->file_bytes);
    memcpy(b, first, sizeof b);
    for (int i = 7; i >= 0; i--)
        *len = *len << 8 | b[i];
    if (*len > ST_MAX_HEADER_BYTES)
        return err_set(e, ERR_TOO_LARGE,
                       "%s: a header of %llu bytes, more than %d: is this a "
                       "safetensors file?",
                       f->name, (unsigned long long)*len, ST_MAX_HEADER_BYTES);
    if (*len > f->file_bytes - sizeof b)
        return err_set(e, ERR_BAD_INPUT,
                       "%s: a header of %llu bytes in a file of %llu: the file "
                       "is cut short",
                       f->name, (unsigned long long)*len, (unsigned long long)f->file_bytes);
    return 0;
}

static int read_header(struct st_file *f, struct err *e)
{
    uint64_t len;
    if (read_header_len(f, &len, e))
        return -1;
    char *text = try_alloc(len, 1, "a safetensors header", e);
    if (!text)
        return -1;
    f->data_at = 8 + len;
    int rc = read_at(f, 8, text, len, e);
    if (rc == 0)
        rc = st_header_init(&f->header, text, len, f->file_bytes - f->data_at, f->name, e);
    mem_free(text);
    return rc;
}

struct st_file *st_open(const char *path, const char *name, struct err *e)
{
    struct st_file *f = xcalloc(1, sizeof *f);
    f->name = xstrdup(name);
    if (open_regular(f, path, e) == 0 && read_header(f, e) == 0)
        return f;
    st_close(f);
    return NULL;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    st_header_release(&f->header);
    if (f->fd >= 0)
        close(f->fd);
    free(f->name);
    free(f);
}

const struct st_header *st_file_header(const struct st_file *f)
{
    return &f->header;
}

const char *st_file_name(const struct st_file *f)
{
    return f->name;
}

uint64_t st_file_bytes(const struct st_file *f)
{
    return f->file_bytes;
}

int st_read(const struct st_file *f, const struct st_tensor *t, uint64_t offset, void *dst,
            size_t n, struct err *e)
{
    ASSERT(offset <= t->end - t->begin && n <= t->end - t->begin - offset);
    if (read_at(f, f->data_at + t->begin + offset, dst, n, e))
        return err_wrap(e, "tensor %.200s", t->name);
    return 0;
}

void st_prefetch(const struct st_file *f)
{
    posix_fadvise(f->fd, 0, 0, POSIX_FADV_WILLNEED);
}
