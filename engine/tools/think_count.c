/* SPDX-License-Identifier: Apache-2.0
 *
 * A mark's first byte stands nowhere else in it, so a mark that breaks off may only begin anew.
 */
#include "engine/tools/think_count.h"

#include "engine/tools/json_scan.h"

/* Before any thoughts: spaces, then the mark. */
static void look_for_open(struct think_count *c, char at)
{
    const char *open = c->marks->open;
    if (!c->n_match && json_scan_is_space(at))
        return;
    if (at != open[c->n_match]) {
        c->place = THINK_NOT;
        c->n = 0;
    } else if (!open[++c->n_match]) {
        c->place = THINK_INSIDE;
        c->n_match = 0;
    }
}

static void look_for_close(struct think_count *c, char at)
{
    const char *close = c->marks->close;
    c->n_match = at == close[c->n_match] ? c->n_match + 1 : at == *close;
    if (!close[c->n_match])
        c->place = THINK_NOT;
}

void think_count_token(struct think_count *c, const char *text, size_t n)
{
    if (!c->marks || c->place == THINK_NOT)
        return;
    c->n++;
    for (size_t i = 0; i < n && c->place != THINK_NOT; i++)
        if (c->place == THINK_MAY)
            look_for_open(c, text[i]);
        else
            look_for_close(c, text[i]);
}

int64_t think_count_get(const struct think_count *c)
{
    return c->place == THINK_MAY ? 0 : c->n;
}
