/* SPDX-License-Identifier: Apache-2.0
 *
 * Time. Durations and deadlines are of the monotonic clock, which nobody sets back; the wall clock
 * is for what people and other programs read.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

int64_t clock_ns(void);      /* monotonic */
int64_t clock_us(void);      /* monotonic */
int64_t clock_wall_us(void); /* since 1970 */

/* What a clock on the wall of this process's time zone shows, as seconds since 1970, when it is
 * utc_s seconds after 1970. */
int64_t clock_local_s(int64_t utc_s);

/* A condition whose timed waits go by the monotonic clock. False: the time (of clock_ns) came. */
void clock_cond_init(pthread_cond_t *c);
bool clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);

/* "2026-01-31T23:59:59.123Z" of a wall time; returns text. */
enum { CLOCK_TEXT_BYTES = 32 };
char *clock_text(int64_t wall_us, char text[CLOCK_TEXT_BYTES]);

#endif
