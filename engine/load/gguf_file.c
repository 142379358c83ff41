/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_file.h.
 */
#include "engine/load/gguf_file.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { WINDOW_BYTES = 1 << 18 };

int gguf_file_read(const struct gguf_file *f, uint64_t at, void *dst, size_t n, struct err *e)
{
    return disk_file_read(&f->disk, at, dst, n, e);
}

static int make_window(struct gguf_file *f, struct err *e)
{
    uint64_t bytes = f->disk.bytes;
    f->window = try_alloc(bytes < WINDOW_BYTES ? (size_t)bytes + 1 : WINDOW_BYTES, 1,
                          "the header of a GGUF file", e);
    return f->window ? 0 : -1;
}

struct gguf_file *gguf_file_open(const char *path, const char *name, struct err *e)
{
    struct gguf_file *f = xcalloc(1, sizeof *f);
    if (disk_file_init(&f->disk, path, name, e) == 0 && make_window(f, e) == 0)
        return f;
    gguf_file_close(f);
    return NULL;
}

void gguf_file_close(struct gguf_file *f)
{
    if (!f)
        return;
    disk_file_release(&f->disk);
    mem_free(f->window);
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
    return f->disk.bytes - f->at;
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
                       f->disk.name, what, (unsigned long long)f->at, n,
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
