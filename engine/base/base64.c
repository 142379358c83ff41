/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read is what would have been written: padded, and with zeros in the bits that stand for
 * nothing.
 */
#include "engine/base/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(struct buf *out, const void *p, size_t n)
{
    const uint8_t *at = p;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i < 3 ? n - i : 3;
        unsigned b = (unsigned)at[i] << 16 | (left > 1 ? (unsigned)at[i + 1] << 8 : 0) |
                     (left > 2 ? at[i + 2] : 0);
        const char four[4] = {digits[b >> 18], digits[b >> 12 & 63],
                              left > 1 ? digits[b >> 6 & 63] : '=',
                              left > 2 ? digits[b & 63] : '='};
        buf_add(out, four, 4);
    }
}

int base64_read(struct buf *out, const char *text, size_t n)
{
    if (n % 4)
        return -1;
    for (size_t i = 0; i < n; i += 4) {
        size_t left = i + 4 < n || text[i + 3] != '=' ? 3 : text[i + 2] != '=' ? 2 : 1;
        unsigned b = 0;
        for (size_t k = 0; k < 4; k++) {
            const char *at = k <= left ? memchr(digits, text[i + k], 64) : digits;
            if (!at)
                return -1;
            b = b << 6 | (unsigned)(at - digits);
        }
        const char three[3] = {(char)(b >> 16), (char)(b >> 8), (char)b};
        if (b & ((1u << 8 * (3 - left)) - 1))
            return -1;
        buf_add(out, three, left);
    }
    return 0;
}
