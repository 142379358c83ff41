/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop over the pages, two ways to show what comes.
 */
#include "clients/remote/list.h"

#include "clients/remote/table.h"

struct shown {
    const struct remote_options *o;
    const struct list_shape *list;
    struct table table;
};

static int show(void *ctx, const json_t *object, struct err *e)
{
    struct shown *s = ctx;
    char room[REMOTE_TEXT_BYTES];
    (void)e;
    if (s->o->json)
        remote_print_json(object);
    else
        for (int i = 0; i < s->list->n; i++)
            table_add(&s->table, remote_text(object, s->list->member[i], room));
    return 0;
}

static int print(struct peer *p, const struct remote_options *o, const struct list_shape *list,
                 int64_t limit, struct err *e)
{
    struct shown s = {.o = o, .list = list};
    struct term term;
    term_init(&term, stdout);
    table_init(&s.table, list->name, list->n);
    s.table.gives = list->gives;
    int rc = remote_each(p, list->path, limit, show, &s, e);
    if (!rc && !o->json && s.table.n_cell == 0 && term.is_tty)
        fprintf(stderr, "%s\n", list->empty);
    if (!rc)
        table_print(&s.table, &term);
    table_release(&s.table);
    return rc;
}

int list_show(const struct opt *o, const struct list_shape *list, int64_t limit)
{
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? print(p, r, list, limit, &e) : -1;
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
