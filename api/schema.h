/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes of bodies, as the published description of the API gives them: rows of schema.def, and
 * JSON Schema (2020-12) made of them.
 *
 * A type is written in a little language:
 *
 *     string integer number boolean object any null     'word'     exactly this string
 *     []T  an array of T     {}T  an object with values T     #Name  another schema     T|T  either
 *
 * [] (or [1], which holds something) and {} bind tighter than |.
 *
 * Thread: any; constant.
 */
#ifndef API_SCHEMA_H
#define API_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "api/jout.h"

struct schema_row {
    bool is_schema; /* begins one; else a member of the one before */
    const char *name, *type, *about;
    bool is_required;
};

extern const struct schema_row schema_rows[];
extern const size_t n_schema_rows;

/* The members of a schema object that a type comes to, with its description; ends no object. */
void schema_type(struct jout *j, const char *type, const char *about);

/* All of schema.def, as members of an object. */
void schema_write(struct jout *j);

#endif
