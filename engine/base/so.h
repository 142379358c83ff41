/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared objects of our own, which are opened where they are wanted, so that the program runs on
 * machines without the libraries behind them. libtandem_NAME.so lies in the program's folder, in a
 * folder above it (a test's program lies deeper in the same build), or in ../lib/tandem.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_SO_H
#define ENGINE_BASE_SO_H

#include <stdbool.h>
#include <stddef.h>

/* libtandem_NAME.so, which stays open; NULL: `why` says so. is_global: its library opens parts of
 * its own, which look for its names. */
void *so_open(const char *name, bool is_global, char *why, size_t size);

/* The file at `path` instead. */
void *so_open_at(const char *path, bool is_global, char *why, size_t size);

#endif
