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
void load_report_heading(const struct load_ask *a, const struct load_fleet_stage *s);

void load_report_row(const struct load_fleet_stage *s, const struct load_tally *t);
int load_report_json(const struct load_fleet_stage *s, const struct load_tally *t, struct err *e);

/* Faults in words, below the table. */
void load_report_faults(const struct load_tally *t);

/* As a fleet's `show`; ctx is the stage. */
void load_report_progress(void *ctx, const struct load_tally *t);
void load_report_progress_end(void);

#endif
