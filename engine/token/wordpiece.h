/* SPDX-License-Identifier: Apache-2.0
 *
 * WordPiece (BERT): from the beginning of a word the longest token, then the longest that
 * continues it ("##ing"), and so on; a word that cannot be cut so, or is too long, is the unknown
 * token. Two tries, one for beginnings and one for continuations, make it one walk per token.
 *
 * WordLevel is the case of a word that is one token or unknown; it needs a vocab only.
 *
 * Thread: any, once filled.
 */
#ifndef ENGINE_TOKEN_WORDPIECE_H
#define ENGINE_TOKEN_WORDPIECE_H

#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/piece.h"
#include "engine/token/trie.h"

struct wordpiece {
    struct trie head, tail; /* tail: without the prefix */
    char *prefix;           /* owned: "##" */
    int32_t unk;
    uint32_t max_chars; /* of a word */
};

void wordpiece_init(struct wordpiece *w);
void wordpiece_release(struct wordpiece *w);
int wordpiece_add(struct wordpiece *w, const char *text, size_t len, int32_t id, struct err *e);
int wordpiece_encode(const struct wordpiece *w, const struct piece *p, struct tok_list *out,
                     struct err *e);

#endif
