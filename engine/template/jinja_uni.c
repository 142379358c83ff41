/* SPDX-License-Identifier: Apache-2.0
 *
 * Simple case mappings are utf8proc's; the characters that become several are in a table here,
 * taken from the Unicode data of special casing, without the Greek iota subscripts.
 */
#include "engine/template/jinja_uni.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/err.h"
#include "engine/token/utf8.h"

uint32_t juni_get(const char *p, const char *end, size_t *len)
{
    uint32_t c;
    *len = utf8_get((const uint8_t *)p, &c);
    ASSERT(*len <= (size_t)(end - p));
    return c;
}

size_t juni_put(uint32_t c, char out[4])
{
    uint8_t b[4];
    size_t n = utf8_put(b, c);
    memcpy(out, b, n);
    return n;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool juni_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool juni_is_printable(uint32_t c)
{
    if (c < 0x7F)
        return c >= ' ';
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool juni_is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}

bool juni_is_lower(uint32_t c)
{
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL;
}

bool juni_is_cased(uint32_t c)
{
    return juni_is_upper(c) || juni_is_lower(c) ||
           (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT);
}

bool juni_is_alpha(uint32_t c)
{
    if (c < 0x80)
        return juni_is_upper(c) || juni_is_lower(c);
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool juni_is_digit(uint32_t c)
{
    return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

bool juni_is_word(uint32_t c)
{
    if (c < 0x80)
        return juni_is_alpha(c) || juni_is_digit(c) || c == '_';
    utf8proc_category_t k = category(c);
    return juni_is_alpha(c) || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
           k == UTF8PROC_CATEGORY_NO;
}

/* Characters whose upper or title case is more than one character. */
static const struct {
    uint32_t c;
    char upper[9], title[9];
} special[] = {
    {0x00DF, "SS", "Ss"},
    {0x0149, "\xCA\xBCN", "\xCA\xBCN"},
    {0x01F0, "J\xCC\x8C", "J\xCC\x8C"},
    {0x0390, "\xCE\x99\xCC\x88\xCC\x81", "\xCE\x99\xCC\x88\xCC\x81"},
    {0x03B0, "\xCE\xA5\xCC\x88\xCC\x81", "\xCE\xA5\xCC\x88\xCC\x81"},
    {0x0587, "\xD4\xB5\xD5\x92", "\xD4\xB5\xD6\x82"},
    {0x1E96, "H\xCC\xB1", "H\xCC\xB1"},
    {0x1E97, "T\xCC\x88", "T\xCC\x88"},
    {0x1E98, "W\xCC\x8A", "W\xCC\x8A"},
    {0x1E99, "Y\xCC\x8A", "Y\xCC\x8A"},
    {0x1E9A, "A\xCA\xBE", "A\xCA\xBE"},
    {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
    {0xFB13, "\xD5\x84\xD5\x86", "\xD5\x84\xD5\xB6"},
    {0xFB14, "\xD5\x84\xD4\xB5", "\xD5\x84\xD5\xA5"},
    {0xFB15, "\xD5\x84\xD4\xBB", "\xD5\x84\xD5\xAB"},
    {0xFB16, "\xD5\x8E\xD5\x86", "\xD5\x8E\xD5\xB6"},
    {0xFB17, "\xD5\x84\xD4\xBD", "\xD5\x84\xD5\xAD"},
};

size_t juni_map(uint32_t c, enum juni_case to, char out[JUNI_MAX_BYTES])
{
    if (c < 0x80) {
        bool flip = to == JUNI_LOWER ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
        out[0] = (char)(flip ? c ^ 0x20 : c);
        return 1;
    }
    if (to == JUNI_LOWER) {
        if (c == 0x0130) { /* I with dot above keeps its dot */
            memcpy(out, "i\xCC\x87", 3);
            return 3;
        }
        return juni_put((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), out);
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].c == c) {
            const char *s = to == JUNI_UPPER ? special[i].upper : special[i].title;
            memcpy(out, s, strlen(s));
            return strlen(s);
        }
    utf8proc_int32_t m = to == JUNI_UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
                                          : utf8proc_totitle((utf8proc_int32_t)c);
    return juni_put((uint32_t)m, out);
}

const char *juni_skip_space(const char *p, const char *end)
{
    while (p < end) {
        size_t n;
        if (!juni_is_space(juni_get(p, end, &n)))
            break;
        p += n;
    }
    return p;
}

const char *juni_rstrip_space(const char *begin, const char *p)
{
    while (p > begin) {
        const char *q = p - 1;
        while (q > begin && ((unsigned char)*q & 0xC0) == 0x80)
            q--;
        size_t n;
        if (!juni_is_space(juni_get(q, p, &n)))
            break;
        p = q;
    }
    return p;
}

size_t juni_name_len(const char *p, const char *end)
{
    const char *s = p;
    while (p < end) {
        size_t n;
        uint32_t c = juni_get(p, end, &n);
        if (!juni_is_word(c) || (p == s && juni_is_digit(c)))
            break;
        p += n;
    }
    return (size_t)(p - s);
}
