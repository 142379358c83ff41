/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders of values, and the dict: two arrays in order of insertion and, past eight entries, an
 * open-addressed index over them. Keys compare as in Python, where 1, 1.0 and True are one key; the
 * hash is keyed per process (map_hash), so that keys from outside cannot be chosen to collide.
 */
#include "engine/template/jvalue.h"

#include <math.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/token/utf8.h"

enum { DICT_LINEAR = 8 };

struct jvalue jv_none(void)
{
    return (struct jvalue){.type = JT_NONE};
}

struct jvalue jv_bool(bool b)
{
    return (struct jvalue){.type = JT_BOOL, .b = b};
}

struct jvalue jv_int(int64_t i)
{
    return (struct jvalue){.type = JT_INT, .i = i};
}

struct jvalue jv_float(double f)
{
    return (struct jvalue){.type = JT_FLOAT, .f = f};
}

bool jutf8_valid(const char *s, size_t n)
{
    return utf8_valid((const uint8_t *)s, n) == n;
}

size_t jutf8_count(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

int jv_str_view(struct arena *a, const char *s, size_t n, struct jvalue *out, struct err *e)
{
    struct jstr *str = arena_try(a, 1, sizeof *str, e);
    if (!str)
        return -1;
    str->p = n ? s : "";
    str->len = n;
    str->n_cp = jutf8_count(s, n);
    *out = (struct jvalue){.type = JT_STR, .s = str};
    return 0;
}

int jv_str(struct arena *a, const char *s, size_t n, struct jvalue *out, struct err *e)
{
    if (!jutf8_valid(s, n))
        return err_set(e, ERR_BAD_INPUT, "text is not valid UTF-8");
    char *copy = arena_try(a, n + 1, 1, e);
    if (!copy)
        return -1;
    if (n)
        memcpy(copy, s, n);
    return jv_str_view(a, copy, n, out, e);
}

int jv_list(struct arena *a, struct jvalue *out, struct err *e)
{
    struct jlist *l = arena_try(a, 1, sizeof *l, e);
    if (!l)
        return -1;
    *out = (struct jvalue){.type = JT_LIST, .l = l};
    return 0;
}

/* A grown copy of an array of values; the arena keeps the old one. */
static int grow(struct arena *a, struct jvalue **at, size_t n, size_t cap, struct err *e)
{
    struct jvalue *fresh = arena_try(a, cap, sizeof *fresh, e);
    if (!fresh)
        return -1;
    if (n)
        memcpy(fresh, *at, n * sizeof *fresh);
    *at = fresh;
    return 0;
}

int jv_list_add(struct arena *a, struct jvalue *list, struct jvalue v, struct err *e)
{
    struct jlist *l = list->l;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        if (grow(a, &l->at, l->n, cap, e))
            return -1;
        l->cap = cap;
    }
    l->at[l->n++] = v;
    return 0;
}

int jv_dict(struct arena *a, struct jvalue *out, struct err *e)
{
    struct jdict *d = arena_try(a, 1, sizeof *d, e);
    if (!d)
        return -1;
    *out = (struct jvalue){.type = JT_DICT, .d = d};
    return 0;
}

bool jvalue_is_hashable(const struct jvalue *v)
{
    switch (v->type) {
    case JT_LIST:
    case JT_DICT:
    case JT_VIEW:
        return false;
    case JT_TUPLE:
        for (size_t i = 0; i < v->l->n; i++) /* tuples nest no deeper than literals do */
            if (v->l->at[i].type == JT_TUPLE || !jvalue_is_hashable(&v->l->at[i]))
                return false;
        return true;
    default:
        return true;
    }
}

static uint64_t hash_number(const struct jvalue *v)
{
    double f = v->type == JT_FLOAT ? v->f : 0;
    int64_t i = v->type == JT_BOOL ? v->b : v->i;
    if (v->type == JT_FLOAT) {
        if (!(f >= -9.2e18 && f <= 9.2e18 && f == trunc(f)))
            return map_hash(&f, sizeof f);
        i = (int64_t)f;
    }
    return map_hash(&i, sizeof i);
}

uint64_t jvalue_hash(const struct jvalue *v)
{
    uint64_t h = v->type;
    switch (v->type) {
    case JT_BOOL:
    case JT_INT:
    case JT_FLOAT:
        return hash_number(v);
    case JT_STR:
        return map_hash(v->s->p, v->s->len);
    case JT_TUPLE:
        for (size_t i = 0; i < v->l->n; i++)
            h = h * 0x9E3779B97F4A7C15u ^ jvalue_hash(&v->l->at[i]);
        return h;
    case JT_NONE:
    case JT_UNDEFINED:
        return h;
    default:
        return map_hash(&v->ptr, sizeof v->ptr);
    }
}

static bool is_number(const struct jvalue *v)
{
    return v->type == JT_BOOL || v->type == JT_INT || v->type == JT_FLOAT;
}

static bool same_number(const struct jvalue *a, const struct jvalue *b)
{
    if (a->type != JT_FLOAT && b->type != JT_FLOAT)
        return (a->type == JT_BOOL ? a->b : a->i) == (b->type == JT_BOOL ? b->b : b->i);
    if (a->type == JT_FLOAT && b->type == JT_FLOAT)
        return a->f == b->f;
    const struct jvalue *f = a->type == JT_FLOAT ? a : b, *o = f == a ? b : a;
    int64_t i = o->type == JT_BOOL ? o->b : o->i;
    return f->f >= -9223372036854775808.0 && f->f < 9223372036854775808.0 && f->f == trunc(f->f) &&
           (int64_t)f->f == i;
}

bool jvalue_same_key(const struct jvalue *a, const struct jvalue *b)
{
    if (is_number(a) && is_number(b))
        return same_number(a, b);
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JT_STR:
        return a->s->len == b->s->len && memcmp(a->s->p, b->s->p, a->s->len) == 0;
    case JT_TUPLE:
        if (a->l->n != b->l->n)
            return false;
        for (size_t i = 0; i < a->l->n; i++)
            if (!jvalue_same_key(&a->l->at[i], &b->l->at[i]))
                return false;
        return true;
    case JT_NONE:
    case JT_UNDEFINED:
        return true;
    default:
        return a->ptr == b->ptr;
    }
}

/* The place of key in the arrays, or n when it is absent. */
static size_t find(const struct jdict *d, const struct jvalue *key)
{
    if (!d->slot) {
        for (size_t i = 0; i < d->n; i++)
            if (jvalue_same_key(&d->key[i], key))
                return i;
        return d->n;
    }
    for (size_t k = jvalue_hash(key) & (d->n_slot - 1);; k = (k + 1) & (d->n_slot - 1)) {
        if (d->slot[k] == 0)
            return d->n;
        if (jvalue_same_key(&d->key[d->slot[k] - 1], key))
            return d->slot[k] - 1;
    }
}

static void index_put(struct jdict *d, size_t i)
{
    size_t k = jvalue_hash(&d->key[i]) & (d->n_slot - 1);
    while (d->slot[k])
        k = (k + 1) & (d->n_slot - 1);
    d->slot[k] = (uint32_t)i + 1;
}

static int dict_grow(struct arena *a, struct jdict *d, struct err *e)
{
    size_t cap = d->cap ? d->cap * 2 : 4;
    if (cap > UINT32_MAX / 4)
        return err_set(e, ERR_TOO_LARGE, "a dict has too many entries");
    if (grow(a, &d->key, d->n, cap, e) || grow(a, &d->val, d->n, cap, e))
        return -1;
    d->cap = cap;
    if (cap <= DICT_LINEAR)
        return 0;
    uint32_t *slot = arena_try(a, cap * 2, sizeof *slot, e);
    if (!slot)
        return -1;
    d->slot = slot;
    d->n_slot = cap * 2;
    for (size_t i = 0; i < d->n; i++)
        index_put(d, i);
    return 0;
}

int jdict_put(struct arena *a, struct jdict *d, struct jvalue key, struct jvalue v, struct err *e)
{
    size_t i = find(d, &key);
    if (i < d->n) {
        d->val[i] = v;
        return 0;
    }
    if (d->n == d->cap && dict_grow(a, d, e))
        return -1;
    d->key[d->n] = key;
    d->val[d->n++] = v;
    if (d->slot)
        index_put(d, d->n - 1);
    return 0;
}

const struct jvalue *jdict_get(const struct jdict *d, const struct jvalue *key)
{
    size_t i = find(d, key);
    return i < d->n ? &d->val[i] : NULL;
}

int jv_dict_put(struct arena *a, struct jvalue *dict, const char *key, size_t n, struct jvalue v,
                struct err *e)
{
    struct jvalue k;
    if (jv_str(a, key, n, &k, e))
        return -1;
    return jdict_put(a, dict->d, k, v, e);
}

const struct jvalue *jv_dict_get(const struct jvalue *dict, const char *key)
{
    if (dict->type != JT_DICT)
        return NULL;
    struct jstr s = {.p = key, .len = strlen(key)};
    struct jvalue k = {.type = JT_STR, .s = &s};
    return jdict_get(dict->d, &k);
}
