/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of one mark is looked at when something else comes. Styles of a line end with it; that of a
 * block of code ends behind the line of its end.
 */
#include "clients/remote/markdown.h"

enum { FENCE = 3, STRONG = 2, HEADINGS = 6 };

void markdown_init(struct markdown *m, const struct term *t)
{
    *m = (struct markdown){.term = t, .is_begin = true};
    wrap_init(&m->wrap, t);
}

static bool is_mark(char c)
{
    return c == '`' || c == '*' || c == '#';
}

static void put(struct markdown *m, struct buf *out, char c)
{
    wrap_char(&m->wrap, out, c, m->is_fenced);
}

static void put_marks(struct markdown *m, struct buf *out)
{
    for (size_t i = 0; i < m->n_mark; i++)
        put(m, out, m->mark);
}

/* The style of what comes, whatever was before. */
static void restyle(struct markdown *m, struct buf *out)
{
    enum term_style s = m->is_fenced || m->is_code ? TERM_CODE : TERM_BOLD;
    bool is_any = m->is_fenced || m->is_code || m->is_strong || m->is_heading;
    char style[WRAP_STYLE];
    snprintf(style, sizeof style, "%s%s", term_style(m->term, TERM_PLAIN),
             is_any ? term_style(m->term, s) : "");
    wrap_style(&m->wrap, out, style);
}

/* Marks stand in the style that they begin, or end. */
static void toggle(struct markdown *m, struct buf *out, bool *is_on)
{
    *is_on = !*is_on;
    if (*is_on)
        restyle(m, out);
    put_marks(m, out);
    if (!*is_on)
        restyle(m, out);
}

/* The run that was held back, now that `next` stands behind it. */
static void settle(struct markdown *m, struct buf *out, char next)
{
    if (m->mark == '`' && m->n_mark >= FENCE && m->is_begin) {
        if (m->is_fenced)
            m->is_fence_end = true;
        else
            m->is_fenced = true;
        restyle(m, out);
        put_marks(m, out);
    } else if (m->is_fenced) {
        put_marks(m, out);
    } else if (m->mark == '`') {
        toggle(m, out, &m->is_code);
    } else if (m->mark == '*' && m->n_mark >= STRONG && !m->is_code) {
        toggle(m, out, &m->is_strong);
    } else if (m->mark == '#' && m->n_mark <= HEADINGS && m->is_begin && next == ' ') {
        toggle(m, out, &m->is_heading);
    } else {
        put_marks(m, out);
    }
    m->is_begin = false;
    m->mark = 0;
    m->n_mark = 0;
}

static void end_line(struct markdown *m, struct buf *out)
{
    bool is_styled = m->is_code || m->is_strong || m->is_heading || m->is_fence_end;
    m->is_code = m->is_strong = m->is_heading = false;
    m->is_fenced = m->is_fenced && !m->is_fence_end;
    m->is_fence_end = false;
    if (is_styled)
        restyle(m, out);
    m->is_begin = true;
}

void markdown_put(struct markdown *m, struct buf *out, const char *text, size_t n)
{
    wrap_look(&m->wrap);
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (m->mark && c != m->mark)
            settle(m, out, c);
        if (is_mark(c)) {
            m->mark = c;
            m->n_mark++;
            continue;
        }
        if (c == '\n')
            end_line(m, out);
        else if (c != ' ')
            m->is_begin = false;
        put(m, out, c);
    }
}

void markdown_end(struct markdown *m, struct buf *out)
{
    if (m->mark)
        settle(m, out, '\n');
    m->is_fence_end = m->is_fenced;
    end_line(m, out);
    wrap_end(&m->wrap, out);
}
