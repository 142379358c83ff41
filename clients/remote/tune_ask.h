/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tandem tune` asks a person for where it was told nothing.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_TUNE_ASK_H
#define CLIENTS_REMOTE_TUNE_ASK_H

#include <stdint.h>

#include "clients/remote/edit.h"

struct tune_ask {
    struct edit edit;
    struct term term;    /* stderr: stdout is for the result */
    char *file, *suffix; /* owned; NULL: not asked, suffix: none is wanted */
    int64_t epochs;      /* 0: the server's to choose */
};

/* The file, the model's name and the epochs; -1: there is nobody to ask, or who was asked left. */
int tune_ask(struct tune_ask *a, struct err *e);

/* Whether a job is to be made, now that the file was looked over. */
bool tune_ask_start(struct tune_ask *a);

void tune_ask_release(struct tune_ask *a);

#endif
