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

struct list_shape {
    const char *path;
    const char *const *member; /* [n]: what the columns show */
    const char *const *name;   /* [n]: what stands above them */
    int n;
    const char *gives; /* [n]: of a table, which columns give way (clients/remote/table.h) */
    const char *empty; /* said on a terminal where there are none */
};

/* The values behind LIST_ROWS. */
struct list_values {
    struct remote_options remote;
    int64_t limit;
};

/* Options of a list that may be long. */
#define LIST_ROWS(section_)                                                                        \
    {.section = (section_),                                                                        \
     .name = "limit",                                                                              \
     .letter = 'n',                                                                                \
     .type = OPT_INT,                                                                              \
     .fallback = "20",                                                                             \
     .min = 0,                                                                                     \
     .max = 1e9,                                                                                   \
     .hint = "N",                                                                                  \
     .help = "the newest so many; 0: all",                                                         \
     .offset = offsetof(struct list_values, limit)},                                               \
        REMOTE_ROWS

/* A whole command: the newest `limit` of the list (0: all). Returns the status. */
int list_show(const struct opt *o, const struct list_shape *list, int64_t limit);

#endif
