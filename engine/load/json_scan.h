/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict reading of JSON text that comes before any tree is built (json.c); RFC 8259 with the
 * caller's rules on size, depth, number of values, NUL and numbers. It recurses no deeper than
 * JSON_SCAN_DEPTH and allocates only to note strings that hold a NUL.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_JSON_SCAN_H
#define ENGINE_LOAD_JSON_SCAN_H

#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/load/json.h"

#define JSON_SCAN_DEPTH 64

/* A string value that holds a NUL: cJSON would lose its length. */
struct json_nul {
    size_t node; /* which value of the text, counted from 1 in document order */
    size_t len;  /* decoded bytes */
};

/* Fills `nul` (an initialised buf) with struct json_nul in document order; NULL when the rules do
 * not allow them. */
int json_scan(const char *text, size_t len, const char *name, const struct json_rules *r,
              struct buf *nul, struct err *e);

/* Past white space; never past end. */
const char *json_skip_space(const char *p, const char *end);

#endif
