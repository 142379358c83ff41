/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, written into a buffer piece by piece: commas and escapes are this file's business, nesting
 * the caller's. No tree is built, so an answer of a million tokens costs its own bytes.
 *
 *     struct jout j = jout_on(buf);
 *     jout_open(&j, '{');
 *     jout_key(&j, "data");
 *     jout_open(&j, '[');
 *     jout_int(&j, 1);
 *     jout_close(&j, ']');
 *     jout_close(&j, '}');
 *
 * Texts with a length are UTF-8, which whoever made them has checked; in a string, which may be a
 * stranger's name for a file or was cut, what is not UTF-8 is replaced. A buffer that is full says
 * so at its end (buf_check), as always.
 *
 * Thread: one at a time.
 */
#ifndef API_JOUT_H
#define API_JOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

struct jout {
    struct buf *out; /* borrowed */
    bool is_behind;  /* a value stands before: a comma is due */
};

struct jout jout_on(struct buf *out);

void jout_open(struct jout *j, char bracket); /* { or [ */
void jout_close(struct jout *j, char bracket);
void jout_key(struct jout *j, const char *key); /* a value follows */

void jout_str(struct jout *j, const char *s); /* NULL: null */
void jout_bytes(struct jout *j, const char *p, size_t n);
void jout_int(struct jout *j, int64_t i);
void jout_num(struct jout *j, double x); /* shortest that reads back the same; not finite: null */
void jout_float(struct jout *j, float x);
void jout_bool(struct jout *j, bool b);
void jout_null(struct jout *j);
void jout_raw(struct jout *j, const char *json); /* a value that is JSON already */
void jout_json(struct jout *j, const char *json, size_t n);

/* A member in one call. */
void jout_put_str(struct jout *j, const char *key, const char *s);
void jout_put_bytes(struct jout *j, const char *key, const char *p, size_t n);
void jout_put_int(struct jout *j, const char *key, int64_t i);
void jout_put_num(struct jout *j, const char *key, double x);
void jout_put_bool(struct jout *j, const char *key, bool b);
void jout_put_null(struct jout *j, const char *key);
void jout_put_time(struct jout *j, const char *key, int64_t at); /* 0: null */

/* A string's text, escaped, without quotes and commas: for texts that come in pieces. */
void jout_escape(struct buf *out, const char *p, size_t n);

#endif
