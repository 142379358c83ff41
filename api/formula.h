/* SPDX-License-Identifier: Apache-2.0
 *
 * A formula over named numbers, as a grader of several others has one: "0.5 * words + max(a, b)".
 *
 *     + - * / ^   ( )   min max (of two or more)   abs floor ceil exp sqrt log (natural)
 *
 * ^ binds tightest and to the right, so that -2^2 is -4. It is compiled once, and says where it
 * cannot be read; what it comes to may be no finite number, which whoever asks looks at.
 *
 * Thread: any; a formula is constant.
 */
#ifndef API_FORMULA_H
#define API_FORMULA_H

#include <stddef.h>

#include "engine/base/arena.h"

enum { FORMULA_BYTES_MAX = 1000 };

struct formula;

/* In the arena; NULL: why, which goes on from the formula's name ("has ..."). */
const struct formula *formula_new(struct arena *a, const char *text, size_t n,
                                  const char *const *name, size_t n_name, char *why, size_t n_why);

double formula_value(const struct formula *f, const double *value /* [n_name] */);

#endif
