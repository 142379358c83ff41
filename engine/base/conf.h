/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a configuration file: `name = value`, one a line. A # at the beginning of a line or
 * behind a space begins a comment. A value may stand in double quotes, which keep spaces at its
 * ends and a #; there are no escapes. Empty lines are skipped.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_CONF_H
#define ENGINE_BASE_CONF_H

#include "engine/base/err.h"

enum { CONF_MAX_BYTES = 1 << 20 };

/* name and value live until the call returns. -1 stops the reading. */
typedef int conf_fn(void *ctx, const char *name, const char *value, struct err *e);

/* Errors, the callback's too, begin with "FILE:LINE: ". */
int conf_read(const char *path, conf_fn *fn, void *ctx, struct err *e);

#endif
