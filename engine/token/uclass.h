/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of characters as a table: two loads per character instead of a regex. The table is
 * filled by PCRE2 itself when a tokenizer is loaded, so that the hand-written splitters and the
 * regexes they stand for can never disagree about which Unicode version is spoken.
 *
 * Thread: any, once made.
 */
#ifndef ENGINE_TOKEN_UCLASS_H
#define ENGINE_TOKEN_UCLASS_H

#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/utf8.h"

enum {
    UC_LETTER = 1, /* \p{L} */
    UC_NUMBER = 2, /* \p{N} */
    UC_SPACE = 4,  /* \p{White_Space} */
    UC_PUNCT = 8,  /* ASCII punctuation (symbols too), \p{P} */
    UC_WORD = 16,  /* \w and the two joiners: a word as Unicode regexes see it */
    UC_MARK = 32,  /* \p{M} */
    UC_CR_LF = 64, /* \r, \n; always there */
    UC_ALL = 127,
};

enum { UCLASS_BLOCKS = 0x110000 / 256 };

struct uclass {
    uint16_t block[UCLASS_BLOCKS];
    uint8_t (*leaf)[256]; /* owned */
    uint32_t n_leaf;
};

/* \p{White_Space}, which Unicode will not change, without a table. */
static inline int uclass_is_white(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Only the classes in `mask` are filled; the others read as 0. */
struct uclass *uclass_new(unsigned mask, struct err *e);
void uclass_free(struct uclass *u);

static inline unsigned uclass_of(const struct uclass *u, uint32_t c)
{
    return u->leaf[u->block[c >> 8]][c & 255];
}

/* The class of the character at p (valid text), its length in *len. */
static inline unsigned uclass_at(const struct uclass *u, const uint8_t *p, unsigned *len)
{
    uint32_t c;
    if (*p < 0x80) {
        *len = 1;
        return u->leaf[0][*p];
    }
    *len = utf8_get(p, &c);
    return uclass_of(u, c);
}

#endif
