/* SPDX-License-Identifier: Apache-2.0
 *
 * How metrics lie in memory: what metrics.c and metrics_write.c share and nobody else needs.
 *
 * A row has as many cells as its labels have values; a counter's or gauge's cell is one integer, a
 * histogram's is a count for each bound, one for what is past all bounds, and the sum. All lie one
 * behind the other in `value`.
 *
 * Thread: rows are constant; values are atomics.
 */
#ifndef SERVER_METRICS_METRICS_ROW_H
#define SERVER_METRICS_METRICS_ROW_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/metrics/metrics.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric_label {
    METRIC_LABEL_NONE,
    METRIC_LABEL_MODEL,  /* model_name: one value */
    METRIC_LABEL_REASON, /* model_name and finished_reason */
    METRIC_LABEL_GATE,   /* class */
    METRIC_LABEL_ROUTE,  /* route */
    METRIC_LABEL_HTTP,   /* route, method, status */
    METRIC_LABEL_KEY,    /* key */
    METRIC_LABEL_INFO    /* whatever metrics_text says */
};

enum { METRIC_N_REASON = 4, METRIC_N_GATE = 2, METRIC_N_METHOD = 8, METRIC_N_STATUS = 5 };
enum { METRIC_N_KEY = 64 }; /* that have cells of their own; the others share one */

/* Orders of these names are orders of cells. */
extern const char *const metric_reason_name[METRIC_N_REASON];
extern const char *const metric_gate_name[METRIC_N_GATE];
extern const char *const metric_method_name[METRIC_N_METHOD];
extern const char *const metric_status_name[METRIC_N_STATUS];

struct metric_measure {
    bool is_micro;
    size_t n_bound;
    int64_t bound[METRICS_BOUNDS_MAX]; /* rising; a value falls under the first not below it */
};

struct metric_row {
    enum metric_kind kind;
    enum metric_label label;
    const struct metric_measure *measure;
    const char *name, *alias, *help;
};

extern const struct metric_row metric_row[METRIC_COUNT];

struct metrics {
    const char *const *route; /* borrowed */
    size_t n_route;
    char *_Atomic key[METRIC_N_KEY]; /* owned: their names, in the order that they came */
    size_t begin[METRIC_COUNT + 1];  /* of each row's cells in value */
    _Atomic int64_t *value;          /* owned */
};

size_t metric_cell_size(enum metric id);                      /* integers of one cell */
size_t metric_cells(const struct metrics *m, enum metric id); /* how many */
const _Atomic int64_t *metric_cell(const struct metrics *m, enum metric id, size_t at);

#endif
