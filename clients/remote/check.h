/* SPDX-License-Identifier: Apache-2.0
 *
 * A training file that the server has, looked over before a job is made of it: a job that must fail
 * is not begun, and every line that is wrong is told at once.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_CHECK_H
#define CLIENTS_REMOTE_CHECK_H

#include "clients/remote/remote.h"

/* Says on stderr what is wrong with the file `id`, which people know as `name`, line by line, or
 * how many rows and tokens it has (is_quiet: not that); 0: a job of the method may begin.
 * *is_refused: it may not. */
int check_file(struct peer *p, const char *id, const char *name, const struct json_t *method,
               bool is_quiet, bool *is_refused, struct err *e);

#endif
