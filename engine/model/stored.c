/* SPDX-License-Identifier: Apache-2.0
 *
 * The names are tried in one order: as the family saves them, then without its body's, then the
 * head's.
 */
#include "engine/model/stored.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/load/gguf_weights.h"

enum { NAME_BYTES = 512, TRIED_MAX = 8 };

struct tried {
    char name[TRIED_MAX][NAME_BYTES];
    int n;
};

static const char *name_in(const struct spec *s, enum slot slot)
{
    for (int i = 0; i < s->n_row; i++)
        if (s->row[i].slot == slot)
            return s->row[i].name;
    return "";
}

static void add(struct tried *t, const struct config *c, const char *name)
{
    for (const char *const *prefix = spec_prefix(c); *prefix && t->n < TRIED_MAX; prefix++)
        snprintf(t->name[t->n++], NAME_BYTES, "%s%s", *prefix, name);
}

/* Adds the other names to the error of the first. */
static int err_missing(const struct tried *t, struct err *e)
{
    struct err first = *e;
    char others[256] = "";
    size_t n = 0;
    for (int i = 1; i < t->n && n < sizeof others; i++)
        n += (size_t)snprintf(others + n, sizeof others - n, "%s%s", i > 1 ? ", " : "", t->name[i]);
    return t->n < 2 ? -1 : err_set(e, first.code, "%s; nor is there %s", first.msg, others);
}

int stored_shape(const struct param *p, bool is_transposed, int64_t dim[3])
{
    dim[0] = is_transposed ? p->k : p->n;
    dim[1] = is_transposed ? p->n : p->k;
    if (!p->n_tap)
        return p->is_vector ? 1 : 2;
    dim[0] = p->n / p->n_tap;
    dim[2] = p->n_tap;
    return 3;
}

bool stored_has(const struct weights *w, const struct config *c, const char *name)
{
    struct tried t = {.n = 0};
    add(&t, c, name);
    for (int i = 0; i < t.n; i++)
        if (weights_get(w, t.name[i]))
            return true;
    return false;
}

int stored_want(struct weights *w, const struct config *c, const char *name, int rank,
                const int64_t *dim, const struct weight **out, struct err *e)
{
    const struct spec *s = spec_of(c->family);
    struct tried t = {.n = 0};
    int at = 0;
    add(&t, c, name);
    if (c->is_tied && strcmp(name, name_in(s, SLOT_TOKEN_EMBED)) == 0)
        add(&t, c, name_in(s, SLOT_LM_HEAD));
    while (at < t.n && !weights_get(w, t.name[at]))
        at++;
    if (weights_want(w, t.name[at < t.n ? at : 0], rank, dim, out, e) == 0)
        return 0;
    return at < t.n ? -1 : err_missing(&t, e);
}

int stored_check_all(const struct weights *w, const struct weight *const *from, int32_t n,
                     struct err *e)
{
    const struct weight *left = NULL;
    struct map read;
    if (weights_count(w) == 0 || !weights_at(w, 0)->gguf)
        return 0;
    map_init(&read);
    for (int32_t i = 0; i < n; i++)
        map_put_str(&read, from[i]->t->name, (void *)(uintptr_t)from[i]);
    for (size_t i = 0; i < weights_count(w) && !left; i++)
        if (!map_get_str(&read, weights_at(w, i)->t->name))
            left = weights_at(w, i);
    map_release(&read);
    return left ? err_set(e, ERR_UNSUPPORTED, "%s: %.200s: is no parameter of this model",
                          weight_file_name(left), left->gguf->from->name)
                : 0;
}
