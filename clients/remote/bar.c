/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts first, by their order; the bar takes what they leave, between 10 and 30 characters. The
 * last column stays free: some terminals break the line when it is written to.
 */
#include "clients/remote/bar.h"

enum { BAR_MIN = 10, BAR_MAX = 30, GAP = 2, LINE_BYTES_MAX = 64 << 10 };

void bar_init(struct bar *b, FILE *out)
{
    *b = (struct bar){.is_drawn = false};
    term_init(&b->term, out);
}

static void put_bar(struct buf *line, double full, int columns)
{
    int n = (int)((full < 1 ? full : 1) * columns);
    buf_char(line, '[');
    for (int i = 0; i < columns; i++)
        buf_char(line, i < n ? '#' : '.');
    buf_str(line, "]  ");
}

/* How many of the parts fit, and the columns they take. */
static int fit(const char *const *part, int n_part, int room, int *columns)
{
    int n = 0;
    *columns = 0;
    for (; n < n_part; n++) {
        int more = term_columns(part[n]) + (n ? GAP : 0);
        if (n > 0 && *columns + more > room)
            break;
        *columns += more;
    }
    return n;
}

void bar_show(struct bar *b, double full, const char *const *part, int n_part)
{
    struct buf line;
    int room = term_width(&b->term) - 1, columns, frame = 2 + GAP;
    if (!b->term.has_cursor)
        return;
    int n = fit(part, n_part, room, &columns), left = room - columns - frame;
    buf_init(&line, LINE_BYTES_MAX);
    buf_str(&line, "\r\033[K");
    if (full >= 0 && left >= BAR_MIN)
        put_bar(&line, full, left < BAR_MAX ? left : BAR_MAX);
    for (int i = 0; i < n; i++) {
        size_t bytes = i ? term_cut(part[i], columns) : term_cut(part[i], room);
        buf_printf(&line, "%s%.*s", i ? "  " : "", (int)bytes, part[i]);
    }
    fwrite(line.data, 1, line.len, b->term.out);
    fflush(b->term.out);
    buf_release(&line);
    b->is_drawn = true;
}

void bar_clear(struct bar *b)
{
    if (b->is_drawn)
        fputs("\r\033[K", b->term.out);
    fflush(b->term.out);
    b->is_drawn = false;
}
