/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a plug is engine/base/so.c's; here it is looked at.
 */
#include "engine/comm/plug_open.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/so.h"
#include "engine/comm/comm.h"

/* What launchers leave in the environment of those that they start together. */
bool comm_is_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

const struct comm_plug *comm_plug_open(const char *name, struct err *e)
{
    char why[256];
    void *so = so_open(name, true, why, sizeof why);
    const struct comm_plug *g = so ? dlsym(so, COMM_PLUG_SYMBOL) : NULL;
    if (so && (!g || g->abi != COMM_PLUG_ABI)) {
        snprintf(why, sizeof why, "it was made for another version of this program");
        g = NULL;
    }
    if (!g)
        err_set(e, ERR_UNSUPPORTED, "libtandem_%s.so: %s", name, why);
    return g;
}
