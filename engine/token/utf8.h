/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 by the letter: no overlong forms, no surrogates, nothing above U+10FFFF. What is not
 * UTF-8 is cut into the same pieces as Unicode recommends and Python and Rust cut it ("maximal
 * subparts"), so that a text repaired here equals the text that they repair.
 *
 * utf8_get and utf8_back are for text that is known to be valid and check nothing.
 *
 * Thread: any.
 */
#ifndef ENGINE_TOKEN_UTF8_H
#define ENGINE_TOKEN_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum utf8_kind { UTF8_GOOD, UTF8_BAD, UTF8_CUT }; /* CUT: right so far, but the text ends */

/* What stands at p (n > 0): its kind, and in *len how many bytes it takes. */
enum utf8_kind utf8_look(const uint8_t *p, size_t n, unsigned *len);

/* The length of the longest valid beginning. */
size_t utf8_valid(const uint8_t *p, size_t n);

unsigned utf8_put(uint8_t out[4], uint32_t c);

static inline unsigned utf8_len(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static inline unsigned utf8_get(const uint8_t *p, uint32_t *c)
{
    if (p[0] < 0x80) {
        *c = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *c = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (p[0] < 0xf0) {
        *c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return 3;
    }
    *c = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return 4;
}

/* Where the character that ends right before p begins. */
static inline const uint8_t *utf8_back(const uint8_t *p)
{
    do
        p--;
    while ((*p & 0xc0) == 0x80);
    return p;
}

#endif
