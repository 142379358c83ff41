/* SPDX-License-Identifier: Apache-2.0
 *
 * See safetensors.h. Layout: u64 little-endian n, n bytes of header, data.
 */
#include "engine/load/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/disk_file.h"

struct st_file {
    struct disk_file disk;
    uint64_t data_at;
    struct st_header header;
};

static int read_header_len(const struct st_file *f, uint64_t *len, struct err *e)
{
    unsigned char b[8];
    *len = 0;
    if (f->disk.bytes < sizeof b)
        return err_set(e, ERR_BAD_INPUT, "%s: %llu bytes are too few for a safetensors file",
                       f->disk.name, (unsigned long long)f->disk.bytes);
    if (disk_file_read(&f->disk, 0, b, sizeof b, e))
        return -1;
    for (int i = 7; i >= 0; i--)
        *len = *len << 8 | b[i];
    if (*len > ST_MAX_HEADER_BYTES)
        return err_set(e, ERR_TOO_LARGE,
                       "%s: a header of %llu bytes, more than %d: is this a "
                       "safetensors file?",
                       f->disk.name, (unsigned long long)*len, ST_MAX_HEADER_BYTES);
    if (*len > f->disk.bytes - sizeof b)
        return err_set(e, ERR_BAD_INPUT,
                       "%s: a header of %llu bytes in a file of %llu: the file "
                       "is cut short",
                       f->disk.name, (unsigned long long)*len, (unsigned long long)f->disk.bytes);
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
    int rc = disk_file_read(&f->disk, 8, text, len, e);
    if (rc == 0)
        rc = st_header_init(&f->header, text, len, f->disk.bytes - f->data_at, f->disk.name, e);
    mem_free(text);
    return rc;
}

struct st_file *st_open(const char *path, const char *name, struct err *e)
{
    struct st_file *f = xcalloc(1, sizeof *f);
    if (disk_file_init(&f->disk, path, name, e) == 0 && read_header(f, e) == 0)
        return f;
    st_close(f);
    return NULL;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    st_header_release(&f->header);
    disk_file_release(&f->disk);
    free(f);
}

const struct st_header *st_file_header(const struct st_file *f)
{
    return &f->header;
}

const char *st_file_name(const struct st_file *f)
{
    return f->disk.name;
}

uint64_t st_file_bytes(const struct st_file *f)
{
    return f->disk.bytes;
}

int st_read(const struct st_file *f, const struct st_tensor *t, uint64_t offset, void *dst,
            size_t n, struct err *e)
{
    ASSERT(offset <= t->end - t->begin && n <= t->end - t->begin - offset);
    if (disk_file_read(&f->disk, f->data_at + t->begin + offset, dst, n, e))
        return err_wrap(e, "tensor %.200s", t->name);
    return 0;
}

void st_prefetch(const struct st_file *f)
{
    posix_fadvise(f->disk.fd, 0, 0, POSIX_FADV_WILLNEED);
}

void st_prefix(struct st_file *f, const char *prefix)
{
    st_header_prefix(&f->header, prefix);
}
