/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is not there is a field's fault, a job that is not there the path's.
 */
#include "server/desk/tuning.h"

#include <string.h>
#include <time.h>

int tuning_job(struct errand *t, struct job *job, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_job_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, job, &why))
        return 0;
    errand_fail(&why, e);
    return -1;
}

int tuning_file(struct errand *t, const char *id, const char *param, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row f;
    int rc = store_file_get(desk_store(t->desk), t->ask->who->name, id, &t->arena, &f, &why);
    if (rc && why.code != ERR_NOT_FOUND)
        return errand_fail(&why, e);
    if (rc || (f.expires && f.expires <= (int64_t)time(NULL)))
        return api_fail(e, 400, "file_not_found", param, "There is no file with this id.");
    if (strcmp(f.purpose, "fine-tune") != 0)
        return api_fail(e, 400, "invalid_file_purpose", param,
                        "The file was uploaded with the purpose '%.32s'; 'fine-tune' is needed.",
                        f.purpose);
    return 0;
}
