/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of the API's objects as a command shows it: some members of each as columns, or with
 * --json each whole.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_LIST_H
#define CLIENTS_REMOTE_LIST_H

#include "clients/remote/remote.h"

struct list_options {
    const char *path, *query;
    int64_t limit;             /* 0: all */
    const char *const *member; /* [n]: what the columns show */
    const char *const *name;   /* [n]: what stands above them */
    int n;
    const char *empty; /* said on a terminal where there are none */
};

int list_print(struct peer *p, const struct remote_options *o, const struct list_options *list,
               struct err *e);

#endif
