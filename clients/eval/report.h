/* SPDX-License-Identifier: Apache-2.0
 *
 * Results for people, as tables of so many columns; for programs, as one JSON object; and row
 * by row, as lines of JSON. Models stand side by side, the base first.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_EVAL_REPORT_H
#define CLIENTS_EVAL_REPORT_H

#include "clients/eval/score.h"

enum { EVAL_MODELS_MAX = 4 }; /* as many as fit side by side in 80 columns */

struct eval_result {
    const char *name; /* borrowed: "base", or what the adapter is called */
    struct eval_said said;
    struct eval_verdict *verdict; /* owned: [rows] */
    struct eval_score score;
};

struct eval_report {
    const char *model, *weights, *file; /* borrowed */
    const struct eval_rows *rows;       /* borrowed */
    const struct eval_result *result;   /* borrowed: [n] */
    size_t n;
    struct eval_compare compare;
};

void eval_report_table(const struct eval_report *r, int width, struct buf *out);
void eval_report_json(const struct eval_report *r, struct buf *out);

/* A line of a row, with its end. */
int eval_report_row(const struct eval_report *r, size_t i, struct buf *out, struct err *e);

#endif
