/* SPDX-License-Identifier: Apache-2.0
 *
 * A test's program lies deeper in a build than the program itself, hence the levels.
 */
#include "engine/base/beside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"

enum { LEVELS = 6 };

static char *in(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *beside_find(const char *built, const char *installed)
{
    char dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    char *found = NULL;
    dir[n > 0 ? n : 0] = 0;
    for (int up = 0; up < LEVELS && !found; up++) {
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        *slash = 0;
        found = in(dir, built);
        if (!found && up == 0)
            found = in(dir, installed);
    }
    return found;
}
