/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's thoughts, which stand between two marks before what it says. The text comes in pieces,
 * cut anywhere; what is made of it depends on its bytes alone. There is one such part, at the
 * beginning; spaces around it are dropped, and a text without one stays as it is.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_THINK_READER_H
#define ENGINE_TOOLS_THINK_READER_H

#include "engine/base/buf.h"

struct think_marks {
    const char *open, *close;
    const char *say; /* what begins words where a text is messages on channels (channels.h), of
                      * which thoughts are some; NULL: it is none */
};

/* As a chat template tells; NULL: the model does not think, or in a form that is not known. */
const struct think_marks *think_marks_told(const char *template);

/* How a prompt leaves the model: to say what it likes, within thoughts, or behind them. */
enum think_place { THINK_NOT, THINK_MAY, THINK_INSIDE };
enum think_place think_place_of(const struct think_marks *m, const char *prompt, size_t n);

struct think_reader;

struct think_reader *think_reader_new(const struct think_marks *m, enum think_place place);
void think_reader_free(struct think_reader *r); /* NULL is fine */

void think_reader_push(struct think_reader *r, const char *text, size_t n);
void think_reader_end(struct think_reader *r);

/* What came of both so far; whoever reads words may clear them. */
const struct buf *think_reader_thoughts(const struct think_reader *r);
struct buf *think_reader_words(struct think_reader *r);

#endif
