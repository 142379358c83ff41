/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from text, strictly: the whole text is the number, in decimal, with nothing before or
 * behind it. The decimal point is a point whatever the locale. A number that does not fit is
 * refused, never clipped.
 *
 * Errors say what was found and what would do; the caller wraps in which option or field.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_NUM_H
#define ENGINE_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

int num_int(const char *text, int64_t min, int64_t max, int64_t *value, struct err *e);
int num_double(const char *text, double min, double max, double *value, struct err *e);

/* Bytes: a whole or decimal number and one of K, M, G, T (powers of 1024, upper or lower case,
 * "B" or "iB" may follow), or none for bytes: "8G", "1.5GiB", "512M", "4096". */
int num_size(const char *text, int64_t min, int64_t max, int64_t *bytes, struct err *e);

int num_bool(const char *text, bool *value, struct err *e); /* true false yes no on off 1 0 */

/* The shortest text that num_size reads back as the same: "8G", "1536M", "1000". */
enum { NUM_TEXT_BYTES = 32 };
char *num_size_text(int64_t bytes, char text[NUM_TEXT_BYTES]);

#endif
