/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a plug is engine/base/so.c's; here it is looked at.
 */
#include "engine/comm/plug_open.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/so.h"

const struct comm_plug *comm_plug_open(const char *name, struct err *e)
{
    char why[256];
    if (strcmp(name, comm_tcp_plug.name) == 0)
        return &comm_tcp_plug;
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
