/* SPDX-License-Identifier: Apache-2.0
 *
 * How people name a model of the hub: ORG/NAME[@REVISION][:FILE or QUANT]. And which names of
 * files, that a hub says, may become paths of ours.
 *
 * Thread: any.
 */
#ifndef CLIENTS_HUB_SPEC_H
#define CLIENTS_HUB_SPEC_H

#include <stdbool.h>

#include "engine/base/err.h"

struct hub_spec {
    char *repo; /* owned: "ORG/NAME" */
    char *rev;  /* owned: "main" where none is named */
    char *what; /* owned: a file, or a part of a file's name; NULL: what the model needs */
};

/* After a failure, too, it may be released. */
int hub_spec_parse(struct hub_spec *s, const char *text, struct err *e);
void hub_spec_release(struct hub_spec *s);

/* Whether a word could be meant so: one slash, and nothing that only a path has. */
bool hub_spec_is_like(const char *text);

/* Whether a path leads to below where it begins, and nowhere else: no empty part, no part that
 * begins with "..", none that a terminal or a file system would not show as it is. */
bool hub_path_is_safe(const char *path);

#endif
