/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the memory of GPUs, beside copies there: what `tandem bench comm --device cuda`
 * measures.
 *
 * Thread: a rank's own.
 */
#ifndef CLIENTS_LOCAL_BENCH_COMM_DEVICE_H
#define CLIENTS_LOCAL_BENCH_COMM_DEVICE_H

#include <stdbool.h>

#include "engine/comm/comm.h"

/* One rank's part of it: bytes of the longest vector, 0: several lengths. Rank 0 prints. */
int bench_comm_device(struct comm *c, size_t bytes, bool is_json, struct err *e);

#endif
