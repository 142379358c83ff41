/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: what stands behind "is". Those with the name of a comparison are that comparison.
 */
#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_strops.h"

enum {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_INTEGER,
    IS_FLOAT,
    IS_NUMBER,
    IS_STRING,
    IS_MAPPING,
    IS_SEQUENCE,
    IS_ITERABLE,
    IS_CALLABLE,
    IS_ESCAPED
};

static bool is_kind(const struct jvalue *v, int tag)
{
    bool is_dict_or_list = v->type == JT_LIST || v->type == JT_TUPLE || v->type == JT_DICT;
    switch (tag) {
    case IS_DEFINED:
        return v->type != JT_UNDEFINED;
    case IS_UNDEFINED:
        return v->type == JT_UNDEFINED;
    case IS_NONE:
        return v->type == JT_NONE;
    case IS_BOOLEAN:
        return v->type == JT_BOOL;
    case IS_TRUE:
        return v->type == JT_BOOL && v->b;
    case IS_FALSE:
        return v->type == JT_BOOL && !v->b;
    case IS_INTEGER:
        return v->type == JT_INT;
    case IS_FLOAT:
        return v->type == JT_FLOAT;
    case IS_NUMBER:
        return v->type == JT_INT || v->type == JT_FLOAT || v->type == JT_BOOL;
    case IS_STRING:
        return v->type == JT_STR;
    case IS_MAPPING:
        return v->type == JT_DICT;
    case IS_SEQUENCE: /* an undefined value has a length of 0 and can be indexed, to an error */
        return is_dict_or_list || v->type == JT_STR || v->type == JT_RANGE ||
               v->type == JT_UNDEFINED;
    case IS_ITERABLE:
        return jobj_is_iterable(v);
    case IS_CALLABLE:
        return jobj_is_callable(v);
    default: /* IS_ESCAPED */
        return v->type == JT_STR && v->is_marked;
    }
}

static int test_kind(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    (void)r;
    *out = jv_bool(is_kind(&v, c->tag));
    return 0;
}

/* odd, even, divisibleby: v % n == rest, by the rules of % */
static int modulo(struct jrun *r, struct jvalue v, struct jvalue n, int64_t rest,
                  struct jvalue *out)
{
    struct jvalue mod, want = jv_int(rest);
    if (jop_arith(r, JOP_MOD, v, n, &mod))
        return -1;
    *out = jv_bool(false);
    return jop_equal(r, &mod, &want, &out->b);
}

static int test_parity(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    return modulo(r, v, jv_int(2), c->tag, out);
}

static int test_divisible(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    return modulo(r, v, c->arg[0], 0, out);
}

static int test_compare(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    *out = jv_bool(false);
    return jop_compare(r, (enum jop)c->tag, &v, &c->arg[0], &out->b);
}

static int test_case(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    return jrepr_str(r, v, &text) ? -1 : jstr_is_case(r, &text, c->tag, out);
}

/* Identity: the same object, or the same small constant. */
static int test_same(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    const struct jvalue *o = &c->arg[0];
    bool is = v.type == o->type;
    (void)r;
    if (is && v.type == JT_FLOAT)
        is = v.f == o->f;
    else if (is && v.type == JT_BOOL)
        is = v.b == o->b;
    else if (is && v.type == JT_STR)
        is = jvalue_same_key(&v, o);
    else if (is && v.type != JT_NONE)
        is = v.ptr == o->ptr;
    *out = jv_bool(is);
    return 0;
}

/* "filter" and "test": whether one of that name exists */
static int test_exists(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    const struct jnative *const *tables = c->tag ? jnative_tests : jnative_filters;
    (void)r;
    *out = jv_bool(false);
    for (; v.type == JT_STR && *tables && !out->b; tables++)
        for (const struct jnative *row = *tables; row->name && !out->b; row++)
            out->b = jtext_is(&v, row->name);
    return 0;
}

const struct jnative jtest_rows[] = {
    {"defined", "", test_kind, IS_DEFINED},
    {"undefined", "", test_kind, IS_UNDEFINED},
    {"none", "", test_kind, IS_NONE},
    {"boolean", "", test_kind, IS_BOOLEAN},
    {"true", "", test_kind, IS_TRUE},
    {"false", "", test_kind, IS_FALSE},
    {"integer", "", test_kind, IS_INTEGER},
    {"float", "", test_kind, IS_FLOAT},
    {"number", "", test_kind, IS_NUMBER},
    {"string", "", test_kind, IS_STRING},
    {"mapping", "", test_kind, IS_MAPPING},
    {"sequence", "", test_kind, IS_SEQUENCE},
    {"iterable", "", test_kind, IS_ITERABLE},
    {"callable", "", test_kind, IS_CALLABLE},
    {"escaped", "", test_kind, IS_ESCAPED},
    {"odd", "", test_parity, 1},
    {"even", "", test_parity, 0},
    {"divisibleby", "num", test_divisible, 0},
    {"sameas", "other", test_same, 0},
    {"lower", "", test_case, false},
    {"upper", "", test_case, true},
    {"filter", "", test_exists, 0},
    {"test", "", test_exists, 1},
    {"in", "seq", test_compare, JOP_IN},
    {"eq", "other", test_compare, JOP_EQ},
    {"equalto", "other", test_compare, JOP_EQ},
    {"==", "other", test_compare, JOP_EQ},
    {"ne", "other", test_compare, JOP_NE},
    {"!=", "other", test_compare, JOP_NE},
    {"lt", "other", test_compare, JOP_LT},
    {"lessthan", "other", test_compare, JOP_LT},
    {"<", "other", test_compare, JOP_LT},
    {"le", "other", test_compare, JOP_LE},
    {"<=", "other", test_compare, JOP_LE},
    {"gt", "other", test_compare, JOP_GT},
    {"greaterthan", "other", test_compare, JOP_GT},
    {">", "other", test_compare, JOP_GT},
    {"ge", "other", test_compare, JOP_GE},
    {">=", "other", test_compare, JOP_GE},
    {NULL, NULL, NULL, 0},
};
