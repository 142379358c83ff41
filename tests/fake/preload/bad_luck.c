/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock of the wall that somebody sets, and a disk that is slow to sync. Loaded before the C
 * library (LD_PRELOAD); both go by two 64-bit integers in the file BAD_LUCK_CTL, which the test
 * maps too: seconds that the clock is off, microseconds that a sync takes more.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic int64_t off_s, sync_us;
};

static struct control *control;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("BAD_LUCK_CTL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = at == MAP_FAILED ? NULL : at;
}

/* The function behind this one; what POSIX leaves open about such pointers, dlsym settles. */
#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t which, struct timespec *t)
{
    NEXT(clock_gettime);
    int rc = next(which, t);
    if (!rc && control && which == CLOCK_REALTIME)
        t->tv_sec += atomic_load(&control->off_s);
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

static void wait_for_disk(void)
{
    int64_t us = control ? atomic_load(&control->sync_us) : 0;
    if (us > 0)
        usleep((useconds_t)us);
}

int fsync(int fd)
{
    NEXT(fsync);
    wait_for_disk();
    return next(fd);
}

int fdatasync(int fd)
{
    NEXT(fdatasync);
    wait_for_disk();
    return next(fd);
}
