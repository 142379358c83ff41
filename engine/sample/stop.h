/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop strings over a text that comes in parts. After each part one knows whether a stop string
 * stands in the text, and if not how much of the text is certain: none of it can be the begin of
 * one, so it may be shown.
 *
 * The string that counts is the first that is whole; of those that are whole at the same byte the
 * longest. That does not depend on where the text is cut into parts.
 *
 * Each string is matched by Knuth, Morris and Pratt: a byte of text costs a step per string, over
 * the whole text, whatever the strings are.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_SAMPLE_STOP_H
#define ENGINE_SAMPLE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum { STOP_MAX = 16, STOP_BYTES_MAX = 1024 };

struct stop;

struct stop_string {
    const char *p; /* borrowed for stop_new */
    size_t n;
};

/* 1 to STOP_MAX strings of 1 to STOP_BYTES_MAX bytes, which are copied. */
struct stop *stop_new(const struct stop_string *string, int n, struct err *e);
void stop_free(struct stop *s);

/* More text; true once a stop string was found, and then what follows changes nothing. A string
 * that ends in text that does not count (before the least length) is no stop, but one that begins
 * there and ends later is. */
bool stop_push(struct stop *s, const char *text, size_t n, bool counts);

/* Bytes of the text that may be shown: before what may be the begin of a string, or before the
 * string that was found. At the end of a text all of it may be. */
uint64_t stop_safe(const struct stop *s);

int stop_index(const struct stop *s);    /* the string that was found; -1: none */
uint64_t stop_end(const struct stop *s); /* of it: the byte of the text behind it */

#endif
