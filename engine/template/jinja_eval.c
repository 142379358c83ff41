/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over expressions. Every node costs one operation and one level of depth while it runs.
 */
#include "engine/template/jinja_ops.h"

static int eval_name(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    *out = jscope_get(r, n->sym);
    return out->type == JT_MISSING ? jobj_undefined_name(r, n->sym, out) : 0;
}

static int eval_list(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    enum jtype type = n->kind == JN_LIST ? JT_LIST : JT_TUPLE;
    if (jobj_list(r, type, NULL, n->list.n, out))
        return -1;
    for (size_t i = 0; i < n->list.n; i++) {
        if (jeval(r, n->list.at[i], &out->l->at[i]))
            return -1;
        out->l->n++;
    }
    return 0;
}

static int eval_dict(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jdict *d = jrun_alloc(r, 1, sizeof *d);
    if (!d)
        return -1;
    *out = (struct jvalue){.type = JT_DICT, .d = d};
    for (size_t i = 0; i < n->dict.key.n; i++) {
        struct jvalue key, v;
        if (jeval(r, n->dict.key.at[i], &key) || jeval(r, n->dict.val.at[i], &v) ||
            jobj_dict_put(r, d, key, v))
            return -1;
    }
    return 0;
}

static int eval_cond(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue test;
    if (jeval(r, n->cond.test, &test))
        return -1;
    if (jobj_is_true(&test))
        return jeval(r, n->cond.then, out);
    if (n->cond.other)
        return jeval(r, n->cond.other, out);
    return jobj_undefined_hint(r,
                               "the inline if-expression evaluated to false and no else "
                               "section was defined.",
                               out);
}

/* and, or: the first arm that decides is the value. */
static int eval_logic(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    for (size_t i = 0; i < n->list.n; i++) {
        if (jeval(r, n->list.at[i], out))
            return -1;
        if (jobj_is_true(out) == (n->kind == JN_OR))
            break;
    }
    return 0;
}

static int eval_compare(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue left, right;
    if (jeval(r, n->chain.arm.at[0], &left))
        return -1;
    for (size_t i = 1; i < n->chain.arm.n; i++) {
        bool is = false;
        if (jeval(r, n->chain.arm.at[i], &right) ||
            jop_compare(r, (enum jop)n->chain.op[i - 1], &left, &right, &is))
            return -1;
        *out = jv_bool(is);
        if (!is)
            break;
        left = right;
    }
    return 0;
}

static int eval_arith(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    if (jeval(r, n->chain.arm.at[0], out))
        return -1;
    for (size_t i = 1; i < n->chain.arm.n; i++) {
        struct jvalue left = *out, right;
        if (jeval(r, n->chain.arm.at[i], &right))
            return -1;
        r->line = n->line;
        if (jop_arith(r, (enum jop)n->chain.op[i - 1], left, right, out))
            return -1;
    }
    return 0;
}

static int eval_concat(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue v, text;
    for (size_t i = 0; i < n->list.n; i++) {
        if (jeval(r, n->list.at[i], &v) || jrepr_str(r, v, &text))
            return -1;
        if (i == 0) {
            *out = text;
            out->is_marked = false;
            continue;
        }
        struct jvalue left = *out;
        if (jtext_concat(r, &left, &text, out))
            return -1;
    }
    return 0;
}

static int eval_slice(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    const struct jnode *const part[3] = {n->slice.from, n->slice.to, n->slice.step};
    struct jvalue of, bound[3];
    if (jeval(r, n->slice.of, &of))
        return -1;
    for (int i = 0; i < 3; i++) {
        bound[i] = jv_none();
        if (part[i] && jeval(r, part[i], &bound[i]))
            return -1;
    }
    return jget_slice(r, of, bound, out);
}

static int eval_call(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue fn;
    struct jcall c = {0};
    if (jeval(r, n->call.of, &fn) || jcall_args(r, &n->call.args, NULL, &c))
        return -1;
    r->line = n->line;
    return jcall_value(r, fn, &c, out);
}

static int eval_filter(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue of;
    struct jcall c = {0};
    if (jeval(r, n->call.of, &of))
        return -1;
    if (!n->call.native)
        return jrun_fail(r, "no %s named '%s'", n->kind == JN_TEST ? "test" : "filter",
                         n->call.name->name);
    if (jcall_args(r, &n->call.args, NULL, &c))
        return -1;
    r->line = n->line;
    if (jcall_native(r, n->call.native, of, &c, out))
        return -1;
    if (n->kind == JN_TEST && n->flag)
        *out = jv_bool(!jobj_is_true(out));
    return 0;
}

static int eval_access(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jvalue of, index;
    if (n->kind == JN_ATTR)
        return jeval(r, n->attr.of, &of) ? -1 : jget_attr(r, of, n->attr.key, out);
    if (jeval(r, n->item.of, &of) || jeval(r, n->item.index, &index))
        return -1;
    return jget_item(r, of, index, out);
}

static int eval_node(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    switch ((enum jnode_kind)n->kind) {
    case JN_CONST:
        *out = n->value;
        return 0;
    case JN_NAME:
        return eval_name(r, n, out);
    case JN_LIST:
    case JN_TUPLE:
        return eval_list(r, n, out);
    case JN_DICT:
        return eval_dict(r, n, out);
    case JN_COND:
        return eval_cond(r, n, out);
    case JN_OR:
    case JN_AND:
        return eval_logic(r, n, out);
    case JN_NOT:
        if (jeval(r, n->arg, out))
            return -1;
        *out = jv_bool(!jobj_is_true(out));
        return 0;
    case JN_NEG:
    case JN_POS: {
        struct jvalue v;
        return jeval(r, n->arg, &v) ? -1 : jop_unary(r, n->kind == JN_NEG, v, out);
    }
    case JN_COMPARE:
        return eval_compare(r, n, out);
    case JN_ARITH:
        return eval_arith(r, n, out);
    case JN_CONCAT:
        return eval_concat(r, n, out);
    case JN_ATTR:
    case JN_ITEM:
        return eval_access(r, n, out);
    case JN_SLICE:
        return eval_slice(r, n, out);
    case JN_CALL:
        return eval_call(r, n, out);
    case JN_FILTER:
    case JN_TEST:
        return eval_filter(r, n, out);
    default:
        BUG("a statement in an expression");
    }
}

int jeval(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    if (jrun_pay(r, 1))
        return -1;
    if (r->depth == JRUN_MAX_DEPTH)
        return jrun_limit(r, "expressions and blocks are nested more than %d deep", JRUN_MAX_DEPTH);
    r->depth++;
    r->line = n->line;
    int bad = eval_node(r, n, out);
    r->depth--;
    return bad;
}
