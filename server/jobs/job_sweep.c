/* SPDX-License-Identifier: Apache-2.0
 *
 * What jobs left in folders: the state of trainings that will not go on, since their jobs have
 * ended, and models whose rows are gone, or never came, because a server was killed beside them.
 * Looked for whenever the job thread has nothing better to do. What has no job's name is not ours.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/jobs/jobs_own.h"

#define JOB_PREFIX "ftjob-"

/* Folders are named JOB, or JOB-step-N. */
static int is_left(struct jobs *j, const char *folder, const char *name, bool *left, struct err *e)
{
    bool is_model = strcmp(folder, "checkpoints") != 0, has = false;
    const char *step = strstr(name, "-step-");
    char *job = xstrndup(name, step ? (size_t)(step - name) : strlen(name));
    int rc = store_job_is_over(j->opt.store, job, left, e);
    free(job);
    if (rc || !*left || !is_model)
        return rc;
    rc = store_tuned_has(j->opt.store, name, &has, e);
    *left = !has;
    return rc;
}

static int sweep_one(struct jobs *j, const char *folder, const char *name, struct err *e)
{
    bool left;
    if (strncmp(name, JOB_PREFIX, strlen(JOB_PREFIX)) != 0)
        return 0;
    if (is_left(j, folder, name, &left, e))
        return -1;
    if (!left)
        return 0;
    char *path = jobs_path(j->opt.dir, folder, name);
    int rc = fs_remove_tree(path, e);
    free(path);
    return rc;
}

static void sweep(struct jobs *j, const char *folder)
{
    struct err e = ERR_INIT;
    char *path = jobs_path(j->opt.dir, folder, "");
    DIR *dir = opendir(path);
    struct dirent *entry;
    int rc = 0;
    while (!rc && dir && (entry = readdir(dir)) != NULL)
        rc = sweep_one(j, folder, entry->d_name, &e);
    if (rc)
        log_event(LOG_WARN, "what an ended job left stays", LOG_TEXT("in", folder),
                  LOG_TEXT("why", e.msg));
    if (dir)
        closedir(dir);
    free(path);
}

void jobs_sweep(struct jobs *j)
{
    sweep(j, "checkpoints");
    sweep(j, "adapters");
    sweep(j, "models");
}
