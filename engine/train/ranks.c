/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0 tells, the others wait as long as it takes.
 */
#include "engine/train/ranks.h"

#include <stdlib.h>

#include "engine/base/mem.h"

int train_broadcast(const struct train_ranks *r, void *x, size_t bytes, struct err *e)
{
    struct comm_job j = {.kind = COMM_BROADCAST, .out = x, .n = bytes, .is_patient = true};
    return r->all ? comm_run(r->all, &j, e) : 0;
}

struct end {
    int rc;
    struct err err;
};

int train_broadcast_end(const struct train_ranks *r, int rc, struct err *e)
{
    struct end end = {.rc = rc, .err = ERR_INIT};
    if (!r->all)
        return rc;
    if (rc)
        end.err = *e;
    if (train_broadcast(r, &end, sizeof end, e))
        return -1;
    return end.rc ? err_set(e, end.err.code, "%s", end.err.msg) : 0;
}

int train_agree(const struct train_ranks *r, int rc, struct err *e)
{
    struct end own = {.rc = rc, .err = ERR_INIT}, *of;
    if (!r->all)
        return rc;
    if (rc)
        own.err = *e;
    of = xcalloc((size_t)comm_size(r->all), sizeof *of);
    struct comm_job j = {
        .kind = COMM_ALL_GATHER, .in = &own, .out = of, .n = sizeof own, .is_patient = true};
    int all = comm_run(r->all, &j, e);
    for (int k = 0; k < comm_size(r->all) && !all; k++)
        if (of[k].rc)
            all = err_set(e, of[k].err.code, "%s", of[k].err.msg);
    free(of);
    return all;
}
