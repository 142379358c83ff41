/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists as OpenAI pages them: `limit`, `after`, `order` and filters of the query, and the object
 * around a page's things.
 *
 * Thread: page_read on the call's HTTP thread; the others any.
 */
#ifndef SERVER_DESK_PAGE_H
#define SERVER_DESK_PAGE_H

#include "api/jout.h"
#include "server/desk/desk.h"

/* Into t's page and filters; -1 with a 400. */
int page_read(struct call *c, struct errand *t, int64_t limit, int64_t max, struct api_error *e);

/* What a list is of. */
struct page_kind {
    size_t size, id; /* of a row; where in it its id is, a const char * */
    /* Rows behind page->after in the arena. */
    int (*look)(struct errand *t, const struct store_page *page, struct arena *a, void **row,
                size_t *n, bool *more, struct err *e);
    bool (*fits)(const struct errand *t, const void *row); /* NULL: all do */
    /* 1: it went meanwhile, and is left out. */
    int (*put)(struct errand *t, struct jout *j, const void *row, struct err *e);
};

/* Work of an errand that is a list and nothing else, of page_read's page: so many rows in a turn,
 * however many there are that do not fit. */
enum errand_end page_walk(struct errand *t, const struct page_kind *k, struct api_error *e);

/* Whether a thing's metadata (JSON; NULL: it has none) is what the query asks for. */
bool page_fits(const struct errand *t, const char *metadata);

/* errand_fail for a list: an `after` that the list never had is the asker's fault. */
enum errand_end page_fail(const struct err *why, struct api_error *e);

void page_open(struct jout *j);
/* ids: of the first and the last thing; NULL: an empty page, or names_ends is false. */
void page_close(struct jout *j, bool names_ends, const char *first, const char *last, bool more);

#endif
