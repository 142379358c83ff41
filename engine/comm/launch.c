/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of launchers, and Slurm's way of writing lists of hosts.
 */
#include "engine/comm/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/num.h"
#include "engine/comm/comm.h"

struct launcher {
    const char *rank, *size, *host;
    bool lists_hosts; /* Slurm's notation, of which the first is meant */
};

static const struct launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "MASTER_ADDR", false},
    {"LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", true},
};

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static int env_int(const char *name, int64_t lo, int64_t hi, int *out, struct err *e)
{
    int64_t v;
    if (num_int(env(name), lo, hi, &v, e))
        return err_wrap(e, "%s", name);
    *out = (int)v;
    return 0;
}

/* Of a list the first: "n[03-07,9]-ib,m2" begins with n03-ib. False: it is too long. */
static bool put_host(struct comm_launch *l, const char *host, bool is_list)
{
    size_t at = 0;
    for (const char *p = host; *p && !(is_list && *p == ','); p++) {
        bool opens = is_list && *p == '[';
        size_t n = opens ? strcspn(p + 1, "-,]") : 1;
        if (at + n >= sizeof l->host)
            return false;
        memcpy(l->host + at, p + opens, n);
        at += n;
        if (opens)
            p += strcspn(p, "]");
        if (!*p)
            break;
    }
    l->host[at] = 0;
    return true;
}

/* Jobs that share a node want ports of their own. */
static int slurm_port(void)
{
    const char *job = env("SLURM_JOB_ID"), *step = env("SLURM_STEP_ID");
    unsigned long n = job ? strtoul(job, NULL, 10) * 16 : 0;
    n += step ? strtoul(step, NULL, 10) : 0;
    return 20000 + (int)(n % 12000);
}

static int read_place(struct comm_launch *l, const struct launcher *by, struct err *e)
{
    const char *host = env("MASTER_ADDR") ? env("MASTER_ADDR") : env(by->host);
    if (env_int(by->size, 1, COMM_RANK_MAX, &l->size, e) ||
        env_int(by->rank, 0, l->size - 1, &l->rank, e))
        return -1;
    if (l->size == 1)
        return 0;
    if (!host)
        return err_set(e, ERR_BAD_INPUT, "%s=%d: MASTER_ADDR must say where rank 0 is", by->size,
                       l->size);
    if (!put_host(l, host, by->lists_hosts && !env("MASTER_ADDR")))
        return err_set(e, ERR_BAD_INPUT, "%s: a host's name has at most %d bytes",
                       env("MASTER_ADDR") ? "MASTER_ADDR" : by->host, COMM_HOST_BYTES - 1);
    l->port = by->lists_hosts ? slurm_port() : COMM_PORT;
    if (env("MASTER_PORT") && env_int("MASTER_PORT", 1, 65535, &l->port, e))
        return -1;
    l->secret_file = env("MASTER_SECRET_FILE");
    l->plug = "tcp";
    l->by = by->size;
    return 0;
}

int comm_launch_read(struct comm_launch *l, struct err *e)
{
    static const char *const mpi[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"};
    *l = (struct comm_launch){.size = 1};
    for (size_t i = 0; i < sizeof mpi / sizeof *mpi; i++)
        if (env(mpi[i])) {
            l->plug = "mpi";
            l->by = mpi[i];
            return 0;
        }
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (env(launchers[i].rank) && env(launchers[i].size))
            return read_place(l, &launchers[i], e);
    return 0;
}
