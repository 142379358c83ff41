/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug lies in the program's folder, in a folder above it (a test's program lies deeper in the
 * same build), or in ../lib/tandem (an installed one).
 */
#include "engine/comm/plug_open.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/comm/comm.h"

enum { LEVELS = 5 };

/* What launchers leave in the environment of those that they start together. */
bool comm_is_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

static void *open_in(const char *dir, const char *folder, const char *name, char *why, size_t size)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%slibtandem_%s.so", dir, folder, name);
    if (access(path, R_OK))
        return NULL;
    void *so = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* an MPI opens parts that look for it */
    if (!so)
        snprintf(why, size, "%s", dlerror());
    return so;
}

static void *open_so(const char *name, char *why, size_t size)
{
    char dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    void *so = NULL;
    dir[n > 0 ? n : 0] = 0;
    for (int up = 0; up < LEVELS && !so; up++) {
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        *slash = 0;
        so = open_in(dir, "", name, why, size);
        if (!so && up == 0)
            so = open_in(dir, "../lib/tandem/", name, why, size);
    }
    return so;
}

const struct comm_plug *comm_plug_open(const char *name, struct err *e)
{
    char why[256] = "it is not there (it is built where the library is found)";
    void *so = open_so(name, why, sizeof why);
    const struct comm_plug *g = so ? dlsym(so, COMM_PLUG_SYMBOL) : NULL;
    if (so && (!g || g->abi != COMM_PLUG_ABI)) {
        snprintf(why, sizeof why, "it was made for another version of this program");
        g = NULL;
    }
    if (!g)
        err_set(e, ERR_UNSUPPORTED, "libtandem_%s.so: %s", name, why);
    return g;
}
