/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that stand in every template, among them the two that chat templates get from
 * outside: raise_exception and strftime_now.
 */
#include <string.h>
#include <time.h>

#include "engine/template/jinja_ops.h"

static int global_range(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    int64_t a, b, step;
    (void)self;
    if (jarg_int(r, &c->arg[0], 0, &a) || jarg_int(r, &c->arg[1], 0, &b) ||
        jarg_int(r, &c->arg[2], 1, &step))
        return -1;
    if (c->arg[1].type == JT_MISSING) {
        b = a;
        a = 0;
    }
    if (step == 0)
        return jrun_fail(r, "range() arg 3 must not be zero");
    /* the distance of two int64 fits in a uint64 */
    uint64_t span = step > 0 ? (a < b ? (uint64_t)b - (uint64_t)a : 0)
                             : (a > b ? (uint64_t)a - (uint64_t)b : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = span ? (span - 1) / stride + 1 : 0;
    if (n > JRUN_MAX_RANGE)
        return jrun_limit(r, "a range has more than %d items", JRUN_MAX_RANGE);
    struct jrange *g = jrun_alloc(r, 1, sizeof *g);
    if (!g)
        return -1;
    *g = (struct jrange){.start = a, .step = step, .n = n};
    *out = (struct jvalue){.type = JT_RANGE, .range = g};
    return 0;
}

/* One positional mapping or list of pairs, then the keywords. */
static int fill_dict(struct jrun *r, const struct jcall *c, struct jdict *d)
{
    if (c->n_pos > 1)
        return jrun_fail(r, "dict expected at most 1 argument, got %zu", c->n_pos);
    if (c->n_pos && c->pos[0].type == JT_DICT) {
        const struct jdict *from = c->pos[0].d;
        for (size_t i = 0; i < from->n; i++)
            if (jobj_dict_put(r, d, from->key[i], from->val[i]))
                return -1;
    } else if (c->n_pos) {
        struct jlist *pairs, *pair;
        if (jobj_collect(r, c->pos[0], &pairs))
            return -1;
        for (size_t i = 0; i < pairs->n; i++) {
            if (jobj_collect(r, pairs->at[i], &pair))
                return -1;
            if (pair->n != 2)
                return jrun_fail(r,
                                 "dictionary update sequence element has length %zu; 2 is "
                                 "required",
                                 pair->n);
            if (jobj_dict_put(r, d, pair->at[0], pair->at[1]))
                return -1;
        }
    }
    return jobj_dict_keywords(r, d, c);
}

static int global_dict(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)self;
    struct jdict *d = jrun_alloc(r, 1, sizeof *d);
    if (!d)
        return -1;
    *out = (struct jvalue){.type = JT_DICT, .d = d};
    return fill_dict(r, c, d);
}

static int global_namespace(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)self;
    struct jspace *ns = jrun_alloc(r, 1, sizeof *ns);
    if (!ns)
        return -1;
    *out = (struct jvalue){.type = JT_NAMESPACE, .space = ns};
    return fill_dict(r, c, &ns->d);
}

static int global_cycler(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)self;
    if (c->n_pos == 0 || c->n_kw)
        return jrun_fail(r, "at least one item has to be provided");
    struct jcycler *cycler = jrun_alloc(r, 1, sizeof *cycler);
    if (!cycler)
        return -1;
    *cycler = (struct jcycler){.at = c->pos, .n = c->n_pos};
    *out = (struct jvalue){.type = JT_CYCLER, .cycler = cycler};
    return 0;
}

static int global_joiner(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)self;
    struct jjoiner *j = jrun_alloc(r, 1, sizeof *j);
    if (!j)
        return -1;
    j->sep = c->arg[0];
    if (j->sep.type == JT_MISSING && jtext_new(r, ", ", 2, JORIGIN_TEMPLATE, &j->sep))
        return -1;
    *out = (struct jvalue){.type = JT_JOINER, .joiner = j};
    return 0;
}

static int global_raise(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    (void)self;
    (void)out;
    if (jrepr_str(r, c->arg[0], &text))
        return -1;
    return err_set(r->e, ERR_BAD_INPUT, "%.*s", (int)(text.s->len < 400 ? text.s->len : 400),
                   text.s->p);
}

/* One conversion of strftime; those that ask for a zone give nothing, as for a naive time. */
static int add_time(struct jrun *r, struct jsink *s, const char *spec, size_t n,
                    const struct tm *tm, uint32_t origin)
{
    char fmt[4] = {0}, text[128];
    char c = spec[n - 1];
    memcpy(fmt, spec, n);
    if (c == 'Z' || c == 'z')
        return 0;
    if (c == 'f') {
        jsink_text(s, "000000", origin);
        return 0;
    }
    if (!strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%", c))
        return jrun_fail(r, "strftime_now does not know %%%c", c);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t len = strftime(text, sizeof text, fmt, tm);
#pragma GCC diagnostic pop
    jsink_add(s, text, len, origin);
    return 0;
}

static int global_strftime(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct tm tm;
    struct jsink s;
    time_t now = (time_t)r->now;
    (void)self;
    if (jarg_str(r, &c->arg[0], "strftime_now()"))
        return -1;
    if (!gmtime_r(&now, &tm))
        return jrun_fail(r, "the time given is out of range");
    const struct jvalue *fmt = &c->arg[0];
    const char *p = fmt->s->p, *end = p + fmt->s->len;
    jsink_init(&s, r);
    while (p < end && !s.failed) {
        const char *at = memchr(p, '%', (size_t)(end - p));
        size_t from = (size_t)(p - fmt->s->p);
        jsink_part(&s, fmt, from, at ? (size_t)(at - fmt->s->p) : fmt->s->len);
        if (!at)
            break;
        size_t n = 2;
        if (at + 1 < end && strchr("-_0^#", at[1]))
            n = 3;
        if ((size_t)(end - at) < n || at[n - 1] == 0)
            return jrun_fail(r, "a format of strftime_now ends in the middle");
        if (add_time(r, &s, at, n, &tm, jtext_origin_at(fmt, (size_t)(at - fmt->s->p))))
            return -1;
        p = at + n;
    }
    return jsink_take(&s, out);
}

const struct jnative jglobal_rows[] = {
    {"range", "start stop? step? /", global_range, 0},
    {"dict", "*", global_dict, 0},
    {"namespace", "*", global_namespace, 0},
    {"cycler", "*", global_cycler, 0},
    {"joiner", "sep?", global_joiner, 0},
    {"raise_exception", "message", global_raise, 0},
    {"strftime_now", "format", global_strftime, 0},
    {NULL, NULL, NULL, 0},
};
