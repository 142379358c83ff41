/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a JSON value ends, byte by byte, and whether it is one: what a text may hold is known only
 * as it comes. Nothing is kept but where in the value the text stands.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_JSON_SCAN_H
#define ENGINE_TOOLS_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum { JSON_SCAN_DEPTH_MAX = 64 };

enum json_scan_is {
    JSON_SCAN_MORE,   /* the value goes on */
    JSON_SCAN_DONE,   /* it ended with this byte */
    JSON_SCAN_BEFORE, /* it ended before it: a number */
    JSON_SCAN_BAD     /* no JSON, or nested too deep */
};

struct json_scan {
    uint64_t is_object;  /* a bit for each level */
    const char *literal; /* what is left of true, false, null */
    uint8_t state, depth, n_hex;
    bool is_key;
};

void json_scan_init(struct json_scan *s);
enum json_scan_is json_scan_byte(struct json_scan *s, char c);

static inline bool json_scan_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

#endif
