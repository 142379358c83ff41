/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads /proc and, where there is one, the control group that a container sees as its root. A file
 * that is missing or odd bounds nothing.
 */
#include "engine/base/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first number behind `key` in a file of lines; `key` "" is the beginning. -1: there is none.
 */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    int64_t value = -1;
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    while (value < 0 && fgets(line, sizeof line, f)) {
        if (!strncmp(line, key, strlen(key)) &&
            sscanf(line + strlen(key), " %" SCNd64, &value) != 1)
            value = -1;
    }
    fclose(f);
    return value;
}

/* In whole CPUs; 0: no quota. */
static int quota_cpus(void)
{
    int64_t quota = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f)
        return 0;
    int n = fscanf(f, "%" SCNd64 " %" SCNd64, &quota, &period); /* "max 100000": none */
    fclose(f);
    return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static int cut_by_quota(int n)
{
    int quota = quota_cpus();
    return quota && quota < n ? quota : n;
}

int machine_cpus(void)
{
    cpu_set_t set;
    return cut_by_quota(sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set));
}

/* Whether no CPU with a lower number shares the core; "0,4" or "0-1" lists those that do. */
static bool leads_core(int cpu)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    int64_t first = number_in(path, "");
    return first < 0 || first == cpu;
}

static int list_cpus(int *cpu, int cap, int *n_core)
{
    cpu_set_t set;
    int n = 0;
    *n_core = 0;
    if (sched_getaffinity(0, sizeof set, &set))
        return 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int c = 0; c < CPU_SETSIZE; c++) {
            if (!CPU_ISSET(c, &set) || leads_core(c) != !pass)
                continue;
            if (n < cap)
                cpu[n] = c;
            n++;
        }
        if (!pass)
            *n_core = n;
    }
    return n < cap ? n : cap;
}

int machine_cpu_list(int *cpu, int cap)
{
    int n_core;
    return list_cpus(cpu, cap, &n_core);
}

/* When a core's first CPU is not ours but its sibling is, the core is not counted as one; if none
 * is left then, each CPU counts. */
int machine_cores(void)
{
    int n_core;
    list_cpus(NULL, 0, &n_core);
    return n_core ? cut_by_quota(n_core) : machine_cpus();
}

void machine_memory(size_t *total_bytes, size_t *free_bytes)
{
    int64_t total = number_in("/proc/meminfo", "MemTotal:") * 1024;
    int64_t left = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    int64_t max = number_in("/sys/fs/cgroup/memory.max", ""); /* "max": no bound */
    int64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    int64_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
    if (max >= 0 && max < total)
        total = max;
    if (max >= 0 && used >= 0 && max - used + (cache > 0 ? cache : 0) < left)
        left = max - used + (cache > 0 ? cache : 0);
    *total_bytes = total > 0 ? (size_t)total : 0;
    *free_bytes = left > 0 ? (size_t)left : 0;
}

/* As sched_setattr(2) has it; headers of systems differ in whether they do. */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* Linux 6.12 and later take the runtime of ordinary threads; before that it is read over. */
void machine_turns(uint64_t ns)
{
    struct attr a = {0};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER)
        return;
    a.size = sizeof a;
    a.runtime_ns = ns;
    syscall(SYS_sched_setattr, 0, &a, 0);
}
