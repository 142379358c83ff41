/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids back to text. A decoder of tokenizer.json maps lists of strings to lists of strings; here it
 * is a chain that one token after another passes through, because a stream of tokens has no end
 * to wait for, and decoding a whole is the same chain with all tokens pushed at once:
 *
 *   token steps    rewrite one token's text (Replace, WordPiece, Metaspace, ...)
 *   bytes          tokens that are bytes become characters (ByteFallback, ByteLevel)
 *   strip          takes characters off both ends of the whole (Strip behind Fuse)
 *
 * What cannot be said in this order (a Replace behind Fuse) no known file has; it is refused.
 *
 * One deviation: in a row of byte tokens that is not UTF-8 as a whole, ByteFallback of the
 * reference replaces every byte of the row. A stream would have to hold back the whole row for
 * that; here the characters that are complete stay, and only the other bytes become U+FFFD.
 *
 * Thread: a chain is immutable.
 */
#ifndef ENGINE_TOKEN_DECODE_H
#define ENGINE_TOKEN_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/regex.h"

enum decode_kind {
    DECODE_REPLACE,
    DECODE_STRIP,     /* of a single token */
    DECODE_METASPACE, /* marks to spaces; none at the beginning of the text */
    DECODE_WORDPIECE, /* a space before each word */
    DECODE_BPE,       /* the suffix of words to spaces, but for the last */
    DECODE_JOIN,      /* no decoder: a space between tokens */
};

enum decode_bytes { DECODE_NO_BYTES, DECODE_BYTE_FALLBACK, DECODE_BYTE_LEVEL };

struct decode_strip {
    uint8_t c[4]; /* the character */
    unsigned len; /* its bytes; 0: nothing is stripped */
    unsigned left, right;
};

struct decode_step {
    enum decode_kind kind;
    char *text, *content; /* owned: REPLACE; METASPACE, WORDPIECE, BPE: text */
    struct regex *regex;  /* owned: REPLACE */
    struct decode_strip strip;
    bool flag; /* METASPACE: drop marks at the beginning; WORDPIECE: clean up */
};

enum { DECODE_MAX_STEPS = 16, DECODE_MAX_STRIP = 64 };

struct decode {
    struct decode_step step[DECODE_MAX_STEPS];
    size_t n;
    enum decode_bytes bytes;
    bool is_fused; /* while it is loaded: the list has become one text */
    struct decode_strip strip;
};

void decode_release(struct decode *d);

/* Appends a step; what the step owns is moved in, also when that fails. */
int decode_give(struct decode *d, struct decode_step *step, struct err *e);

#endif
