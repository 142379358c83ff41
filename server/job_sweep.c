/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of trainings that will not go on: their jobs have ended, by themselves or by a request
 * while nobody worked on them. Looked for whenever the job thread has nothing better to do.
 */
#include <dirent.h>
#include <stdlib.h>

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "server/jobs_own.h"

static int sweep_one(struct jobs *j, const char *name, struct err *e)
{
    bool is_over;
    if (name[0] == '.')
        return 0;
    if (store_job_is_over(j->opt.store, name, &is_over, e))
        return -1;
    if (!is_over)
        return 0;
    char *path = jobs_path(j->opt.dir, "checkpoints", name);
    int rc = fs_remove_tree(path, e);
    free(path);
    return rc;
}

void jobs_sweep(struct jobs *j)
{
    struct err e = ERR_INIT;
    char *path = jobs_path(j->opt.dir, "checkpoints", "");
    DIR *dir = opendir(path);
    struct dirent *entry;
    int rc = 0;
    while (!rc && dir && (entry = readdir(dir)) != NULL)
        rc = sweep_one(j, entry->d_name, &e);
    if (rc)
        log_event(LOG_WARN, "checkpoints of an ended job stay", LOG_TEXT("why", e.msg));
    if (dir)
        closedir(dir);
    free(path);
}
