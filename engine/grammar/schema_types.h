/* SPDX-License-Identifier: Apache-2.0
 *
 * Which types of values a subschema can admit, told without reading it whole: those it does admit
 * are among them. Who writes a value without quotes and who reads it ask here, so that both take
 * the same text for the same value.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAMMAR_SCHEMA_TYPES_H
#define ENGINE_GRAMMAR_SCHEMA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/template/jvalue.h"

enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_NUMBER = 4,
    TYPE_STRING = 8,
    TYPE_ARRAY = 16,
    TYPE_OBJECT = 32,
    TYPE_ALL = 63
};

/* Of a name as "string", 0: it is none; of a value. */
uint32_t schema_type_named(const struct jvalue *name);
uint32_t schema_type_of(const struct jvalue *v);

/* The values that `const` and `enum` list; 0: none are. */
size_t schema_listed(const struct jvalue *v, const struct jvalue **at);

/* What a subschema's own `type`, `enum` and `const` leave. */
uint32_t schema_types_said(const struct jvalue *v);

/* Of the member `name` of an object of the schema: what its references and alternatives say, too.
 * All where the schema (NULL) has no such member among its `properties`. */
uint32_t schema_types_of_member(const struct jvalue *root, const char *name, size_t n);

#endif
