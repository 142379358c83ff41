/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_file.h.
 */
#include "engine/load/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"

enum { WINDOW_BYTES = 1 << 18, LFS_BYTES = 64 };

int gguf_file_read(const struct gguf_file *f, uint64_t at, void *dst, size_t n, struct err *e)
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

static int refuse_pointer(const struct gguf_file *f, struct err *e)
{
    char first[LFS_BYTES];
    size_t n = f->size < sizeof first ? (size_t)f->size : sizeof first;
    if (gguf_file_read(f, 0, first, n, e))
        return -1;
    return path_is_lfs_pointer(first, n) ? path_err_lfs(f->name, e) : 0;
}

static int open_regular(struct gguf_file *f, const char *path, struct err *e)
{
    struct stat st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st))
        return err_sys(e, "%s", f->name);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_BAD_INPUT, "%s: not a regular file", f->name);
    f->size = (uint64_t)st.st_size;
    f->window = try_alloc(f->size < WINDOW_BYTES ? (size_t)f->size + 1 : WINDOW_BYTES, 1,
                          "the header of a GGUF file", e);
    return f->window ? refuse_pointer(f, e) : -1;
}

struct gguf_file *gguf_file_open(const char *path, const char *name, struct err *e)
{
    struct gguf_file *f = xcalloc(1, sizeof *f);
    f->name = xstrdup(name);
    if (open_regular(f, path, e) == 0)
        return f;
    gguf_file_close(f);
    return NULL;
}

void gguf_file_close(struct gguf_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    mem_free(f->window);
    free(f->name);
    free(f);
}

void gguf_file_header_done(struct gguf_file *f)
{
    mem_free(f->window);
    f->window = NULL;
    f->window_n = 0;
}

uint64_t gguf_file_left(const struct gguf_file *f)
{
    return f->size - f->at;
}

static int fill_window(struct gguf_file *f, struct err *e)
{
    uint64_t left = gguf_file_left(f);
    size_t n = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
    f->window_n = 0;
    if (gguf_file_read(f, f->at, f->window, n, e))
        return -1;
    f->window_at = f->at;
    f->window_n = n;
    return 0;
}

int gguf_file_take(struct gguf_file *f, void *dst, size_t n, const char *what, struct err *e)
{
    char *to = dst;
    if (n > gguf_file_left(f))
        return err_set(e, ERR_BAD_INPUT,
                       "%s: %s at byte %llu takes %zu bytes, but %llu are left: the file is cut "
                       "short, or lies",
                       f->name, what, (unsigned long long)f->at, n,
                       (unsigned long long)gguf_file_left(f));
    while (n) {
        uint64_t in = f->at - f->window_at;
        if (in >= f->window_n) {
            if (fill_window(f, e))
                return -1;
            in = 0;
        }
        size_t some = f->window_n - (size_t)in < n ? f->window_n - (size_t)in : n;
        memcpy(to, f->window + in, some);
        to += some, f->at += some, n -= some;
    }
    return 0;
}
