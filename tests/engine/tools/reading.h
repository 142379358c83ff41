/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of calls share: a text read in pieces of all sizes, and what came of it.
 */
#ifndef TESTS_ENGINE_TOOLS_READING_H
#define TESTS_ENGINE_TOOLS_READING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tools/tool_reader.h"
#include "tests/lib/test.h"

/* words|name(arguments)... with ? behind one that is not whole */
static inline void spell(struct tool_reader *r, struct buf *out)
{
    size_t n;
    const struct tool_call *c = tool_reader_calls(r, &n);
    const struct buf *w = tool_reader_words(r);
    buf_add(out, w->data ? w->data : "", w->len);
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "|%s(%s)%s", c[i].tool->name, c[i].arguments.len ? c[i].arguments.data : "",
                   c[i].is_whole ? "" : "?");
}

/* The text in pieces of `step` bytes, the first of `first`. */
static inline char *heard(const char *format, const struct tool_spec *tool, size_t n_tool,
                          const char *text, size_t first, size_t step, bool streams)
{
    struct err e = ERR_INIT;
    struct buf out;
    const struct tool_format *f = tool_format_find(format);
    assert_non_null(f);
    struct tool_reader *r = tool_reader_new(f, tool, n_tool, streams);
    size_t n = strlen(text);
    buf_init(&out, 1 << 20);
    for (size_t at = 0; at < n;) {
        size_t k = at ? step : first;
        k = k < n - at ? k : n - at;
        assert_good(tool_reader_push(r, text + at, k, &e), &e);
        at += k;
    }
    assert_good(tool_reader_end(r, &e), &e);
    spell(r, &out);
    tool_reader_free(r);
    buf_char(&out, '\0');
    char *s = buf_take(&out);
    buf_release(&out);
    return s;
}

/* However it is cut. */
static inline void reads_with(const char *format, const struct tool_spec *tool, size_t n_tool,
                              const char *text, const char *want, bool streams)
{
    size_t n = strlen(text);
    for (size_t first = 1; first <= n + 1; first++)
        for (size_t step = 1; step <= (first <= n ? 3 : 1); step++) {
            char *got = heard(format, tool, n_tool, text, first,
                              first <= n ? step + (step == 3) * n : n, streams);
            if (strcmp(got, want) != 0)
                fail_msg("%s, cut at %zu by %zu: %s\ngot  %s\nwant %s", format, first, step, text,
                         got, want);
            free(got);
        }
}

#endif
