/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of metrics.def named process_*: memory, CPU time, file descriptors.
 *
 * Thread: any.
 */
#ifndef SERVER_METRICS_METRICS_PROCESS_H
#define SERVER_METRICS_METRICS_PROCESS_H

#include "server/metrics/metrics.h"

void metrics_process(struct metrics *m);

#endif
