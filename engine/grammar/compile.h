/* SPDX-License-Identifier: Apache-2.0
 *
 * What the compilers of all kinds of constraints share: a budget, a builder, and the way out.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAMMAR_COMPILE_H
#define ENGINE_GRAMMAR_COMPILE_H

#include "engine/grammar/build.h"
#include "engine/grammar/grammar.h"

/* Counts that may run at once, one in another. */
enum { COMPILE_MAX_NESTED = 65535 };

/* Builds what is asked in front of the end; gives where it begins. */
typedef uint32_t compile_fn(struct build *d, const void *what);

struct grammar *compile(const struct grammar_limits *limits, compile_fn *fn, const void *what,
                        struct err *e);

/* All of an expression. */
uint32_t compile_expression(struct build *d, enum spelling how, struct node *n, uint32_t next);

/* All of a text in one of the languages; errors tell the place. */
uint32_t compile_regex_text(struct build *d, const struct grammar_text *t, uint32_t next);
uint32_t compile_gbnf_text(struct build *d, const struct grammar_text *t, uint32_t next);

/* A value that the schema admits. */
uint32_t compile_schema(struct build *d, const struct jvalue *root, bool is_compact, uint32_t next);

/* The members of an object of the schema, as the marks say; `schema` NULL: any members. `types`:
 * the schema that their reader goes by. */
uint32_t compile_params(struct build *d, const struct jvalue *schema, const struct jvalue *types,
                        const struct grammar_marks *marks, uint32_t next);

/* Free text; where it comes to the trigger `then` follows, and the end. may_end: before that too.
 */
uint32_t compile_until(struct build *d, struct grammar_text trigger, uint32_t then, bool may_end);

#endif
