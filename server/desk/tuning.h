/* SPDX-License-Identifier: Apache-2.0
 *
 * What the errands of fine-tuning look up alike: the job of the path, and what models take.
 *
 * Thread: the desk's.
 */
#ifndef SERVER_DESK_TUNING_H
#define SERVER_DESK_TUNING_H

#include "api/job.h"
#include "server/desk/desk.h"

/* The asker's job that the path names; -1 with a 404. */
int tuning_job(struct errand *t, struct job *job, struct api_error *e);

/* Of all models that jobs of the asker made, as their files are. */
int tuning_models_bytes(struct errand *t, int64_t *bytes, struct err *e);

#endif
