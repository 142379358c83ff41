/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym gives a function's address as an object's: POSIX lets it be one.
 */
#include "engine/base/so_table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_any(const char *const *files, const char **found, char *why, size_t size)
{
    void *so = NULL;
    for (size_t i = 0; files[i] && !so; i++) {
        so = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL);
        *found = files[i];
        const char *fault = so ? NULL : dlerror();
        if (i == 0)
            snprintf(why, size, "%s", fault ? fault : files[i]);
    }
    return so;
}

int so_table_fill(void *table, const struct so_row *rows, size_t n_row, const char *const *files,
                  char *why, size_t size)
{
    const char *file;
    void *so = open_any(files, &file, why, size);
    if (!so)
        return -1;
    for (size_t i = 0; i < n_row; i++) {
        void *p = dlsym(so, rows[i].name);
        if (!p) {
            snprintf(why, size, "%s lacks %s", file, rows[i].name);
            return -1;
        }
        memcpy((char *)table + rows[i].at, &p, sizeof p);
    }
    return 0;
}
