/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of lists, and lists. `metadata[key]=value` is the one name that is not fixed, so all
 * names are looked at. What it asks for no index knows: a list goes through the rows, some of them
 * in each turn, and whatever else the desk has runs between two of them.
 */
#include "server/desk/page.h"

#include <inttypes.h>
#include <string.h>

#include "api/metadata.h"
#include "engine/base/num.h"

struct reading {
    struct errand *errand;
    struct arena *arena;
    bool is_over;
};

static void filter(void *ctx, const char *name, const char *value)
{
    static const char begin[] = "metadata[";
    struct reading *r = ctx;
    struct errand *t = r->errand;
    size_t n = strlen(name), k = sizeof begin - 1;
    if (strcmp(name, "metadata") == 0 && strcmp(value, "null") == 0) {
        t->wants_none = true;
        return;
    }
    if (n <= k + 1 || strncmp(name, begin, k) != 0 || name[n - 1] != ']')
        return;
    if (t->n_filter == ERRAND_FILTERS_MAX) {
        r->is_over = true;
        return;
    }
    t->filter[t->n_filter++] =
        (struct errand_filter){arena_strndup(r->arena, name + k, n - k - 1), value};
}

int page_read(struct call *c, struct errand *t, int64_t limit, int64_t max, struct api_error *e)
{
    const char *text = call_query(c, "limit"), *order = call_query(c, "order");
    struct reading r = {.errand = t, .arena = call_arena(c)};
    t->page = (struct store_page){.after = call_query(c, "after"), .limit = limit};
    if (text && num_int(text, 1, max, &t->page.limit, NULL))
        return api_fail(e, 400, "invalid_value", "limit", "'limit' is from 1 to %" PRId64 ".", max);
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return api_fail(e, 400, "invalid_value", "order", "'order' is asc or desc.");
    t->page.ascending = order && strcmp(order, "asc") == 0;
    call_each_query(c, filter, &r);
    return r.is_over ? api_fail(e, 400, "invalid_value", "metadata", "At most %d pairs.",
                                ERRAND_FILTERS_MAX)
                     : 0;
}

bool page_fits(const struct errand *t, const char *metadata)
{
    if (t->wants_none && metadata)
        return false;
    for (size_t i = 0; i < t->n_filter; i++)
        if (!metadata_has(metadata, t->filter[i].key, t->filter[i].value))
            return false;
    return true;
}

/* ---- turns ----------------------------------------------------------------------------------- */

enum { LOOK = 200, TURN_BYTES = 1 << 20 };

/* What lasts from one turn to the next. */
struct walk {
    struct store_page at; /* behind what was looked at */
    struct jout j;
    const char *first, *last; /* of what was put */
    int64_t n_fit;            /* one more than the page has: there is more */
};

static struct walk *walk_of(struct errand *t)
{
    if (!t->kept) {
        struct walk *w = ARENA_NEW(&t->arena, struct walk);
        *w = (struct walk){.at = {.after = t->page.after, .ascending = t->page.ascending},
                           .j = jout_on(&t->out)};
        page_open(&w->j);
        t->kept = w;
    }
    return t->kept;
}

static bool sifts(const struct errand *t, const struct page_kind *k)
{
    return k->fits && (t->n_filter || t->wants_none || t->model);
}

/* One row; -1 with why. */
static int walk_row(struct errand *t, const struct page_kind *k, struct walk *w, const char *row,
                    struct err *why)
{
    const char *id;
    memcpy(&id, row + k->id, sizeof id);
    w->at.after = id;
    if ((k->fits && !k->fits(t, row)) || w->n_fit++ == t->page.limit)
        return 0;
    int rc = k->put(t, &w->j, row, why);
    if (rc == 1)
        w->n_fit--;
    if (rc)
        return rc < 0 ? -1 : 0;
    w->last = arena_strdup(&t->arena, id);
    w->first = w->first ? w->first : w->last;
    return 0;
}

static enum errand_end walk_turn(struct errand *t, const struct page_kind *k, struct walk *w,
                                 struct arena *a, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t left = t->page.limit + 1 - w->n_fit;
    size_t n, i = 0, before = t->out.len;
    bool more;
    void *row;
    w->at.limit = sifts(t, k) || left > LOOK ? LOOK : left;
    if (k->look(t, &w->at, a, &row, &n, &more, &why))
        return page_fail(&why, e);
    for (; i < n && w->n_fit <= t->page.limit && t->out.len - before < TURN_BYTES; i++)
        if (walk_row(t, k, w, (const char *)row + i * k->size, &why))
            return errand_fail(&why, e);
    if (w->n_fit <= t->page.limit && (more || i < n)) {
        w->at.after = arena_strdup(&t->arena, w->at.after);
        return ERRAND_ON;
    }
    page_close(&w->j, true, w->first, w->last, w->n_fit > t->page.limit);
    return ERRAND_DONE;
}

enum errand_end page_walk(struct errand *t, const struct page_kind *k, struct api_error *e)
{
    struct arena a;
    arena_init(&a, 0);
    enum errand_end end = walk_turn(t, k, walk_of(t), &a, e);
    arena_release(&a);
    return end;
}

/* ---- the object around them ------------------------------------------------------------------ */

enum errand_end page_fail(const struct err *why, struct api_error *e)
{
    if (why->code != ERR_BAD_INPUT)
        return errand_fail(why, e);
    api_fail(e, 400, "invalid_value", "after", "%.400s", why->msg);
    return ERRAND_FAILED;
}

void page_open(struct jout *j)
{
    jout_open(j, '{');
    jout_put_str(j, "object", "list");
    jout_key(j, "data");
    jout_open(j, '[');
}

void page_close(struct jout *j, bool names_ends, const char *first, const char *last, bool more)
{
    jout_close(j, ']');
    if (names_ends) {
        jout_put_str(j, "first_id", first);
        jout_put_str(j, "last_id", last);
    }
    jout_put_bool(j, "has_more", more);
    jout_close(j, '}');
}
