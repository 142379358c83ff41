/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's compiled normalization, the `Precompiled` of tokenizer.json: in base64 a double
 * array (a trie whose units are 32 bits) that leads from characters to where their replacement
 * begins in a text of replacements, each ended by NUL.
 *
 * As the reference has it: a text is cut into grapheme clusters. One of fewer than six bytes is
 * replaced whole by what its shortest beginning in the trie leads to; of any other each character
 * is, alone. Where the trie has nothing, characters stay.
 *
 * Every unit that a walk may come to is held to the array's bounds when it is loaded, so a walk
 * asks nothing.
 *
 * Thread: any, once made.
 */
#ifndef ENGINE_TOKEN_CHARSMAP_H
#define ENGINE_TOKEN_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "engine/token/piece.h"

enum {
    CHARSMAP_MAX_BYTES = 8 << 20,
    CHARSMAP_MAX_PUT = 256, /* bytes of one replacement */
};

struct charsmap;

/* Of the base64 text; NULL with what is wrong with it. */
struct charsmap *charsmap_new(const char *base64, size_t len, struct err *e);
void charsmap_free(struct charsmap *m);

/* Writes the normalized `in`; false when nothing in it is replaced. */
bool charsmap_apply(const struct charsmap *m, const struct piece *in, struct piece_buf *out);

#endif
