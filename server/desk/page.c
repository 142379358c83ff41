/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of lists. `metadata[key]=value` is the one name that is not fixed, so all names are
 * looked at.
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
