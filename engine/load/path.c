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

char *path_read(const char *path, const char *name, size_t max_bytes, size_t *len, struct err *e)
{
    char *text = NULL;
    struct stat st;
    FILE *f = fopen(path, "rbe");
    if (!f || fstat(fileno(f), &st)) {
        err_sys(e, "%s", name);
    } else if (!S_ISREG(st.st_mode)) {
        err_set(e, ERR_BAD_INPUT, "%s: not a regular file", name);
    } else if ((size_t)st.st_size > max_bytes) {
        err_set(e, ERR_TOO_LARGE, "%s: more than %zu bytes", name, max_bytes);
    } else if ((text = try_alloc((size_t)st.st_size + 1, 1, name, e))) {
        *len = fread(text, 1, (size_t)st.st_size, f);
        if (ferror(f)) {
            err_sys(e, "%s", name);
            mem_free(text);
            text = NULL;
        }
    }
    if (f)
        fclose(f);
    return text;
}
