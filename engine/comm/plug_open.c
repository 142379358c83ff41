/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug lies in the program's folder, in a folder above it (a test's program lies deeper in the
 * same build), or in ../lib/tandem (an installed one).
 */
#include "engine/comm/plug_open.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/beside.h"
#include "engine/comm/comm.h"

enum { NAME_BYTES = 64 };

/* What launchers leave in the environment of those that they start together. */
bool comm_is_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

static void *open_so(const char *name, char *why, size_t size)
{
    char built[NAME_BYTES], installed[NAME_BYTES];
    snprintf(built, sizeof built, "libtandem_%s.so", name);
    snprintf(installed, sizeof installed, "../lib/tandem/libtandem_%s.so", name);
    char *path = beside_find(built, installed);
    void *so = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL; /* MPI's parts look for it */
    if (path && !so)
        snprintf(why, size, "%s", dlerror());
    free(path);
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
