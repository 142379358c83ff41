/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that is not there is the path's fault.
 */
#include "server/desk/tuning.h"

int tuning_job(struct errand *t, struct job *job, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_job_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, job, &why))
        return 0;
    errand_fail(&why, e);
    return -1;
}
