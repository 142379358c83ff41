/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a shared object is says engine/base/beside.h.
 */
#include "engine/base/so.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/beside.h"

enum { NAME_BYTES = 64 };

void *so_open_at(const char *path, bool is_global, char *why, size_t size)
{
    void *so = dlopen(path, RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!so)
        snprintf(why, size, "%s", dlerror());
    return so;
}

void *so_open(const char *name, bool is_global, char *why, size_t size)
{
    char built[NAME_BYTES], installed[NAME_BYTES];
    snprintf(built, sizeof built, "libtandem_%s.so", name);
    snprintf(installed, sizeof installed, "../lib/tandem/libtandem_%s.so", name);
    char *path = beside_find(built, installed);
    void *so = path ? so_open_at(path, is_global, why, size) : NULL;
    if (!path)
        snprintf(why, size, "it is not there (it is built where its library is found)");
    free(path);
    return so;
}
