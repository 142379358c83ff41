/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's tokenizer and chat templates as a GGUF file's keys, so that
 * engine/load/gguf_tokenizer.c makes the same of them. Byte pairs whose rules of cutting have no
 * name there are refused.
 *
 * Thread: any.
 */
#ifndef ENGINE_EXPORT_GGUF_VOCAB_H
#define ENGINE_EXPORT_GGUF_VOCAB_H

#include "engine/export/gguf_writer.h"
#include "engine/load/model_dir.h"
#include "engine/token/tokenizer.h"

/* t: from's tokenizer; NULL: it has none. */
int gguf_vocab_put(struct gguf_writer *w, const struct model_dir *from, const struct tokenizer *t,
                   struct err *e);

#endif
