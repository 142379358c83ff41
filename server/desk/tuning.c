/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that is not there is the path's fault.
 */
#include "server/desk/tuning.h"

#include <stdlib.h>

#include "engine/base/fs.h"
#include "server/jobs/jobs.h"

int tuning_job(struct errand *t, struct job *job, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_job_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, job, &why))
        return 0;
    errand_fail(&why, e);
    return -1;
}

enum { MODELS_PAGE = 1000 };

int tuning_models_bytes(struct errand *t, int64_t *bytes, struct err *e)
{
    struct store_page page = {.limit = MODELS_PAGE};
    struct job_tuned *list;
    struct arena a;
    size_t n = 0;
    bool more = true;
    int rc = 0;
    *bytes = 0;
    arena_init(&a, 0);
    while (!rc && more) {
        rc = store_tuned_list(desk_store(t->desk), t->ask->who->name, NULL, &page, &a, &list, &n,
                              &more, e);
        for (size_t i = 0; !rc && i < n; i++) {
            char *path = jobs_tuned_path(desk_options(t->desk)->dir, &list[i]);
            *bytes += fs_bytes(path);
            free(path);
        }
        page.after = !rc && n ? list[n - 1].id : NULL;
    }
    arena_release(&a);
    return rc;
}
