/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host reads of a step's rows, where it cannot read them in place. The largest of every
 * row, and where log-probabilities are wanted the sum of its exponentials, are found on the device;
 * so of a row that is decoded greedily a few bytes come back, and of others all of it. The
 * log-probability of a served token is of the same kernel as that of a trained one.
 *
 * Thread: the engine's.
 */
#ifndef ENGINE_SERVE_FETCH_H
#define ENGINE_SERVE_FETCH_H

#include "engine/device/device.h"
#include "engine/op/op.h"
#include "engine/sample/samplers.h"

struct fetch {
    struct device *device; /* borrowed; NULL: the host reads the rows in place */
    int64_t cols;
    float *rows;              /* owned, of the host: [cap_out, cols] */
    struct k_best *best;      /* owned, of the host: [cap_out]; NULL: rows are no logits */
    struct k_ce_state *state; /* behind it */
    char *found;              /* owned, the device's: as best and state */
    int32_t *target;          /* behind them, the device's: [cap_out] of any token */
    size_t found_bytes, state_at;
};

int fetch_init(struct fetch *f, struct device *d, int64_t cap_out, int64_t cols, bool is_logits,
               struct err *e);
void fetch_release(struct fetch *f);

/* Logits: each task's row.logits points into out; now to where the host reads, with best and state.
 * Waits for the step. */
int fetch_tasks(struct fetch *f, const struct op_view *out, int64_t n_row, struct sample_task *task,
                int64_t n_task, struct stream *s, struct err *e);

/* All rows: out is where the host reads. Waits for the step. */
int fetch_rows(struct fetch *f, struct op_view *out, int64_t n_row, struct stream *s,
               struct err *e);

#endif
