/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of names of files.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_HUB_NAMES_H
#define CLIENTS_HUB_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct hub_names {
    char **at; /* owned */
    size_t n;
};

void hub_names_add(struct hub_names *l, const char *name); /* once: one that is there stays */
bool hub_names_has(const struct hub_names *l, const char *name);
void hub_names_release(struct hub_names *l);

#endif
