/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic. Integers have 64 bits here; a result that does not fit is an error rather than the
 * bigger number that Python would make. The origin of a result is that of the operand that came
 * from outside, if one did.
 */
#include <math.h>

#include "engine/template/jinja_ops.h"

bool jop_integer(const struct jvalue *v, int64_t *out)
{
    if (v->type != JT_INT && v->type != JT_BOOL)
        return false;
    *out = v->type == JT_BOOL ? v->b : v->i;
    return true;
}

bool jop_number(const struct jvalue *v, double *out)
{
    int64_t i;
    if (v->type == JT_FLOAT) {
        *out = v->f;
        return true;
    }
    if (!jop_integer(v, &i))
        return false;
    *out = (double)i;
    return true;
}

static const char *op_text(enum jop op)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    return names[op];
}

static int pow_int(int64_t base, int64_t exp, int64_t *out)
{
    *out = 1;
    while (exp > 0) {
        if ((exp & 1) && __builtin_mul_overflow(*out, base, out))
            return -1;
        exp >>= 1;
        if (exp && __builtin_mul_overflow(base, base, &base))
            return -1;
    }
    return 0;
}

static int int_arith(struct jrun *r, enum jop op, int64_t a, int64_t b, struct jvalue *out)
{
    bool is_big = false;
    int64_t v = 0;
    if ((op == JOP_FLOORDIV || op == JOP_MOD) && b == 0)
        return jrun_fail(r, "integer division or modulo by zero");
    switch (op) {
    case JOP_ADD:
        is_big = __builtin_add_overflow(a, b, &v);
        break;
    case JOP_SUB:
        is_big = __builtin_sub_overflow(a, b, &v);
        break;
    case JOP_MUL:
        is_big = __builtin_mul_overflow(a, b, &v);
        break;
    case JOP_FLOORDIV:
        is_big = b == -1 && a == INT64_MIN;
        if (!is_big)
            v = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case JOP_MOD:
        if (b != -1)
            v = a % b;
        if (v != 0 && (v < 0) != (b < 0))
            v += b;
        break;
    default: /* JOP_POW with b >= 0 */
        is_big = pow_int(a, b, &v) != 0;
        break;
    }
    if (is_big)
        return jrun_fail(r, "the result of %s does not fit in 64 bits", op_text(op));
    *out = jv_int(v);
    return 0;
}

/* Floor division and remainder of floats, with the signs that Python gives. */
static void float_divmod(double a, double b, double *div, double *mod)
{
    *mod = fmod(a, b);
    double q = (a - *mod) / b;
    if (*mod != 0 && (b < 0) != (*mod < 0)) {
        *mod += b;
        q -= 1;
    } else if (*mod == 0) {
        *mod = copysign(0, b);
    }
    *div = floor(q);
    if (q - *div > 0.5)
        *div += 1;
    if (q == 0)
        *div = copysign(0, a / b);
}

static int float_arith(struct jrun *r, enum jop op, double a, double b, struct jvalue *out)
{
    double v = 0, other;
    if ((op == JOP_DIV || op == JOP_FLOORDIV || op == JOP_MOD) && b == 0)
        return jrun_fail(r, op == JOP_DIV ? "division by zero" : "float floor division by zero");
    switch (op) {
    case JOP_ADD:
        v = a + b;
        break;
    case JOP_SUB:
        v = a - b;
        break;
    case JOP_MUL:
        v = a * b;
        break;
    case JOP_DIV:
        v = a / b;
        break;
    case JOP_FLOORDIV:
        float_divmod(a, b, &v, &other);
        break;
    case JOP_MOD:
        float_divmod(a, b, &other, &v);
        break;
    default: /* JOP_POW */
        if (a == 0 && b < 0)
            return jrun_fail(r, "0.0 cannot be raised to a negative power");
        v = pow(a, b);
        if ((isnan(v) && !isnan(a) && !isnan(b)) || (isinf(v) && !isinf(a) && !isinf(b)))
            return jrun_fail(r, "the result of ** is not a finite number");
    }
    *out = jv_float(v);
    return 0;
}

static int concat_strings(struct jrun *r, struct jvalue a, struct jvalue b, struct jvalue *out)
{
    bool is_marked = a.is_marked || b.is_marked;
    struct jvalue x = a, y = b;
    if (is_marked && (jtext_escape(r, &a, &x) || jtext_escape(r, &b, &y)))
        return -1;
    if (jtext_concat(r, &x, &y, out))
        return -1;
    out->is_marked = is_marked;
    return 0;
}

static int concat_lists(struct jrun *r, const struct jvalue *a, const struct jvalue *b,
                        struct jvalue *out)
{
    if (jobj_list(r, (enum jtype)a->type, NULL, a->l->n + b->l->n, out) ||
        jrun_pay(r, (a->l->n + b->l->n) / 4))
        return -1;
    for (size_t i = 0; i < a->l->n; i++)
        out->l->at[out->l->n++] = a->l->at[i];
    for (size_t i = 0; i < b->l->n; i++)
        out->l->at[out->l->n++] = b->l->at[i];
    out->origin = jorigin_join(a->origin, b->origin);
    return 0;
}

static int repeat(struct jrun *r, const struct jvalue *seq, int64_t times, struct jvalue *out)
{
    size_t n = times > 0 ? (size_t)times : 0;
    if (seq->type != JT_STR) {
        size_t total;
        if (__builtin_mul_overflow(n, seq->l->n, &total))
            return jrun_limit(r, "a list is repeated too often");
        if (jobj_list(r, (enum jtype)seq->type, NULL, total, out))
            return -1;
        while (out->l->n < total)
            out->l->at[out->l->n] = seq->l->at[out->l->n % seq->l->n], out->l->n++;
        return 0;
    }
    struct jsink s;
    jsink_init(&s, r);
    for (size_t i = 0; i < n && seq->s->len && !s.failed; i++)
        jsink_value(&s, seq);
    if (jsink_take(&s, out))
        return -1;
    out->is_marked = seq->is_marked;
    return 0;
}

static bool is_seq(const struct jvalue *v)
{
    return v->type == JT_STR || v->type == JT_LIST || v->type == JT_TUPLE;
}

/* + and * of strings, lists and tuples; 1 done, 0 not for them, -1. */
static int seq_arith(struct jrun *r, enum jop op, struct jvalue a, struct jvalue b,
                     struct jvalue *out)
{
    int64_t times;
    if (op == JOP_MUL) {
        if (is_seq(&a) && jop_integer(&b, &times))
            return repeat(r, &a, times, out) ? -1 : 1;
        if (is_seq(&b) && jop_integer(&a, &times))
            return repeat(r, &b, times, out) ? -1 : 1;
    }
    if (op != JOP_ADD || !is_seq(&a))
        return 0;
    if (a.type != b.type)
        return jrun_fail(r, "can only concatenate %s (not \"%s\") to %s", jobj_type(&a),
                         jobj_type(&b), jobj_type(&a));
    if (a.type == JT_STR)
        return concat_strings(r, a, b, out) ? -1 : 1;
    return concat_lists(r, &a, &b, out) ? -1 : 1;
}

int jop_arith(struct jrun *r, enum jop op, struct jvalue a, struct jvalue b, struct jvalue *out)
{
    if (op == JOP_MOD && a.type == JT_STR)
        return jformat_percent(r, a, b, out);
    if (a.type == JT_UNDEFINED || b.type == JT_UNDEFINED)
        return jrun_undefined(r, a.type == JT_UNDEFINED ? &a : &b);
    int done = seq_arith(r, op, a, b, out);
    if (done)
        return done < 0 ? -1 : 0;
    int64_t i, j;
    double f, g;
    uint32_t origin = jorigin_join(a.origin, b.origin);
    if (!jop_number(&a, &f) || !jop_number(&b, &g))
        return jrun_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                         jobj_type(&a), jobj_type(&b));
    bool is_int = jop_integer(&a, &i) && jop_integer(&b, &j);
    if (is_int && op != JOP_DIV && (op != JOP_POW || j >= 0)) {
        if (int_arith(r, op, i, j, out))
            return -1;
    } else if (float_arith(r, op, f, g, out)) {
        return -1;
    }
    out->origin = origin;
    return 0;
}

int jop_unary(struct jrun *r, bool is_neg, struct jvalue a, struct jvalue *out)
{
    int64_t i;
    if (a.type == JT_UNDEFINED)
        return jrun_undefined(r, &a);
    if (a.type == JT_FLOAT) {
        *out = jv_float(is_neg ? -a.f : a.f);
    } else if (jop_integer(&a, &i)) {
        if (is_neg && i == INT64_MIN)
            return jrun_fail(r, "the result of - does not fit in 64 bits");
        *out = jv_int(is_neg ? -i : i);
    } else {
        return jrun_fail(r, "bad operand type for unary %c: '%s'", is_neg ? '-' : '+',
                         jobj_type(&a));
    }
    out->origin = a.origin;
    return 0;
}
