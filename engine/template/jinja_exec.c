/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over statements. What a statement prints goes to r->out; blocks whose text is wanted as
 * a value run with a sink of their own there. A body with a scope of its own pushes one and puts
 * the old one back, whatever way it was left.
 */
#include "engine/template/jinja_ops.h"

static int assign_tuple(struct jrun *r, const struct jnode *target, struct jvalue v)
{
    struct jiter it;
    struct jvalue item;
    size_t want = target->list.n, n = 0;
    if (!jobj_is_iterable(&v))
        return jrun_fail(r, "cannot unpack non-iterable %s object", jobj_type(&v));
    if (jiter_begin(r, v, &it))
        return -1;
    int got;
    while ((got = jiter_next(r, &it, &item)) > 0) {
        if (n == want)
            return jrun_fail(r, "too many values to unpack (expected %zu)", want);
        if (jassign(r, target->list.at[n++], item))
            return -1;
    }
    if (got == 0 && n < want)
        return jrun_fail(r, "not enough values to unpack (expected %zu, got %zu)", want, n);
    return got;
}

int jassign(struct jrun *r, const struct jnode *target, struct jvalue v)
{
    struct jvalue ns;
    switch ((enum jnode_kind)target->kind) {
    case JN_NAME:
        return jscope_set(r, target->sym, v);
    case JN_TUPLE:
        return assign_tuple(r, target, v);
    default: /* JN_NSREF */
        if (jeval(r, target->attr.of, &ns))
            return -1;
        if (ns.type != JT_NAMESPACE)
            return jrun_fail(r, "cannot assign attribute on non-namespace object");
        return jobj_dict_put(r, &ns.space->d, target->attr.key, v);
    }
}

enum jflow jexec_catch(struct jrun *r, const struct jnode *n, struct jvalue *out)
{
    struct jsink sink, *outer = r->out;
    struct jscope *scope = r->scope;
    jsink_init(&sink, r);
    r->out = &sink;
    enum jflow flow = jscope_push(r) ? jexec(r, n) : JFLOW_ERROR;
    r->out = outer;
    r->scope = scope;
    return flow != JFLOW_ERROR && jsink_take(&sink, out) ? JFLOW_ERROR : flow;
}

/* Runs a chain of filters whose innermost has no input of its own over text. */
static int filter_text(struct jrun *r, const struct jnode *chain, struct jvalue text,
                       struct jvalue *out)
{
    const struct jnode *stack[JPARSE_MAX_DEPTH + 2];
    size_t n = 0;
    for (; chain && n < sizeof stack / sizeof *stack; chain = chain->call.of)
        stack[n++] = chain;
    if (chain)
        return jrun_limit(r, "a block has more than %zu filters", n);
    *out = text;
    while (n-- > 0) {
        struct jvalue in = *out;
        struct jcall c = {0};
        r->line = stack[n]->line;
        if (!stack[n]->call.native)
            return jrun_fail(r, "no filter named '%s'", stack[n]->call.name->name);
        if (jcall_args(r, &stack[n]->call.args, NULL, &c) ||
            jcall_native(r, stack[n]->call.native, in, &c, out))
            return -1;
    }
    return 0;
}

static enum jflow print_value(struct jrun *r, struct jvalue v)
{
    jrepr_add_str(r->out, &v);
    return r->out->failed ? JFLOW_ERROR : JFLOW_NEXT;
}

static enum jflow exec_print(struct jrun *r, const struct jnode *n)
{
    struct jvalue v;
    return jeval(r, n->arg, &v) ? JFLOW_ERROR : print_value(r, v);
}

static enum jflow exec_text_block(struct jrun *r, const struct jnode *n)
{
    struct jvalue text, v;
    enum jflow flow = jexec_catch(r, n->set.body, &text);
    if (flow != JFLOW_NEXT)
        return flow;
    v = text;
    if (n->set.filter && filter_text(r, n->set.filter, text, &v))
        return JFLOW_ERROR;
    if (n->kind == JN_FILTER_BLOCK)
        return print_value(r, v);
    return jassign(r, n->set.target, v) ? JFLOW_ERROR : JFLOW_NEXT;
}

static enum jflow exec_if(struct jrun *r, const struct jnode *n)
{
    struct jvalue test;
    for (; n && n->kind == JN_IF; n = n->cond.other) {
        if (jeval(r, n->cond.test, &test))
            return JFLOW_ERROR;
        if (jobj_is_true(&test))
            return jexec(r, n->cond.then);
    }
    return n ? jexec(r, n) : JFLOW_NEXT;
}

static enum jflow exec_set(struct jrun *r, const struct jnode *n)
{
    struct jvalue v;
    return jeval(r, n->set.value, &v) || jassign(r, n->set.target, v) ? JFLOW_ERROR : JFLOW_NEXT;
}

static enum jflow exec_macro(struct jrun *r, const struct jnode *n)
{
    struct jvalue v;
    return jclosure_make(r, n->macro, &v) || jscope_set(r, n->macro->name, v) ? JFLOW_ERROR
                                                                              : JFLOW_NEXT;
}

static enum jflow exec_call_block(struct jrun *r, const struct jnode *n)
{
    const struct jnode *call = n->call_block.call;
    struct jvalue caller, fn, out;
    struct jcall c = {0};
    if (jclosure_make(r, n->call_block.macro, &caller) || jeval(r, call->call.of, &fn) ||
        jcall_args(r, &call->call.args, &caller, &c))
        return JFLOW_ERROR;
    r->line = n->line;
    return jcall_value(r, fn, &c, &out) ? JFLOW_ERROR : print_value(r, out);
}

static enum jflow exec_with(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope, *inner = jscope_push(r);
    enum jflow flow = inner ? JFLOW_NEXT : JFLOW_ERROR;
    for (size_t i = 0; i < n->with.target.n && flow == JFLOW_NEXT; i++) {
        struct jvalue v;
        r->scope = outer; /* values do not see the names beside them */
        int bad = jeval(r, n->with.value.at[i], &v);
        r->scope = inner;
        if (bad || jassign(r, n->with.target.at[i], v))
            flow = JFLOW_ERROR;
    }
    if (flow == JFLOW_NEXT)
        flow = jexec(r, n->with.body);
    r->scope = outer;
    return flow;
}

static enum jflow exec_generation(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    uint32_t mark = r->out->mark;
    r->out->mark |= JORIGIN_GENERATION;
    enum jflow flow = jscope_push(r) ? jexec(r, n->arg) : JFLOW_ERROR;
    r->out->mark = mark;
    r->scope = outer;
    return flow;
}

static enum jflow exec_block(struct jrun *r, const struct jnode *n)
{
    for (size_t i = 0; i < n->list.n; i++) {
        enum jflow flow = jexec(r, n->list.at[i]);
        if (flow != JFLOW_NEXT)
            return flow;
    }
    return JFLOW_NEXT;
}

static enum jflow exec_node(struct jrun *r, const struct jnode *n)
{
    switch ((enum jnode_kind)n->kind) {
    case JN_BLOCK:
        return exec_block(r, n);
    case JN_TEXT:
        return print_value(r, n->value);
    case JN_PRINT:
        return exec_print(r, n);
    case JN_IF:
        return exec_if(r, n);
    case JN_FOR:
        return jexec_for(r, n);
    case JN_SET:
        return exec_set(r, n);
    case JN_SET_BLOCK:
    case JN_FILTER_BLOCK:
        return exec_text_block(r, n);
    case JN_MACRO:
        return exec_macro(r, n);
    case JN_CALL_BLOCK:
        return exec_call_block(r, n);
    case JN_WITH:
        return exec_with(r, n);
    case JN_BREAK:
        return JFLOW_BREAK;
    case JN_CONTINUE:
        return JFLOW_CONTINUE;
    case JN_GENERATION:
        return exec_generation(r, n);
    default:
        BUG("an expression among statements");
    }
}

enum jflow jexec(struct jrun *r, const struct jnode *n)
{
    if (jrun_pay(r, 1))
        return JFLOW_ERROR;
    if (r->depth == JRUN_MAX_DEPTH) {
        jrun_limit(r, "expressions and blocks are nested more than %d deep", JRUN_MAX_DEPTH);
        return JFLOW_ERROR;
    }
    r->depth++;
    r->line = n->line;
    enum jflow flow = exec_node(r, n);
    r->depth--;
    return flow;
}
