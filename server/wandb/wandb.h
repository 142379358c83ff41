/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs as Weights & Biases shows them: a run for each, under the job's id, with its hyperparameters
 * and the numbers that its events have.
 *
 * No job waits for them: numbers lie in a buffer with a ceiling until a thread has sent them. What
 * is not taken is sent again, later each time; what does not fit, and what is left an hour behind a
 * job's end or when the server stops, is said in the log and lost. Whoever goes on with a job, also
 * behind a kill, goes on with its run, where its lines end.
 *
 *     wandb_new -> (wandb_open -> wandb_add ... -> wandb_close) ... -> wandb_free
 *
 * Thread: a run's, one at a time; new and free one, free when all runs are closed.
 */
#ifndef SERVER_WANDB_WANDB_H
#define SERVER_WANDB_WANDB_H

#include <stdint.h>

#include "engine/base/err.h"

struct wandb;
struct wandb_run;

struct wandb_options {
    const char *project;  /* PROJECT or ENTITY/PROJECT */
    const char *key_file; /* has the key in its first line; NULL: WANDB_API_KEY is the key */
    const char *url;      /* as wandb_url takes it */
};

/* The API's address: the option's, else what Weights & Biases' own variable says, else theirs. */
const char *wandb_url(const char *option);

struct wandb *wandb_new(const struct wandb_options *o, struct err *e);
void wandb_free(struct wandb *w); /* sends what is there, for half a second at most; NULL is fine */

/* config: JSON, as wandb_write_run takes it. All texts are copied. */
struct wandb_run *wandb_open(struct wandb *w, const char *id, const char *shown,
                             const char *config);
/* The numbers of a job's event. Those of one step are a line. */
void wandb_add(struct wandb_run *r, int64_t step, const char *data);

enum wandb_end { WANDB_HALTED, WANDB_SUCCEEDED, WANDB_FAILED }; /* halted: it may go on */
void wandb_close(struct wandb_run *r, enum wandb_end end);      /* r is gone */

#endif
