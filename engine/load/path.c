/* SPDX-License-Identifier: Apache-2.0
 *
 * See path.h.
 */
#include "engine/load/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
