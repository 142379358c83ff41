/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens: texts that are tokens wherever they stand, found before the model sees the text,
 * leftmost first and longest among those. Some are looked for in the text as it came, some in
 * the normalized text. Special ones are for the template only: where the caller does not trust
 * the text, they are passed over as if they did not exist.
 *
 * Thread: any, once filled.
 */
#ifndef ENGINE_TOKEN_ADDED_H
#define ENGINE_TOKEN_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/map.h"
#include "engine/token/normalize.h"
#include "engine/token/piece.h"
#include "engine/token/trie.h"
#include "engine/token/uclass.h"

struct added_token {
    char *content; /* owned */
    uint32_t len;
    int32_t id;
    bool is_special, is_normalized, is_word, takes_left, takes_right;
};

struct added {
    struct added_token *token; /* owned */
    size_t n, cap;
    struct trie raw, normal; /* values: places in `token` */
    struct map by_content;   /* to struct added_token's place + 1 */
    struct uclass *class;    /* owned; for is_word, else NULL */
    uint8_t *is_special;     /* owned, by id */
    size_t n_special;        /* entries of is_special */
    bool has_normal_special;
};

enum { ADDED_MAX_BYTES = 1024, ADDED_MAX_TOKENS = 1 << 20 };

void added_init(struct added *a);
void added_release(struct added *a);
int added_give(struct added *a, struct added_token t, struct err *e); /* content is moved in */

/* When all are in: makes the tries, the contents of one normalized as the texts will be. */
int added_finish(struct added *a, const struct normalize *chain, struct err *e);

const struct added_token *added_find(const struct added *a, const char *content, size_t len);

/* May special tokens stand in these bytes of the caller's text? */
typedef bool added_trust_fn(const void *ctx, struct tok_span at);

struct added_match {
    const struct added_token *token; /* borrowed */
    uint32_t lo, hi;                 /* with the white space that the token takes */
};

/* The first match at or behind `start`; false when there is none. */
bool added_next(const struct added *a, const struct trie *which, const struct piece *in,
                uint32_t start, added_trust_fn *trust, const void *ctx, struct added_match *m);

#endif
