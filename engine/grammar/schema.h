/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Schema, draft 2020-12, as a program: for the files of its compiler.
 *
 * A *goal* is a set of subschemas that must hold together (a property that several parts of an
 * allOf describe). Each goal becomes one rule, so recursion in the schema is recursion in the
 * program. The keywords of a goal are collected into *facts*, one for each way through its anyOfs;
 * facts become values: per type, what bounds, patterns, items and members leave.
 *
 * The texts are a part of those that the schema admits, never more: members come in the order of
 * the schema, and where `additionalProperties` is not said beside `properties`, there are none.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_SCHEMA_H
#define ENGINE_GRAMMAR_SCHEMA_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_text.h"
#include "engine/grammar/number.h"
#include "engine/grammar/schema_types.h"

enum { SCHEMA_MAX_WAYS = 512, SCHEMA_MAX_PATTERNS = 6, SCHEMA_MAX_COUNTED = 256 };

/* A subschema and where it stands, as "#/properties/a". */
struct part {
    const struct jvalue *at;
    const char *path;
    const struct part *from; /* what led here by $ref, allOf, anyOf; NULL for the goal's own */
};

struct goal {
    LIST(struct part) part;
};

struct pattern_fact {
    const char *text; /* a regex; terminated */
    size_t len;
    bool negated, is_format;
    const char *path;
};

/* `prefixItems` and `items` of one subschema; `properties` and their like of one. */
struct array_fact {
    const struct jvalue *prefix, *items; /* NULL: not there */
    const char *path;
};

struct object_fact {
    const struct jvalue *props, *patterns, *others; /* NULL: not there */
    const char *path;
    bool is_condition; /* says nothing of other members, not even by silence */
};

struct facts {
    uint32_t types;
    const char *path;
    bool has_values;
    LIST(const struct jvalue *) value; /* enum, const */
    LIST(const struct jvalue *) no_value;
    struct number_range number;
    uint32_t min_len, max_len;
    LIST(struct pattern_fact) pattern;
    uint32_t min_items, max_items;
    bool is_unique;
    LIST(struct array_fact) array;
    uint32_t min_props, max_props;
    LIST(struct object_fact) object;
    LIST(const struct jvalue *) required; /* names */
    LIST(const struct jvalue *) forbidden;
    LIST(struct part) names; /* propertyNames */
};

/* How the members of the whole are written where they are no JSON. */
struct params {
    const struct grammar_marks *marks; /* borrowed */
    const struct jvalue *types;        /* the schema that their reader has; NULL: none */
    bool is_loose;                     /* values may be anything */
    struct dfa *names;                 /* that can be written */
    struct dfa *plain[TYPE_ALL + 1];   /* strings, by the types that may stand there */
};

struct schema {
    struct build *d;
    struct budget *b;
    struct json_text text;
    const struct jvalue *root;
    struct params *params; /* borrowed: how members of the whole are written; NULL: JSON */
    struct map goals;      /* subschemas to rule + 1 */
    struct map nots;       /* subschemas to what they do not admit */
    int n_not;             /* of those, that are being made */
    LIST(struct goal) todo;
    LIST(uint32_t) todo_rule;
};

/* schema.c */
uint32_t schema_rule(struct schema *s, struct goal *g);
void schema_rules_end(struct schema *s); /* gives all rules that were asked for */
void goal_add(struct schema *s, struct goal *g, const struct jvalue *at, const char *path);
const char *schema_path(struct schema *s, const char *path, const char *key, size_t len);
const char *schema_path_at(struct schema *s, const char *path, const char *key, size_t i);
int schema_no(struct schema *s, const char *path, const char *keyword, const char *why);
bool goal_is_never(const struct goal *g);

/* Subschemas that the schema does not spell itself. Keywords of our own are no UTF-8, so that no
 * client can write them. */
#define SCHEMA_AND                                                                                 \
    "\xff"                                                                                         \
    "and" /* a list: all of them hold */
#define SCHEMA_FORBID                                                                              \
    "\xff"                                                                                         \
    "forbid" /* a name that must not stand */
#define SCHEMA_MEMBERS                                                                             \
    "\xff"                                                                                         \
    "members" /* as `properties`, of which silence says nothing */
#define SCHEMA_VALUES                                                                              \
    "\xff"                                                                                         \
    "values" /* a list: what the value is not */
#define SCHEMA_PATTERN                                                                             \
    "\xff"                                                                                         \
    "pattern" /* a regex that is not to be found */
struct jvalue *schema_dict(struct schema *s);
struct jvalue schema_list(struct schema *s);
struct jvalue *schema_put(struct schema *s, struct jvalue *d, const char *key, struct jvalue v);
void schema_add(struct schema *s, struct jvalue *list, struct jvalue v);

/* schema_ref.c: what a $ref names; NULL with the budget's error. */
const struct jvalue *schema_ref(struct schema *s, const struct jvalue *ref, const char *path,
                                const char **target_path);
void schema_check_ids(struct schema *s); /* refuses references below a subschema's own $id */

/* schema_facts.c: the ways that a goal can be met. */
typedef LIST(struct facts) facts_list;
int schema_facts(struct schema *s, const struct goal *g, facts_list *out);

/* schema_words.c: one keyword of a subschema, but for those that lead to other subschemas. 1: it
 * is none of them. */
int schema_keyword(struct schema *s, struct facts *f, const struct part *p, const char *key,
                   const struct jvalue *v);
const char *schema_format(const char *name, size_t len); /* a regex; NULL: not known */
bool schema_is_remark(const char *key);                  /* says nothing of a value */

/* schema_oneof.c: whether no value is admitted by both. */
bool schema_disjoint(struct schema *s, const struct jvalue *x, const struct jvalue *y);
/* What, beside x, keeps a value from y; NULL: it cannot be said. */
const struct jvalue *schema_apart(struct schema *s, const struct jvalue *x, const struct jvalue *y);
/* The alternatives of a list, and those of alternatives that are nothing but a reference to more:
 * where just one of all these holds, just one of the list does. */
struct jvalue schema_flat(struct schema *s, const struct jvalue *list);

/* schema_not.c: what the subschema does not admit, or a part of it; NULL: it cannot be said. */
const struct jvalue *schema_not(struct schema *s, const struct jvalue *v);

/* Values of a type from facts; PROGRAM_FAIL: there are none. */
uint32_t schema_values(struct schema *s, const struct facts *f, uint32_t next);
uint32_t schema_string(struct schema *s, const struct facts *f, uint32_t next);
uint32_t schema_array(struct schema *s, const struct facts *f, uint32_t next);
uint32_t schema_object(struct schema *s, const struct facts *f, uint32_t next);

/* The members of an object without its brackets, as s->params has them. */
uint32_t schema_members(struct schema *s, const struct facts *f, uint32_t next);

/* schema_params.c: members that are not written as JSON. */
int params_check_name(struct schema *s, const char *path, const struct jstr *name);
struct dfa *params_names(struct schema *s, struct dfa *names); /* NULL: any; those that can be */
/* A value from behind its name to its end; name NULL: one that is not listed. */
uint32_t params_rule(struct schema *s, struct goal *g, const struct jstr *name);
uint32_t params_key(struct schema *s, const char *name, size_t n, uint32_t next);
uint32_t params_pair(struct schema *s, const struct dfa *names, uint32_t next);
uint32_t params_between(struct schema *s, uint32_t next);

/* All that the patterns and lengths leave, as an automaton. */
struct dfa *schema_texts(struct schema *s, const struct facts *f);
/* The names that propertyNames leaves. */
struct dfa *schema_names(struct schema *s, const struct facts *f);

static inline bool jv_is_text(const struct jvalue *v, const char *text)
{
    size_t n = __builtin_strlen(text);
    return v->type == JT_STR && v->s->len == n && !__builtin_memcmp(v->s->p, text, n);
}

#endif
