/* SPDX-License-Identifier: Apache-2.0
 *
 * What each row's loss was in each step: a CSV file that grows by a line for each row of a step,
 * `step,epoch,example,tokens,trained_tokens,loss`, and where wanted `logprobs`, the log-probability
 * of each trained token with every bit of it.
 *
 * It belongs to the training's state: it is on the disk before a checkpoint is, and a training that
 * goes on from a checkpoint first takes away the lines of later steps. So whatever was killed, in
 * the end each step stands there once.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_ROW_LOG_H
#define ENGINE_TRAIN_ROW_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/train/trainer.h"

struct row_log;

/* Lines of steps behind `step` are taken away. */
struct row_log *row_log_new(const char *path, int64_t step, bool has_logprobs, struct err *e);
void row_log_free(struct row_log *l); /* what was not synced may be lost; NULL is fine */

/* A row of a step that was taken, its logprob filled. */
void row_log_add(struct row_log *l, int64_t step, int64_t epoch, int64_t example,
                 const struct train_row *row);

int row_log_sync(struct row_log *l, struct err *e); /* all lines are on the disk */

#endif
