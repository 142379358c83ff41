/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files in a model directory, and small files read whole.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_PATH_H
#define ENGINE_LOAD_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

char *path_join(const char *dir, const char *name); /* free() it */
bool path_exists(const char *dir, const char *name);

/* Whether a file's first bytes are those of a Git LFS pointer: the text that stands for a large
 * file in a folder which was cloned without them. */
bool path_is_lfs_pointer(const char *bytes, size_t n);

/* The error of such a file. */
int path_err_lfs(const char *name, struct err *e);

/* A regular file as a whole, terminated; one of more than max_bytes is refused before it is read,
 * and so is a Git LFS pointer.
 * `name` is what errors call it. mem_free() it. */
char *path_read(const char *path, const char *name, size_t max_bytes, size_t *len, struct err *e);

#endif
