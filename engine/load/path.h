/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files in a model directory.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_PATH_H
#define ENGINE_LOAD_PATH_H

#include <stdbool.h>

char *path_join(const char *dir, const char *name); /* free() it */
bool path_exists(const char *dir, const char *name);

#endif
