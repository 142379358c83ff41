/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings and the hash indexes of dicts are shared with the original; only the values are copied.
 */
#include "engine/template/jinja_stamp.h"

#include <string.h>

enum { MAX_NESTING = 64 };

static bool is(const struct jvalue *v, const char *text)
{
    return v->type == JT_STR && v->s->len == strlen(text) && memcmp(v->s->p, text, v->s->len) == 0;
}

/* The roles that templates build tokens from. */
static bool is_known_role(const struct jvalue *v)
{
    static const char *const roles[] = {"system", "developer", "user",  "assistant",
                                        "tool",   "function",  "model", "ipython"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (is(v, roles[i]))
            return true;
    return false;
}

static int stamp(struct arena *a, const struct jvalue *v, uint32_t origin, int depth,
                 struct jvalue *out, struct err *e);

static int stamp_all(struct arena *a, const struct jvalue *at, size_t n, uint32_t origin, int depth,
                     struct jvalue **out, struct err *e)
{
    struct jvalue *copy = arena_try(a, n ? n : 1, sizeof *copy, e);
    if (!copy)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (stamp(a, &at[i], origin, depth, &copy[i], e))
            return -1;
    *out = copy;
    return 0;
}

static int stamp(struct arena *a, const struct jvalue *v, uint32_t origin, int depth,
                 struct jvalue *out, struct err *e)
{
    if (depth > MAX_NESTING)
        return err_set(e, ERR_BAD_INPUT, "values are nested more than %d deep", MAX_NESTING);
    *out = *v;
    out->origin = origin;
    out->is_marked = false;
    if (v->type == JT_LIST) {
        struct jlist *l = arena_try(a, 1, sizeof *l, e);
        if (!l || stamp_all(a, v->l->at, v->l->n, origin, depth + 1, &l->at, e))
            return -1;
        l->n = l->cap = v->l->n;
        out->l = l;
    } else if (v->type == JT_DICT) {
        struct jdict *d = arena_try(a, 1, sizeof *d, e);
        if (!d)
            return -1;
        *d = *v->d;
        if (stamp_all(a, v->d->key, v->d->n, origin, depth + 1, &d->key, e) ||
            stamp_all(a, v->d->val, v->d->n, origin, depth + 1, &d->val, e))
            return -1;
        out->d = d;
    } else if (v->type > JT_DICT || v->type == JT_UNDEFINED) {
        return err_set(e, ERR_BAD_INPUT, "a value given to a template is not plain data");
    }
    return 0;
}

int jstamp(struct arena *a, const struct jvalue *v, uint32_t origin, struct jvalue *out,
           struct err *e)
{
    return stamp(a, v, origin, 0, out, e);
}

int jstamp_messages(struct arena *a, const struct jvalue *v, struct jvalue *out, struct err *e)
{
    if (v->type != JT_LIST)
        return jstamp(a, v, jorigin_make(JORIGIN_MESSAGE, 0), out, e);
    if (v->l->n > JORIGIN_MAX_INDEX)
        return err_set(e, ERR_TOO_LARGE, "more than %u messages", JORIGIN_MAX_INDEX);
    if (jv_list(a, out, e))
        return -1;
    for (size_t i = 0; i < v->l->n; i++) {
        uint32_t origin = jorigin_make(JORIGIN_MESSAGE, (uint32_t)i);
        struct jvalue m;
        if (jstamp(a, &v->l->at[i], origin, &m, e))
            return err_wrap(e, "message %zu", i);
        for (size_t k = 0; m.type == JT_DICT && k < m.d->n; k++) {
            struct jvalue *field = &m.d->val[k];
            if (is(&m.d->key[k], "role") && is_known_role(field))
                field->origin = jorigin_make(JORIGIN_ROLE, (uint32_t)i);
            else if (is(&m.d->key[k], "content") &&
                     jstamp(a, field, jorigin_make(JORIGIN_CONTENT, (uint32_t)i), field, e))
                return -1;
        }
        if (jv_list_add(a, out, m, e))
            return -1;
    }
    out->origin = jorigin_make(JORIGIN_MESSAGE, 0);
    return 0;
}
