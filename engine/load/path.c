/* SPDX-License-Identifier: Apache-2.0
 *
 * See path.h.
 */
#include "engine/load/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"

char *path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

bool path_exists(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool has = access(path, F_OK) == 0;
    free(path);
    return has;
}

bool path_is_lfs_pointer(const char *bytes, size_t n)
{
    static const char first[] = "version https://git-lfs.github.com/spec/v1";
    return n >= sizeof first - 1 && memcmp(bytes, first, sizeof first - 1) == 0;
}

int path_err_lfs(const char *name, struct err *e)
{
    return err_set(
        e, ERR_BAD_INPUT,
        "%s: a Git LFS pointer stands in place of the file; `git lfs pull` in the model's "
        "folder fetches it",
        name);
}

char *path_read(const char *path, const char *name, size_t max_bytes, size_t *len, struct err *e)
{
    char *text = NULL;
    struct stat st;
    struct err why = ERR_INIT;
    int fd = fs_open(path, &why);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    if (!f && why.code == ERR_BAD_INPUT) {
        err_set(e, ERR_BAD_INPUT, "%s: not a regular file", name);
    } else if (!f || fstat(fileno(f), &st)) {
        err_sys(e, "%s", name);
    } else if ((size_t)st.st_size > max_bytes) {
        err_set(e, ERR_TOO_LARGE, "%s: more than %zu bytes", name, max_bytes);
    } else if ((text = try_alloc((size_t)st.st_size + 1, 1, name, e))) {
        *len = fread(text, 1, (size_t)st.st_size, f);
        bool is_pointer = path_is_lfs_pointer(text, *len);
        if (ferror(f))
            err_sys(e, "%s", name);
        else if (is_pointer)
            path_err_lfs(name, e);
        if (ferror(f) || is_pointer) {
            mem_free(text);
            text = NULL;
        }
    }
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return text;
}
