/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens of a model by their bytes: a trie as flat arrays in the order of a walk, so that going
 * over it is one loop and leaving out a branch is one jump.
 *
 * A token's bytes are those that it stands for inside of a text, as a streamed answer shows them: a
 * space where the piece has a mark for one, one byte for a token of byte fallback, a part of a
 * character for a token that ends inside of one. Special tokens, ids without a piece and tokens of
 * no bytes are not in it: no constrained text holds them, but for those that are asked for by name.
 *
 * Thread: any; immutable and counted.
 */
#ifndef ENGINE_GRAMMAR_TOKEN_TRIE_H
#define ENGINE_GRAMMAR_TOKEN_TRIE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/token/tokenizer.h"

struct token_trie {
    atomic_uint n_ref;
    uint32_t n_node;  /* node 0 is the root */
    uint8_t *byte;    /* owned, by node */
    uint16_t *depth;  /* owned: bytes from the root */
    uint32_t *end;    /* owned: the first node behind the branch */
    uint32_t *first;  /* owned, [n_node + 1]: ids[first[n] to first[n + 1]] end at node n */
    int32_t *id;      /* owned, in the order of nodes */
    uint32_t n_token; /* in the trie */
    uint32_t n_id;    /* ids go from 0 to n_id - 1 */
    char *blob;       /* owned: the bytes of all tokens */
    uint32_t *at;     /* owned, [n_id + 1]: where those of an id begin */
    uint32_t max_len;
};

enum { TOKEN_TRIE_MAX_LEN = 65535 };

/* n_id: as many logits as the model gives, which may be more than the tokenizer has ids. */
struct token_trie *token_trie_new(const struct tokenizer *t, size_t n_id, struct err *e);
/* With these special tokens too, each by its text: what calls of tools are written with. */
struct token_trie *token_trie_new_with(const struct tokenizer *t, size_t n_id, const int32_t *mark,
                                       size_t n_mark, struct err *e);
struct token_trie *token_trie_ref(struct token_trie *t);
void token_trie_unref(struct token_trie *t);

/* *len is 0 for an id that is not in the trie. */
static inline const char *token_trie_bytes(const struct token_trie *t, int32_t id, size_t *len)
{
    if (id < 0 || (uint32_t)id >= t->n_id) {
        *len = 0;
        return NULL;
    }
    *len = t->at[id + 1] - t->at[id];
    return t->blob + t->at[id];
}

#endif
