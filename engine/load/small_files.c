/* SPDX-License-Identifier: Apache-2.0
 *
 * Each file is written aside, so that a copy that is there is whole.
 */
#include "engine/load/small_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"

enum { COPY_BYTES = 1 << 20, SMALL_BYTES_MAX = 256 << 20 };

static bool has_end(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

static bool is_small_part(const char *name)
{
    static const char *const ends[] = {".json", ".txt", ".model", ".jinja"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (name[0] != '.' && has_end(name, ends[i]))
            return true;
    return false;
}

static int copy_bytes(FILE *in, struct aside *out, const char *name, struct err *e)
{
    char *piece = xmalloc(COPY_BYTES);
    int64_t all = 0;
    size_t n;
    int rc = 0;
    while (!rc && (n = fread(piece, 1, COPY_BYTES, in)) > 0) {
        all += (int64_t)n;
        rc = all > SMALL_BYTES_MAX
                 ? err_set(e, ERR_TOO_LARGE, "%s: more than %d bytes", name, SMALL_BYTES_MAX)
                 : aside_write(out, piece, n, e);
    }
    if (!rc && ferror(in))
        rc = err_sys(e, "%s", name);
    free(piece);
    return rc ? rc : aside_commit(out, e);
}

static int copy_file(const char *from, const char *to, const char *name, struct err *e)
{
    char *src = path_join(from, name), *dst = path_join(to, name);
    struct stat st;
    struct aside out;
    int rc = 0;
    if (stat(src, &st) == 0 && S_ISREG(st.st_mode)) {
        FILE *in = fopen(src, "rb");
        rc = in ? aside_init(&out, dst, e) : err_sys(e, "%s", src);
        if (!rc) {
            rc = copy_bytes(in, &out, name, e);
            aside_release(&out);
        }
        if (in)
            fclose(in);
    }
    free(src);
    free(dst);
    return rc;
}

/* "1_Pooling": what modules.json names stands in folders called so. */
static bool is_module(const char *name)
{
    size_t n = strspn(name, "0123456789");
    return n > 0 && name[n] == '_' && name[n + 1];
}

static int copy_all(const char *from, const char *to, struct err *e);

static int copy_module(const char *from, const char *to, const char *name, struct err *e)
{
    char *src = path_join(from, name), *dst = path_join(to, name);
    struct stat st;
    int rc = 0;
    if (stat(src, &st) == 0 && S_ISDIR(st.st_mode))
        rc = fs_mkdirs(dst, e) || copy_all(src, dst, e) || fs_sync_dir(dst, e) ? -1 : 0;
    free(src);
    free(dst);
    return rc;
}

static int copy_modules(const char *from, const char *to, struct err *e)
{
    DIR *d = opendir(from);
    struct dirent *entry;
    int rc = d ? 0 : err_sys(e, "%s", from);
    while (!rc && (entry = readdir(d)))
        if (is_module(entry->d_name))
            rc = copy_module(from, to, entry->d_name, e);
    if (d)
        closedir(d);
    return rc;
}

int small_files_copy(const char *from, const char *to, struct err *e)
{
    return copy_all(from, to, e) || (path_exists(from, "modules.json") && copy_modules(from, to, e))
               ? -1
               : 0;
}

static int copy_all(const char *from, const char *to, struct err *e)
{
    DIR *d = opendir(from);
    struct dirent *entry;
    int rc = d ? 0 : err_sys(e, "%s", from);
    while (!rc && d && (entry = readdir(d)))
        if (is_small_part(entry->d_name))
            rc = copy_file(from, to, entry->d_name, e);
    if (d)
        closedir(d);
    return rc;
}
