/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of collectives whatever carries them: run by each rank of a group, of threads or
 * of processes. Ranks know each other's numbers, so each checks every bit by itself.
 *
 * Thread: one for each end.
 */
#ifndef TESTS_LIB_COMM_SUITE_H
#define TESTS_LIB_COMM_SUITE_H

#include "engine/comm/comm.h"

/* Everything once. 0, or -1 with what differs. lag: ranks come at different times. */
int comm_suite(struct comm *c, bool lag, struct err *e);

/* n_round all-reduces of changing length, checked. */
int comm_suite_rounds(struct comm *c, int n_round, struct err *e);

#endif
