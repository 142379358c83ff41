/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters that clients may name: folders under one root that the operator chose. What a client
 * sends is a path under the root, or an absolute one that begins with it; the kernel resolves it
 * and refuses whatever leads out, through "..", links or a race (openat2, RESOLVE_BENEATH). Links
 * inside the root are fine: caches of models are made of them.
 *
 * Thread: any.
 */
#ifndef ENGINE_SERVE_ADAPTER_FOLDER_H
#define ENGINE_SERVE_ADAPTER_FOLDER_H

#include "engine/base/err.h"

enum { ADAPTER_FOLDER_BYTES = 32 };

/* A descriptor of root/path, and a name under which it can be read while that stays open; -1 with
 * ERR_NOT_FOUND or ERR_BAD_INPUT. Errors name `path` alone. */
int adapter_folder_open(const char *root, const char *path, char name[ADAPTER_FOLDER_BYTES],
                        struct err *e);

/* Takes a path, as that name, out of an error's text. */
void adapter_folder_hide(const char *name, struct err *e);

#endif
