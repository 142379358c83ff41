/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage of load: many clients in one thread over one epoll.
 *
 * Either each of `clients` sends its next request as soon as its last one ended (a closed loop), or
 * requests set out at random at `rate` a second, whoever is still waiting (an open one; `clients`
 * then bounds the connections, and a request that finds none free waits for one while its time
 * runs). A stage ends when `requests` were sent or `duration_us` is over, and the last has ended.
 *
 * Why not libcurl: a request costs three calls of the system here and no list to walk; at thousands
 * of requests a second on the machine that serves them, what the generator takes is lost to what is
 * measured.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_LOAD_FLEET_H
#define CLIENTS_LOAD_FLEET_H

#include "clients/load/ask.h"
#include "clients/load/tally.h"

enum { LOAD_FLEET_CLIENTS_MAX = 1 << 16 };

struct load_fleet_stage {
    const struct load_ask *ask;                          /* borrowed */
    uint64_t first_n;                                    /* the number of the first request */
    int64_t clients, requests;                           /* requests 0: until the time is over */
    double rate;                                         /* a second; 0: a closed loop */
    int64_t duration_us;                                 /* 0: until all were sent */
    int64_t timeout_us;                                  /* of a request */
    void (*show)(void *ctx, const struct load_tally *t); /* five times a second; NULL */
    void *ctx;
};

/* Fails when the server cannot be reached any more; what was counted until then is in t. */
int load_fleet_run(const struct load_fleet_stage *s, struct load_tally *t, struct err *e);

/* One request by itself, c->out: waits for its end. */
enum load_conn_end load_fleet_one(struct load_conn *c, int64_t timeout_us);

#endif
