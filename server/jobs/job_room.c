/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that a full disk paused. They are looked at each second, and go on where the disk has room
 * for what they have written before, twice, and some more. What a job is about to write nobody
 * knows: where some went on and one is paused again, they wait twice as long as before.
 */
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "server/data/data_dir.h"
#include "server/jobs/jobs_own.h"

enum { JOBS_BYTES = 16 << 20 };
static const int64_t room_least = 64 << 20, rest_least_us = 1000 * 1000,
                     rest_most_us = (int64_t)3600 * 1000 * 1000, look_us = 10 * 1000 * 1000;

/* As many as a full disk pauses, they rest once for each time that some went on. */
void jobs_stall(struct jobs *j)
{
    bool again = atomic_exchange(&j->stalled.went_on, false);
    int64_t rest = atomic_load(&j->stalled.rest_us);
    if (again || rest == 0) {
        rest *= 2;
        rest = rest < rest_least_us ? rest_least_us : rest < rest_most_us ? rest : rest_most_us;
        atomic_store(&j->stalled.rest_us, rest);
    }
    if (!atomic_exchange(&j->stalled.is_any, true) || again)
        atomic_store(&j->stalled.at_us, clock_us() + rest);
}

void jobs_unstall(struct jobs *j)
{
    atomic_store(&j->stalled.rest_us, 0);
}

static int64_t wanted(const struct jobs *j, const struct job *job)
{
    char *path = jobs_path(j->opt.dir, data_folder_name(DATA_CHECKPOINTS), job->id);
    int64_t n = fs_bytes(path);
    free(path);
    return room_least + 2 * n;
}

static int go_on(struct jobs *j, const struct job *job, struct arena *a, struct err *e)
{
    struct job_run r = {.jobs = j, .job = *job, .arena = a};
    r.job.error_code = NULL;
    log_event(LOG_INFO, "a job goes on: the disk has room", LOG_TEXT("job", job->id));
    return job_move(&r, JOB_QUEUED, 1u << JOB_PAUSED, "info",
                    "Fine-tuning job resumed: the server's disk has room", e);
}

/* Those that have room, oldest first; whether others are left. */
static bool let_go_on(struct jobs *j, int64_t room, struct arena *a, struct err *e)
{
    struct job *list;
    size_t n, n_left = 0;
    if (store_job_stalled(j->opt.store, JOB_NO_SPACE, a, &list, &n, e))
        return true;
    for (size_t i = 0; i < n; i++) {
        struct err why = ERR_INIT;
        int64_t wants = wanted(j, &list[i]);
        bool goes = wants <= room && !go_on(j, &list[i], a, &why);
        if (why.code && why.code != ERR_BUSY)
            *e = why;
        room -= goes ? wants : 0;
        n_left += !goes && why.code != ERR_BUSY;
    }
    if (n > n_left) {
        atomic_store(&j->stalled.went_on, true);
        jobs_wake(j);
    }
    return n_left > 0 || n == STORE_STALLED_MAX;
}

void jobs_look_room(struct jobs *j)
{
    struct arena a;
    struct err e = ERR_INIT;
    if (!atomic_load(&j->stalled.is_any) || clock_us() < atomic_load(&j->stalled.at_us))
        return;
    int64_t room = data_room(store_dir(j->opt.store));
    if (room < room_least)
        return;
    arena_init(&a, JOBS_BYTES);
    atomic_store(&j->stalled.is_any, false);
    if (let_go_on(j, room, &a, &e)) {
        atomic_store(&j->stalled.at_us, clock_us() + look_us);
        atomic_store(&j->stalled.is_any, true);
    }
    if (e.code) {
        log_event(LOG_ERROR, "jobs that a full disk paused stay so", LOG_TEXT("why", e.msg));
        atomic_store(&j->stalled.went_on, true);
        jobs_stall(j);
    }
    arena_release(&a);
}
