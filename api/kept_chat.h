/* SPDX-License-Identifier: Apache-2.0
 *
 * Chats that are kept: as they are shown, and the metadata that they are given later.
 *
 * Thread: any.
 */
#ifndef API_KEPT_CHAT_H
#define API_KEPT_CHAT_H

#include <stddef.h>

#include "api/error.h"
#include "api/jout.h"
#include "engine/base/arena.h"

/* The body of a change: metadata as JSON, NULL: none. */
int api_chat_mark_parse(const char *body, size_t n, struct arena *a, const char **metadata,
                        const char **ignored, struct api_error *e);

/* body: the answer as it was told, an object; metadata: JSON, NULL: none. */
void api_chat_kept_write(struct jout *j, const char *body, const char *metadata);

#endif
