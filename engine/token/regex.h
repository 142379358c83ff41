/* SPDX-License-Identifier: Apache-2.0
 *
 * The regular expressions of a tokenizer.json, compiled once with PCRE2. The files are written
 * for Oniguruma (Ruby syntax, Unicode): what it spells differently is translated, and what cannot
 * be translated is refused. A match that needs too many steps or too much memory is an error,
 * never a hang; the ceilings hold for one match.
 *
 * Thread: a regex is immutable; a regex_run belongs to one thread.
 */
#ifndef ENGINE_TOKEN_REGEX_H
#define ENGINE_TOKEN_REGEX_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct regex;
struct regex_run;

struct regex *regex_new(const char *pattern, size_t len, struct err *e);
void regex_free(struct regex *r);

struct regex_run *regex_run_new(const struct regex *r, struct err *e);
void regex_run_free(struct regex_run *m);

/* The first match in valid UTF-8 at or behind `start`: 1 with its bounds, 0 for none, -1. */
int regex_find(const struct regex *r, struct regex_run *m, const uint8_t *text, size_t len,
               size_t start, size_t *lo, size_t *hi, struct err *e);

/* The pattern in PCRE2's spelling, appended to out. */
int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *e);

#endif
