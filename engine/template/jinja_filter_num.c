/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that make numbers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/template/jinja_ops.h"

static int num_abs(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    int64_t i;
    (void)c;
    if (v.type == JT_UNDEFINED)
        return jrun_undefined(r, &v);
    if (v.type == JT_FLOAT) {
        *out = jv_float(fabs(v.f));
    } else if (jop_integer(&v, &i)) {
        if (i == INT64_MIN)
            return jrun_fail(r, "the result of abs does not fit in 64 bits");
        *out = jv_int(i < 0 ? -i : i);
    } else {
        return jrun_fail(r, "bad operand type for abs(): '%s'", jobj_type(&v));
    }
    out->origin = v.origin;
    return 0;
}

/* int(f); -1 for what has no integer in 64 bits */
static int from_float(struct jrun *r, double f, struct jvalue *out)
{
    if (isnan(f))
        return jrun_fail(r, "cannot convert float NaN to integer");
    if (!(f >= -9223372036854775808.0 && f < 9223372036854775808.0))
        return jrun_fail(r, "cannot convert a float that large to an integer");
    *out = jv_int((int64_t)f);
    return 0;
}

static int num_int(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    int64_t base;
    double f;
    if (v.type == JT_UNDEFINED)
        return jrun_undefined(r, &v);
    if (jarg_int(r, &c->arg[1], 10, &base))
        return -1;
    *out = c->arg[0].type == JT_MISSING ? jv_int(0) : c->arg[0];
    if (v.type == JT_STR) {
        struct jvalue i = jv_int(0);
        bool good_base = base == 0 || (base >= 2 && base <= 36);
        int bad = good_base ? jnum_parse_int(v.s->p, v.s->len, (int)base, &i.i) : -1;
        if (bad == -2)
            return jrun_fail(r, "an integer does not fit in 64 bits");
        if (bad == 0)
            *out = i;
        else if (jnum_parse_float(v.s->p, v.s->len, &f) == 0)
            return isnan(f) ? 0 : from_float(r, f, out);
    } else if (v.type == JT_FLOAT) {
        if (!isnan(v.f) && from_float(r, v.f, out))
            return -1;
    } else if (jop_integer(&v, &base)) {
        *out = jv_int(base);
    }
    out->origin = jorigin_join(out->origin, v.origin);
    return 0;
}

static int num_float(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    double f;
    if (v.type == JT_UNDEFINED)
        return jrun_undefined(r, &v);
    *out = c->arg[0].type == JT_MISSING ? jv_float(0) : c->arg[0];
    if (jop_number(&v, &f) || (v.type == JT_STR && jnum_parse_float(v.s->p, v.s->len, &f) == 0)) {
        *out = jv_float(f);
        out->origin = v.origin;
    }
    return 0;
}

/* round(f, digits) with halves to even in the decimal that f really is. */
static double round_float(double f, int64_t digits)
{
    char text[400];
    if (!isfinite(f) || digits > 300)
        return f;
    if (digits < 0) {
        double unit = pow(10, (double)-digits);
        return isinf(unit) ? copysign(0, f) : nearbyint(f / unit) * unit;
    }
    int n = snprintf(text, sizeof text, "%.*f", (int)digits, f);
    return n > 0 && (size_t)n < sizeof text ? strtod(text, NULL) : f;
}

/* round(i, -k): halves to even */
static int round_int(struct jrun *r, int64_t i, int64_t digits, struct jvalue *out)
{
    *out = jv_int(i);
    if (digits >= 0)
        return 0;
    if (digits < -18) {
        out->i = 0;
        return 0;
    }
    int64_t unit = 1;
    for (int64_t k = digits; k < 0; k++)
        unit *= 10;
    int64_t rest = i % unit, low = i - rest, half = unit / 2;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(low, unit, &low))
            return jrun_fail(r, "the result of round does not fit in 64 bits");
    }
    bool is_up = rest > half || (rest == half && (low / unit) % 2 != 0);
    if (is_up && __builtin_add_overflow(low, unit, &low))
        return jrun_fail(r, "the result of round does not fit in 64 bits");
    out->i = low;
    return 0;
}

static int num_round(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    int64_t digits, i;
    double f;
    const struct jvalue *method = &c->arg[1];
    bool is_common = method->type == JT_MISSING || jtext_is(method, "common");
    bool is_ceil = jtext_is(method, "ceil");
    if (v.type == JT_UNDEFINED)
        return jrun_undefined(r, &v);
    if (!is_common && !is_ceil && !jtext_is(method, "floor"))
        return jrun_fail(r, "method must be common, ceil or floor");
    if (jarg_int(r, &c->arg[0], 0, &digits))
        return -1;
    if (!jop_number(&v, &f))
        return jrun_fail(r, "type %s doesn't define __round__ method", jobj_type(&v));
    if (!is_common) {
        double unit = pow(10, (double)digits), g = f * unit;
        *out = jv_float((is_ceil ? ceil(g) : floor(g)) / unit);
    } else if (jop_integer(&v, &i)) {
        if (round_int(r, i, digits, out))
            return -1;
    } else {
        *out = jv_float(round_float(f, digits));
    }
    out->origin = v.origin;
    return 0;
}

const struct jnative jfilter_num_rows[] = {
    {"abs", "", num_abs, 0},
    {"int", "default? base?", num_int, 0},
    {"float", "default?", num_float, 0},
    {"round", "precision? method?", num_round, 0},
    {NULL, NULL, NULL, 0},
};
