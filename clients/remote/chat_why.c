/* SPDX-License-Identifier: Apache-2.0
 *
 * The last answer, token by token.
 */
#include <math.h>

#include "clients/remote/chat_own.h"
#include "clients/remote/table.h"

enum { CELL_BYTES_MAX = 64 << 10 };

/* In quotes, so that a space at its beginning is seen; newlines and tabs by their names. */
static void quote(struct buf *out, const json_t *token)
{
    const char *text = json_string_value(token);
    buf_char(out, '"');
    for (; text && *text; text++) {
        if (*text == '\n' || *text == '\t')
            buf_str(out, *text == '\n' ? "\\n" : "\\t");
        else
            buf_char(out, *text);
    }
    buf_char(out, '"');
}

static double chance(const json_t *entry)
{
    return 100 * exp(json_number_value(json_object_get(entry, "logprob")));
}

static void add_cell(struct table *t, struct buf *cell)
{
    table_add(t, cell->failed ? "" : cell->data);
    buf_clear(cell);
}

static void add_others(struct table *t, const json_t *entry, struct buf *cell)
{
    const json_t *top = json_object_get(entry, "top_logprobs");
    const json_t *taken = json_object_get(entry, "token");
    buf_str(cell, "");
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *other = json_array_get(top, i), *token = json_object_get(other, "token");
        if (json_equal(token, taken) || chance(other) < 0.05)
            continue;
        buf_str(cell, cell->len ? "  " : "");
        quote(cell, token);
        buf_printf(cell, " %.1f%%", chance(other));
    }
    add_cell(t, cell);
}

int chat_why(const struct chat *c, struct err *e)
{
    static const char *const name[] = {"token", "chance", "instead"};
    struct table t;
    struct buf cell;
    size_t n = json_array_size(c->tokens);
    if (n == 0)
        return err_set(e, ERR_NOT_FOUND, "there is no answer yet whose tokens are known");
    table_init(&t, name, 3);
    t.gives = "00c";
    buf_init(&cell, CELL_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(c->tokens, i);
        quote(&cell, json_object_get(entry, "token"));
        add_cell(&t, &cell);
        buf_printf(&cell, "%5.1f%%", chance(entry));
        add_cell(&t, &cell);
        add_others(&t, entry, &cell);
    }
    table_print(&t, &c->term);
    buf_release(&cell);
    table_release(&t);
    return 0;
}
