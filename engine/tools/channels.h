/* SPDX-License-Identifier: Apache-2.0
 *
 * A text of messages on channels (harmony, of gpt-oss). Each is a header, <|message|>, what it
 * says, and an end:
 *
 *     <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
 *     <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
 *
 * The first header stands behind a prompt that ends with <|start|>assistant. What goes to functions
 * becomes words in one form, that of row `harmony` of tool_format.def, however its header was
 * written; what else is on channel analysis is thoughts; all other messages are words. A text
 * without a header is words.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TOOLS_CHANNELS_H
#define ENGINE_TOOLS_CHANNELS_H

#include "engine/base/buf.h"

enum channels_in { CHANNELS_HEADER, CHANNELS_THOUGHTS, CHANNELS_WORDS };

struct channels {
    enum channels_in in;
    struct buf *thoughts, *words; /* borrowed: where they go */
    struct buf held;              /* owned: a header, or what may become a mark */
    bool has_thoughts, has_words; /* before the present message */
};

void channels_init(struct channels *c, enum channels_in in, struct buf *thoughts,
                   struct buf *words);
void channels_release(struct channels *c);
void channels_byte(struct channels *c, char byte);
void channels_end(struct channels *c);

#endif
