/* SPDX-License-Identifier: Apache-2.0
 *
 * Random letters, for ids that nobody can guess: drawn by the system, almost six bits each.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_LETTERS_H
#define ENGINE_BASE_LETTERS_H

#include <stddef.h>

#define LETTERS_MAX 64

/* n of a-z, A-Z and 0-9, and a terminator behind them. n: at most LETTERS_MAX. */
void letters_draw(char *to, size_t n);

#endif
