/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of well-formed sequences (Unicode, table 3-7): the lead byte gives the length and the
 * range of the second byte; all further bytes are 80..BF.
 */
#include "engine/token/utf8.h"

#include <string.h>

static unsigned lead_of(uint8_t b, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80, *hi = 0xbf;
    if (b >= 0xc2 && b <= 0xdf)
        return 2;
    if (b >= 0xe0 && b <= 0xef) {
        if (b == 0xe0)
            *lo = 0xa0;
        if (b == 0xed)
            *hi = 0x9f;
        return 3;
    }
    if (b >= 0xf0 && b <= 0xf4) {
        if (b == 0xf0)
            *lo = 0x90;
        if (b == 0xf4)
            *hi = 0x8f;
        return 4;
    }
    return 0;
}

enum utf8_kind utf8_look(const uint8_t *p, size_t n, unsigned *len)
{
    uint8_t lo, hi;
    *len = 1;
    if (p[0] < 0x80)
        return UTF8_GOOD;
    unsigned want = lead_of(p[0], &lo, &hi);
    if (!want)
        return UTF8_BAD;
    for (; *len < want; ++*len) {
        if (*len == n)
            return UTF8_CUT;
        if (p[*len] < lo || p[*len] > hi)
            return UTF8_BAD;
        lo = 0x80, hi = 0xbf;
    }
    return UTF8_GOOD;
}

size_t utf8_valid(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        unsigned len;
        if (n - i >= 8) {
            memcpy(&eight, p + i, 8);
            if (!(eight & 0x8080808080808080u)) {
                i += 8;
                continue;
            }
        }
        if (utf8_look(p + i, n - i, &len) != UTF8_GOOD)
            return i;
        i += len;
    }
    return n;
}

unsigned utf8_put(uint8_t out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    unsigned len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (unsigned i = len - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (uint8_t)((0xf00u >> len & 0xf0u) | c);
    return len;
}
