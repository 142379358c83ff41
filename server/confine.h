/* SPDX-License-Identifier: Apache-2.0
 *
 * The sandbox of `tandem serve`.
 *
 * Thread: the main one, before all others.
 */
#ifndef SERVER_CONFINE_H
#define SERVER_CONFINE_H

#include "server/options.h"

struct confine {
    const char *why; /* there is no sandbox; NULL: there is */
    bool has_files, has_calls;
};

/* As --sandbox says. is_launched: this is one of several processes. */
int confine_enter(struct confine *c, const struct server_options *o, const char *model,
                  bool is_launched, struct err *e);
void confine_log(const struct confine *c);

#endif
