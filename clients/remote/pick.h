/* SPDX-License-Identifier: Apache-2.0
 *
 * What a word on the command line means: the job, file or model of that name; else the only one
 * whose id begins with it; else the only one that has it in its name (of a job, in the suffix; of a
 * file, in its file's name; of a tuned model, in what stands behind its base). A result wins over
 * its checkpoints. What several have is an error that lists them.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_PICK_H
#define CLIENTS_REMOTE_PICK_H

#include "clients/remote/remote.h"

/* The whole id of a thing of the list at `path` ("/v1/files"); free() it. NULL: e says why. */
char *pick(struct peer *p, const char *path, const char *word, struct err *e);

/* METHOD of a path such as "/v1/files/%s/content", first with the word as it is. */
int pick_ask(struct peer *p, const char *method, const char *path, const char *word,
             json_t **answer, struct err *e);

#endif
