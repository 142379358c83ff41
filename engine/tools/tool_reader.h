/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's text says: words, and calls of tools in the form of its family. The text comes in
 * pieces, cut anywhere; what is made of it depends on its bytes alone. A call is one as soon as the
 * name of an offered tool has been read, and whole when its arguments have ended. What turns out to
 * be no call is words like any other.
 *
 * A call that was begun and did not end, or whose arguments are no JSON: who tells the text whole
 * gets it as words (is_streamed is false); who has told the call already (is_streamed) keeps what
 * was told of it.
 *
 * Spaces around calls are dropped; a text without calls stays as it is.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_TOOL_READER_H
#define ENGINE_TOOLS_TOOL_READER_H

#include "engine/base/buf.h"
#include "engine/tools/tool_format.h"

enum { TOOL_TEXT_MAX = 256 << 20 };

struct tool_call {
    const struct tool_spec *tool; /* NULL: not read yet; then it is the last, and none */
    struct buf arguments;         /* owned: as the model wrote them */
    bool is_whole;
    int64_t number; /* in forms that number calls: as the model wrote it, and rising */
    /* of who tells: */
    char id[TOOL_NAME_MAX + 40];
    size_t n_told; /* bytes of arguments */
    bool is_told;
};

struct tool_reader;

/* Both borrowed. */
struct tool_reader *tool_reader_new(const struct tool_format *f, const struct tool_spec *tool,
                                    size_t n_tool, bool is_streamed);
void tool_reader_free(struct tool_reader *r); /* NULL is fine */

int tool_reader_push(struct tool_reader *r, const char *text, size_t n, struct err *e);
int tool_reader_end(struct tool_reader *r, struct err *e); /* the text has ended */

const struct buf *tool_reader_words(const struct tool_reader *r);
struct tool_call *tool_reader_calls(const struct tool_reader *r, size_t *n); /* with a tool */
size_t tool_reader_n_whole(const struct tool_reader *r);

#endif
