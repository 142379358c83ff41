/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host learns of a step's rows of logits where it cannot read them in place. Tokens are
 * taken on the device by the sampler's chain, and with them come the asked log-probabilities; their
 * sums are of the kernel that training uses, so a served log-probability has the bits of the
 * trained one. A row that cannot be done there (sample_needs_logits) comes back whole.
 *
 * Two steps may be under way, one whose answers are on their way back and the next: each has its
 * own memory of the host (a slot), and takes the device's from the one before in the order of the
 * stream. The tokens that a step drew stay on the device until the next draws, which may read them
 * before as its inputs.
 *
 * Thread: the engine's.
 */
#ifndef ENGINE_SERVE_FETCH_H
#define ENGINE_SERVE_FETCH_H

#include "engine/device/device.h"
#include "engine/op/op.h"
#include "engine/sample/samplers.h"

enum { FETCH_SLOTS = 2, FETCH_EDITS = 1 << 16 };

struct fetch {
    struct device *device; /* borrowed; NULL: the host reads the rows in place */
    int64_t cap_out, cols;
    float *rows; /* owned, of the host: [cap_out, cols] */
    struct {
        char *ask, *found; /* owned, of the host; NULL: rows are no logits */
    } slot[FETCH_SLOTS];
    char *ask, *found; /* owned, the device's */
    char *rest;        /* owned, the device's: what nobody reads afterwards */
    size_t ask_bytes, found_bytes;
};

int fetch_init(struct fetch *f, struct device *d, int64_t cap_out, int64_t cols, bool is_logits,
               struct err *e);
void fetch_release(struct fetch *f);

/* Logits: puts behind the step what finds each task's answer; its row.logits points into out, now
 * to where the host reads, or is NULL. All that a task points to is there when the stream is past
 * this. True: all tokens were drawn on the device, task i's stands at fetch_ids()[row of it]. */
bool fetch_tasks(struct fetch *f, int slot, const struct op_view *out, int64_t n_row,
                 struct sample_task *task, int64_t n_task, struct stream *s);

/* The device's: the tokens of the last step, by its rows. */
const int32_t *fetch_ids(const struct fetch *f);

/* All rows: out is where the host reads. Waits for the step. */
int fetch_rows(struct fetch *f, struct op_view *out, int64_t n_row, struct stream *s,
               struct err *e);

#endif
