/* SPDX-License-Identifier: Apache-2.0
 *
 * What jobs left in folders: the state of trainings that will not go on, since their jobs have
 * ended, and models whose rows are gone, or never came, because a server was killed beside them.
 * Looked for where something came or ended, by one job thread that has nothing better to do. What
 * has no job's name is not ours, and what a thread still has in its hands is looked at when it lets
 * go.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/data/data_dir.h"
#include "server/jobs/jobs_own.h"

#define JOB_PREFIX "ftjob-"

/* Folders are named JOB, or JOB-step-N. */
static int is_left(struct jobs *j, enum data_folder folder, const char *name, bool *left,
                   struct err *e)
{
    bool is_model = folder != DATA_CHECKPOINTS, has = false;
    const char *step = strstr(name, "-step-");
    char *job = xstrndup(name, step ? (size_t)(step - name) : strlen(name));
    int rc = store_job_is_over(j->opt.store, job, left, e);
    *left = !rc && *left && !jobs_in_hand(j, job);
    free(job);
    if (rc || !*left || !is_model)
        return rc;
    rc = store_tuned_has(j->opt.store, name, &has, e);
    *left = !has;
    return rc;
}

static int sweep_one(struct jobs *j, enum data_folder folder, const char *name, struct err *e)
{
    const struct data_dir *d = store_dir(j->opt.store);
    const char *note = strrchr(name, '.'); /* lies beside its folder, with its name */
    bool left, is_note = note && strcmp(note, ".json") == 0;
    if (strncmp(name, JOB_PREFIX, strlen(JOB_PREFIX)) != 0)
        return 0;
    char *stem = xstrndup(name, is_note ? (size_t)(note - name) : strlen(name));
    int rc = is_left(j, folder, stem, &left, e);
    free(stem);
    if (rc || !left)
        return rc;
    if (is_note)
        return data_remove(d, folder, name, e);
    return folder == DATA_CHECKPOINTS ? data_remove_state(d, name, e)
                                      : data_remove_made(d, folder, name, e);
}

static void sweep(struct jobs *j, enum data_folder folder)
{
    struct err e = ERR_INIT;
    char *path = jobs_path(j->opt.dir, data_folder_name(folder), "");
    DIR *dir = opendir(path);
    struct dirent *entry;
    int rc = 0;
    while (!rc && dir && (entry = readdir(dir)) != NULL)
        rc = sweep_one(j, folder, entry->d_name, &e);
    if (rc)
        log_event(LOG_WARN, "what an ended job left stays",
                  LOG_TEXT("in", data_folder_name(folder)), LOG_TEXT("why", e.msg));
    if (dir)
        closedir(dir);
    free(path);
}

void jobs_sweep(struct jobs *j)
{
    pthread_mutex_lock(&j->take);
    sweep(j, DATA_CHECKPOINTS);
    sweep(j, DATA_ADAPTERS);
    sweep(j, DATA_MODELS);
    pthread_mutex_unlock(&j->take);
}
