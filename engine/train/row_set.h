/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of a dataset that have something to learn, and the batch of them that a trainer is
 * given next. An example is a row, or the two rows of a pair, which are never parted. It enters the
 * batch with its labels and with room for its log-probabilities, in one place that knows how much
 * of each there is; one with nothing to learn cannot enter. What is trained and what is validated
 * are two sets of one kind.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TRAIN_ROW_SET_H
#define ENGINE_TRAIN_ROW_SET_H

#include "engine/train/dataset.h"
#include "engine/train/trainer.h"

struct row_set {
    const struct dataset *data; /* borrowed */
    void *block;                /* owned: the arrays below */
    int64_t *usable;            /* [n] places in data of (first) rows with something to learn */
    int64_t n, n_each;          /* rows of an example */
    struct train_row *row;      /* [cap_row] the batch: n_row of them are there */
    int64_t *example;           /* [cap_row] where they come from, from 1 */
    int32_t *label;             /* [cap_tok] of all its rows, one behind the other */
    float *logprob;             /* [cap_tok] */
    float *loss;                /* [cap_tok] where a teacher spoke of a row */
    float *weight;              /* [cap_tok] where a row has a weight */
    float *reference;     /* [data->id.n] of preferences: what a trainer knows (struct train_row);
                           * [cap_tok] of samples, of the batch */
    int32_t *id;          /* [cap_tok] of samples, whose texts the set has */
    float *sampled;       /* [cap_tok] of samples */
    int64_t n_row, n_tok; /* of the batch */
    int64_t cap_row, cap_tok; /* its room: cap_row rows, be each as long as the longest */
};

/* Batches have at most `batch` examples. */
int row_set_init(struct row_set *s, const struct dataset *d, int64_t batch, struct err *e);
void row_set_release(struct row_set *s); /* a zeroed one is fine */

void row_set_clear(struct row_set *s); /* begins a batch */

/* Adds usable example i, 0 <= i < n, to the batch; false: it has no room for it. */
bool row_set_add(struct row_set *s, int64_t i);

/* Of samples: the tokens of a row's prompt; what stands behind it, place by place, and what it was
 * drawn with; how many these were, fewer than there is room for or as many. */
int64_t row_set_prompt(const struct row_set *s, int64_t i);
const char *row_set_line(const struct row_set *s, int64_t i, size_t *n); /* that it is of */
void row_set_put(struct row_set *s, int64_t i, int64_t place, int32_t id, float logprob);
void row_set_end(struct row_set *s, int64_t i, int64_t n);

/* Bytes that a set for such a dataset owns. */
size_t row_set_bytes(const struct dataset *d, int64_t batch);

#endif
