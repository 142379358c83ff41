/* SPDX-License-Identifier: Apache-2.0
 *
 * A micro-batch of training: whole rows of tokens, packed one behind the other without padding.
 * Each row is a sequence of its own from position 0, so rows attend to themselves only and their
 * numbers do not depend on what they are packed with. Its K/V cells live as long as the step.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_RUN_PACKED_H
#define ENGINE_RUN_PACKED_H

#include "engine/model/model.h"
#include "engine/op/batch.h"

struct packed;

struct packed_options {
    int64_t cap_tok, cap_row; /* what a micro-batch may hold */
    int64_t cap_group;        /* adapter groups: 0 or 1 */
    int64_t n_top;            /* tokens that a teacher may name at a label; 0: none is asked */
    bool shares_cells;        /* one layer's cells for all: with checkpointing, which writes them
                               * again before the backward reads them */
};

struct packed *packed_new(const struct model *m, const struct packed_options *o, struct stream *s,
                          struct err *e);
void packed_free(struct packed *p);

void packed_clear(struct packed *p);

/* One row: label[i] is the id that position i must predict, -1 for none; weight[i] counts its loss
 * (NULL: 1). key tells the row's draws of dropout apart from other rows'. Fails, and adds nothing,
 * where the row does not fit or an id is not in the vocabulary. */
int packed_add(struct packed *p, const int32_t *id, const int32_t *label, const float *weight,
               int64_t n, uint64_t key, struct err *e);
/* The newest row is of two texts, of which the first has so many tokens. */
void packed_split(struct packed *p, int64_t n_first);
/* What the newest row's labels count is of some tokens each, and of all others: of the
 * cross-entropy of the label 1 - weight, of a teacher's probabilities `weight`. A label whose first
 * id is -1 stays as it is. id, mass: of each label in turn as many as it has, at most the options'
 * n_top, the label among them, and behind them an id of -1. */
void packed_teach(struct packed *p, const int32_t *id, const float *mass, double weight);
bool packed_fits(const struct packed *p, int64_t n);

/* Divides every weight by `normaliser` (the trained weight of the whole step), hands the arrays to
 * the device; what it returns stays as long as p. */
const struct batch *packed_batch(struct packed *p, double normaliser, uint64_t dropout_seed);

/* What layers with mixtures are to tell of the batch, from here on (engine/op/batch.h). */
void packed_ask_load(struct packed *p, const struct batch_balance *load);

/* Behind the forward of what packed_batch gave, before its backward: the gradients of the labels of
 * row i, as they were added, are multiplied by by[i]. For losses whose weights the forward's
 * log-probabilities decide; it holds until packed_batch or packed_clear. */
void packed_scale(struct packed *p, const float *by);

/* The same of each label: by[n_out]. */
void packed_scale_labels(struct packed *p, const float *by);

/* Behind the forward: what it found of named tokens is on its way to the host, where it stands in
 * this batch once the stream has come so far. */
void packed_fetch_top(struct packed *p);
const struct batch_top *packed_top(const struct packed *p);

int64_t packed_n_row(const struct packed *p);
int64_t packed_n_tok(const struct packed *p);
int64_t packed_n_out(const struct packed *p); /* labels */
double packed_weight(const struct packed *p); /* their sum */
size_t packed_bytes(const struct packed *p);

/* The adapter groups of the batch, for the caller to fill before packed_batch: one group over all
 * rows for each product, [n_lora]. */
struct k_lora_group *packed_lora(struct packed *p);

#endif
