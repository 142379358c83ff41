/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel counts of this process. A figure that cannot be read keeps its last value: a
 * scrape must not fail because /proc is not mounted.
 */
#include "server/metrics/metrics_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"

/* The fields of /proc/self/stat that follow the command's name, the only one with blanks in it:
 * number 3 is the first of them. */
enum { FIELD_FIRST = 3, FIELD_START = 22, FIELD_VSIZE = 23, FIELD_RSS = 24 };

static int64_t start_us(int64_t start_ticks)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    int64_t up_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    int64_t tick_us = 1000000 / sysconf(_SC_CLK_TCK);
    return clock_wall_us() - up_us + start_ticks * tick_us;
}

static void stat_read(struct metrics *m)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *p = strrchr(text, ')');
    for (int i = FIELD_FIRST; p && i < FIELD_START; i++)
        p = strchr(p + 2, ' ') ? strchr(p + 2, ' ') - 1 : NULL;
    int64_t start, vsize, rss;
    if (!p || sscanf(p + 2, "%" SCNd64 " %" SCNd64 " %" SCNd64, &start, &vsize, &rss) != 3)
        return;
    metrics_set(m, METRIC_vsize, 0, vsize);
    metrics_set(m, METRIC_rss, 0, rss * sysconf(_SC_PAGESIZE));
    if (!metrics_get(m, METRIC_start_time, 0)) /* once: the wall clock may be set later */
        metrics_set(m, METRIC_start_time, 0, start_us(start));
}

static void fds_read(struct metrics *m)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_set(m, METRIC_max_fds, 0, (int64_t)limit.rlim_cur);
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return;
    int64_t n = -1; /* the folder's own */
    for (const struct dirent *it; (it = readdir(d));)
        n += it->d_name[0] != '.';
    closedir(d);
    metrics_set(m, METRIC_fds, 0, n);
}

void metrics_process(struct metrics *m)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0)
        metrics_set(m, METRIC_cpu, 0,
                    (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
                        use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    stat_read(m);
    fds_read(m);
}
