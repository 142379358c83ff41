/* SPDX-License-Identifier: Apache-2.0
 *
 * What was typed in earlier runs: a file of lines, "tandem/chat_history" in XDG_STATE_HOME or
 * ~/.local/state, for its owner's eyes only. A line is added as it is typed, so two runs at once
 * both keep theirs; one that begins with a space is not kept.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_HISTORY_H
#define CLIENTS_REMOTE_HISTORY_H

#include "clients/remote/edit.h"

struct history {
    char *path; /* owned; NULL: nothing is kept */
};

/* What there is goes to `edit`. -1: nothing will be kept, and why. */
int history_init(struct history *h, struct edit *edit, struct err *e);
void history_release(struct history *h);
void history_add(struct history *h, const char *line);

#endif
