/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python's operators and conversions do with these values.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_OPS_H
#define ENGINE_TEMPLATE_JINJA_OPS_H

#include "engine/template/jinja_obj.h"
#include "engine/template/jinja_text.h"

int jop_arith(struct jrun *r, enum jop op, struct jvalue a, struct jvalue b, struct jvalue *out);
int jop_unary(struct jrun *r, bool is_neg, struct jvalue a, struct jvalue *out);
/* Any of the comparisons and in, not in. */
int jop_compare(struct jrun *r, enum jop op, const struct jvalue *a, const struct jvalue *b,
                bool *out);
int jop_equal(struct jrun *r, const struct jvalue *a, const struct jvalue *b, bool *out);
/* The number in v as a double; false when v is none. */
bool jop_number(const struct jvalue *v, double *out);
bool jop_integer(const struct jvalue *v, int64_t *out); /* of an int or a bool */

/* str(v): v itself when it is a string. */
int jrepr_str(struct jrun *r, struct jvalue v, struct jvalue *out);
void jrepr_add_str(struct jsink *s, const struct jvalue *v);  /* as str() */
void jrepr_add_repr(struct jsink *s, const struct jvalue *v); /* as repr() */

struct jjson {
    bool ensure_ascii, sort_keys;
    bool is_pretty;
    struct jvalue indent, item_sep, key_sep; /* strings */
};
int jjson_write(struct jsink *s, const struct jjson *o, const struct jvalue *v);

/* value % args and value.format(...) */
int jformat_percent(struct jrun *r, struct jvalue fmt, struct jvalue args, struct jvalue *out);
int jformat_braces(struct jrun *r, struct jvalue fmt, const struct jcall *c, struct jvalue *out);

/* Sorts items by keys of the same count, stably. */
int jsort(struct jrun *r, struct jvalue *item, struct jvalue *key, size_t n, bool is_reverse);

/* Helpers for arguments: the value, or a default when it was not given. */
int jarg_int(struct jrun *r, const struct jvalue *v, int64_t fallback, int64_t *out);
bool jarg_bool(const struct jvalue *v, bool fallback);
int jarg_str(struct jrun *r, const struct jvalue *v, const char *what); /* -1 when no string */

enum { JNUM_TEXT = 40 };
size_t jnum_float(double f, char out[JNUM_TEXT]); /* as repr(): the shortest that reads back */
size_t jnum_int(int64_t i, char out[JNUM_TEXT]);
int jnum_parse_int(const char *p, size_t n, int base, int64_t *out); /* 0; -1 no int; -2 too big */
int jnum_parse_float(const char *p, size_t n, double *out);

#endif
