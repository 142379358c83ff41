/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a run went: per kernel its calls, time, rates and share.
 *
 * Thread: that of the stream it watches.
 */
#ifndef CLIENTS_LOCAL_PROFILE_H
#define CLIENTS_LOCAL_PROFILE_H

#include <stdio.h>

#include "engine/device/device.h"

struct profile_row {
    int64_t n_call, ns;
    double bytes, flops;
};

struct profile {
    struct profile_row row[KERNEL_COUNT];
};

void profile_watch(struct profile *p, struct stream *s); /* from here on; p outlives s */
stream_trace_fn profile_count; /* what a stream is given to count into one */
void profile_clear(struct profile *p);
void profile_show(const struct profile *p, const char *title, FILE *to);

#endif
