/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tokenizer.json prepares and cuts text, as the names that GGUF has for that.
 *
 * Thread: any.
 */
#ifndef ENGINE_EXPORT_GGUF_CUTS_H
#define ENGINE_EXPORT_GGUF_CUTS_H

#include <stdbool.h>

#include "engine/load/json.h"

/* is_spm: SentencePiece's kind, which cuts nothing; add_space: it puts a space before a text. Else
 * *pre is the name of the rules (tokenizer.ggml.pre). */
int gguf_cuts_find(const struct json *root, bool *is_spm, bool *add_space, const char **pre,
                   struct err *e);

#endif
