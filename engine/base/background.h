/* SPDX-License-Identifier: Apache-2.0
 *
 * Background work and its one owner: what would hold up whoever asks for it waits here, runs on a
 * thread of its own, and has ended when its owner ends.
 *
 * Work is given to a lane. A lane has a name, runs so many tasks at once, and has room for so many
 * tasks and their bytes; past that it says no, at once. A lane of one runs its tasks one after the
 * other. A task may ask to be run again later, and keeps its room until it is done.
 *
 * Whose turn it is: tenants take turns by their weight, however many tasks each has given; a
 * tenant's own run in their order. So of what one of them gives no other one waits for more than a
 * task, or a task for each unit of weight. Of the lane's room one tenant has half at most.
 *
 * Stopping: what waits is dropped, what runs comes to its end, all threads are joined. From then on
 * nothing runs and nothing is taken. Each task that was taken is run to its end or dropped, once.
 *
 * Thread: any; background_stop and background_free by who made it. run and drop are called without
 * a lock.
 */
#ifndef ENGINE_BASE_BACKGROUND_H
#define ENGINE_BASE_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct background;

struct background_lane {
    const char *name; /* borrowed; of its threads, too: 15 bytes */
    int at_once;
    size_t max_tasks, max_bytes; /* 0: as many as come */
};

enum { BACKGROUND_DONE = 0 }; /* of run: else the clock_us at which it wants to be run again */

struct background_task {
    int64_t (*run)(void *ctx);
    void (*drop)(void *ctx); /* instead of a run, where all stops */
    void *ctx;               /* borrowed until it is done or dropped */
    size_t bytes;            /* that it holds while it waits and runs */
    uint64_t tenant;         /* 0: nobody's, who is a tenant, too, and may have all of the room */
    int32_t weight;          /* of the tenant; 0: 1 */
    bool keeps_turn;         /* to be run again means it got nothing: it is the next to be run */
};

struct background *background_new(const struct background_lane *lane, size_t n_lane, struct err *e);
int background_give(struct background *b, size_t lane, const struct background_task *t,
                    struct err *e);         /* ERR_BUSY: no room, or all stops */
void background_stop(struct background *b); /* twice is fine */
void background_free(struct background *b); /* stops, too; NULL is fine */

#endif
