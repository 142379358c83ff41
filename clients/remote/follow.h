/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a job until it ends: its events come as a stream, which is begun again behind the last
 * event when it breaks off, because the server was restarted or a line was cut.
 *
 * On a terminal the newest step is a bar on stderr and other events are lines; elsewhere a step is
 * a line as well, where a hundredth of all was done since the last or a minute went by. At the end
 * the model's name, alone, goes to stdout. With --json events and job go to stdout, an object a
 * line, and nothing else.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_FOLLOW_H
#define CLIENTS_REMOTE_FOLLOW_H

#include "clients/remote/remote.h"

/* *status: 0 the job succeeded, 1 it did not, or 130 when Ctrl-C ended the watching; the job runs
 * on then. */
int follow_job(struct peer *p, const struct remote_options *o, const char *id, int *status,
               struct err *e);

#endif
