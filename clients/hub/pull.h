/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of a hub, brought into the cache: what its repository has is asked, what the model needs
 * is picked, several files come at once, and the revision is written down when all of them are
 * there.
 *
 * Thread: main only; it starts and joins its own.
 */
#ifndef CLIENTS_HUB_PULL_H
#define CLIENTS_HUB_PULL_H

#include <stdio.h>

#include "clients/hub/place.h"
#include "clients/hub/spec.h"

/* *path, to be freed: the snapshot's folder, or the one file of it that was asked for. How far it
 * is goes to `out`: a bar on a terminal, else a line for each file. */
int hub_pull(const struct hub_place *p, const struct hub_spec *s, FILE *out, char **path,
             struct err *e);

/* The same of what is in the cache, without asking anybody; ERR_NOT_FOUND: not all of it is. */
int hub_find(const struct hub_place *p, const struct hub_spec *s, char **path, struct err *e);

/* "NAME" of ORG/NAME where a path leads into a snapshot, which itself has a commit for a name; to
 * be freed; NULL: it leads elsewhere. */
char *hub_name_of(const char *path);

#endif
