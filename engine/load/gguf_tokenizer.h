/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file's tokenizer as the texts of a tokenizer.json and a tokenizer_config.json, which then
 * go the way of every other.
 *
 * Two kinds of vocabularies: byte pairs over the byte-level alphabet ("gpt2"), whose rules of
 * cutting have a name in the file (tokenizer.ggml.pre), and SentencePiece's ("llama"), whose merges
 * follow from the scores: any two tokens that together are one merge, the highest score first.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_GGUF_TOKENIZER_H
#define ENGINE_LOAD_GGUF_TOKENIZER_H

#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/load/gguf.h"

enum { GGUF_TEXT_BYTES_MAX = 256 << 20 };

/* How byte-level text is cut, by the name that files have for it (tokenizer.ggml.pre): every name,
 * the first of several for the same first. */
struct gguf_pre {
    const char *name;
    const char *steps; /* the pre-tokenizers of tokenizer.json, with commas between */
    bool is_nfc, ignores_merges, add_bos;
};
const struct gguf_pre *gguf_pre_first(void);
const struct gguf_pre *gguf_pre_next(const struct gguf_pre *p); /* NULL: p is the last */

bool gguf_has_tokenizer(const struct gguf *g);
int gguf_tokenizer_text(const struct gguf *g, struct buf *out, struct err *e);
int gguf_tokenizer_config_text(const struct gguf *g, struct buf *out, struct err *e);

#endif
