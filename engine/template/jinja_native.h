/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions written in C that templates can call: filters, tests, globals and methods. Each is one
 * row of a table; the row says its parameters, and the binder (jinja_call.c) refuses what does not
 * fit before the function runs.
 *
 * Parameter lists are words parted by blanks: "width? first? blank?". A "?" marks what may be left
 * out, a final "/" forbids keywords, "*" alone passes everything unbound.
 */
#ifndef ENGINE_TEMPLATE_JINJA_NATIVE_H
#define ENGINE_TEMPLATE_JINJA_NATIVE_H

#include <stddef.h>

#include "engine/template/jvalue.h"

struct jrun;

enum { JCALL_MAX_ARGS = 6 };

struct jkwarg {
    const char *name; /* not terminated */
    size_t len;
    struct jvalue value;
};

struct jcall {
    const struct jvalue *pos;
    size_t n_pos;
    const struct jkwarg *kw;
    size_t n_kw;
    struct jvalue arg[JCALL_MAX_ARGS]; /* as the row names them; JT_MISSING when not given */
    int tag;                           /* of the row called */
};

struct jnative {
    const char *name;
    const char *params;
    /* self: what stands left of the pipe, of "is", or of the dot; nothing for globals */
    int (*fn)(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out);
    int tag; /* tells rows of one function apart */
};

/* Tables end with a row whose name is NULL; the lists of tables end with NULL. */
extern const struct jnative jfilter_text_rows[], jfilter_seq_rows[], jfilter_pick_rows[],
    jfilter_num_rows[], jtest_rows[], jglobal_rows[];
extern const struct jnative jmethod_str_rows[], jmethod_find_rows[], jmethod_dict_rows[],
    jmethod_list_rows[], jmethod_copy_rows[], jmethod_loop_rows[], jmethod_cycler_rows[];
extern const struct jnative *const jnative_filters[];
extern const struct jnative *const jnative_tests[];
extern const struct jnative *const jnative_globals[];

/* A row by name from a list of tables that ends with NULL; NULL when absent. */
const struct jnative *jnative_find(const struct jnative *const *tables, const char *name);

#endif
