/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stage came to: a row of a table for people, a line of JSON for machines, and meanwhile one
 * line of progress on a terminal.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOAD_REPORT_H
#define CLIENTS_LOAD_REPORT_H

#include "clients/load/fleet.h"

/* What was asked for, above the table. */
void report_head(const struct ask *a, const struct fleet_stage *s);

void report_row(const struct fleet_stage *s, const struct tally *t);
int report_json(const struct fleet_stage *s, const struct tally *t, struct err *e);

/* Faults in words, below the table. */
void report_faults(const struct tally *t);

/* As a fleet's `show`; ctx is the stage. */
void report_progress(void *ctx, const struct tally *t);
void report_progress_end(void);

#endif
