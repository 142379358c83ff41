/* SPDX-License-Identifier: Apache-2.0
 *
 * A test's program lies deeper in a build than the program itself, hence the levels. What this code
 * is a part of is asked of the loader: a shared library has a name there, a program none.
 */
#include "engine/base/beside.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
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

/* The file that this code is in; "": it is not known. */
static void own_path(char path[PATH_MAX])
{
    static const char here;
    struct link_map *map = NULL;
    Dl_info info;
    path[0] = 0;
    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0]) {
        if (!realpath(map->l_name, path))
            path[0] = 0;
        return;
    }
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
}

char *beside_find(const char *built, const char *installed)
{
    char dir[PATH_MAX];
    char *found = NULL;
    own_path(dir);
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
