/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a training do while rank 0 alone has something to do (it tells of a step, it
 * publishes what stands, it ends): they wait as long as it takes, and answer. So rank 0 need not
 * say beforehand what it will come to need, and nothing above knows of other ranks but where it
 * writes what is trained.
 *
 * With one rank nothing happens here.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_ASK_H
#define ENGINE_TRAIN_ASK_H

#include "engine/train/subject.h"

/* Rank 0: behind it comes what the others answer, from train_state_begin to train_state_end. */
int train_ask_state(const struct train_ranks *r, struct err *e);

/* Rank 0: all run the tuning. */
int train_ask_run(const struct train_ranks *r, struct err *e);

/* Rank 0: the others need not answer any more, and learn how it ended here (rc, *e); returns it. */
int train_ask_end(const struct train_ranks *r, int rc, struct err *e);

/* The others: until rank 0 asks for a run (*runs, where that is expected) or ends; returns how it
 * ended there. */
int train_answer(const struct train_ranks *r, struct train_subject *s, bool *runs, struct err *e);

#endif
