/* SPDX-License-Identifier: Apache-2.0
 *
 * Literals of the template language, read as Python reads them.
 *
 * Thread: any.
 */
#ifndef ENGINE_TEMPLATE_JINJA_LIT_H
#define ENGINE_TEMPLATE_JINJA_LIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

/* The bytes of the float literal at p, 0 when there is none; after a dot there is none. */
size_t jlit_float(const char *p, const char *end, bool is_after_dot, double *out);
/* The bytes of the integer literal at p (decimal, 0x, 0o, 0b, underscores); 0: past 64 bits. */
size_t jlit_int(const char *p, const char *end, int64_t *out);
/* The text between the quotes with its escapes resolved; *out is s itself when it has none. */
int jlit_unescape(struct arena *a, const char *s, size_t n, const char **out, size_t *out_len,
                  struct err *e);

#endif
