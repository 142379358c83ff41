/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_gettime in whole units, and conditions that wait by it.
 */
#include "engine/base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_us(void)
{
    return clock_ns() / 1000;
}

int64_t clock_wall_us(void)
{
    return read_ns(CLOCK_REALTIME) / 1000;
}

int64_t clock_local_s(int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;
    localtime_r(&t, &tm);
    return utc_s + tm.tm_gmtoff;
}

void clock_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

bool clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns)
{
    struct timespec at = {until_ns / 1000000000, until_ns % 1000000000};
    return pthread_cond_timedwait(c, lock, &at) == 0;
}

char *clock_text(int64_t wall_us, char text[CLOCK_TEXT_BYTES])
{
    int64_t sec = wall_us / 1000000, us = wall_us % 1000000;
    if (us < 0) { /* before 1970 */
        us += 1000000;
        sec--;
    }
    time_t t = (time_t)sec;
    struct tm tm;
    gmtime_r(&t, &tm);
    char whole[24];
    strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, CLOCK_TEXT_BYTES, "%s.%03uZ", whole, (unsigned)(us / 1000) % 1000u);
    return text;
}
