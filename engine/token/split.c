/* SPDX-License-Identifier: Apache-2.0
 *
 * All known patterns are one sequence of alternatives with few differences, which struct
 * split_rules holds:
 *
 *   contraction   '(s|t|re|ve|m|ll|d), in GPT-2 in small letters only
 *   letters       \p{L}+, led by a space (GPT-2) or any one character but CR, LF, letter, number
 *   numbers       \p{N}+ led by a space (GPT-2), or runs of at most 1 or 3
 *   other         " "?[^\s\p{L}\p{N}]+, and in the newer ones the line ends behind it
 *   line ends     \s*[\r\n]+ in the newer ones: white space up to its last line end
 *   white space   \s+(?!\S)|\s+: all but the last character, when something follows
 *
 * In the fourth, {1,3}+ is no possessive run of up to 3: Ruby's syntax has none, it is ({1,3})+.
 * With `(?i:...)` the long s (U+017F) is an s, as Unicode's case folding says.
 */
#include "engine/token/split.h"

#include <stdbool.h>
#include <string.h>

struct split_rules {
    const char *pattern;
    bool any_case;       /* contractions in capitals too */
    bool any_lead;       /* letters may be led by more than a space */
    bool space_number;   /* numbers may be led by a space */
    bool line_ends;      /* line ends stay with what stands before them */
    bool tail_first;     /* white space up to the end of the text is one piece, line ends too */
    unsigned max_number; /* digits in a piece; 0: no limit */
};

#define ENGLISH "'s|'t|'re|'ve|'m|'ll|'d"
#define CL100K  "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define QWEN    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define BLANK   "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct split_rules rules[] = {
    {.pattern = ENGLISH "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     .space_number = true},
    {.pattern = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|"
                "\\s+(?!\\S)|\\s",
     .space_number = true},
    {.pattern = "(?i:" ENGLISH ")" CL100K BLANK,
     .any_case = true,
     .any_lead = true,
     .line_ends = true,
     .max_number = 3},
    {.pattern = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+|"
                " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     .any_case = true,
     .any_lead = true,
     .line_ends = true,
     .tail_first = true},
    {.pattern = "(?i:" ENGLISH ")" QWEN BLANK,
     .any_case = true,
     .any_lead = true,
     .line_ends = true,
     .max_number = 1},
};

const struct split_rules *const split_gpt2 = &rules[0];

const struct split_rules *split_find(const char *pattern, size_t len)
{
    for (size_t i = 0; i < split_count(); i++)
        if (strlen(rules[i].pattern) == len && !memcmp(rules[i].pattern, pattern, len))
            return &rules[i];
    return NULL;
}

size_t split_count(void)
{
    return sizeof rules / sizeof *rules;
}

const char *split_pattern(size_t i)
{
    return rules[i].pattern;
}

/* Past the run of characters of class `any` (when `is`) or of none of it. */
static size_t run_end(const struct uclass *u, const uint8_t *text, size_t len, size_t i,
                      unsigned any, bool is)
{
    unsigned n;
    while (i < len && ((uclass_at(u, text + i, &n) & any) != 0) == is)
        i += n;
    return i;
}

static size_t letters_end(const struct uclass *u, const uint8_t *text, size_t len, size_t i)
{
    for (;;) {
        while (i < len && text[i] < 0x80) {
            if (!(u->leaf[0][text[i]] & UC_LETTER))
                return i;
            i++;
        }
        unsigned n;
        if (i >= len || !(uclass_at(u, text + i, &n) & UC_LETTER))
            return i;
        i += n;
    }
}

static size_t numbers_end(const struct uclass *u, const uint8_t *text, size_t len, size_t i,
                          unsigned max)
{
    unsigned n;
    for (unsigned k = 0; (!max || k < max) && i < len; k++) {
        if (!(uclass_at(u, text + i, &n) & UC_NUMBER))
            break;
        i += n;
    }
    return i;
}

/* The end of 's, 're and the like at lo, or lo. */
static size_t contraction_end(const uint8_t *text, size_t len, size_t lo, bool any_case)
{
    uint8_t a = lo + 1 < len ? text[lo + 1] : 0, b = lo + 2 < len ? text[lo + 2] : 0;
    if (any_case && a == 0xc5 && b == 0xbf)
        return lo + 3;
    if (any_case) {
        a = a >= 'A' && a <= 'Z' ? a | 0x20 : a;
        b = b >= 'A' && b <= 'Z' ? b | 0x20 : b;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return lo + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return lo + 3;
    return lo;
}

static size_t blank_end(const struct split_rules *r, const struct uclass *u, const uint8_t *text,
                        size_t len, size_t lo)
{
    size_t i = lo, last = lo, after_line = lo;
    while (i < len) {
        unsigned n, c = uclass_at(u, text + i, &n);
        if (!(c & UC_SPACE))
            break;
        last = i;
        i += n;
        if (c & UC_CR_LF)
            after_line = i;
    }
    if (i == len && r->tail_first)
        return len;
    if (r->line_ends && after_line > lo)
        return after_line;
    return i == len || last == lo ? i : last;
}

static size_t other_end(const struct split_rules *r, const struct uclass *u, const uint8_t *text,
                        size_t len, size_t i)
{
    i = run_end(u, text, len, i, UC_SPACE | UC_LETTER | UC_NUMBER, false);
    while (r->line_ends && i < len && (text[i] == '\r' || text[i] == '\n'))
        i++;
    return i;
}

size_t split_next(const struct split_rules *r, const struct uclass *u, const uint8_t *text,
                  size_t len, size_t lo)
{
    unsigned n, m = 0, next = 0, c = uclass_at(u, text + lo, &n);
    if (c & UC_LETTER)
        return letters_end(u, text, len, lo + n);
    if (text[lo] == '\'') {
        size_t hi = contraction_end(text, len, lo, r->any_case);
        if (hi > lo)
            return hi;
    }
    bool has_next = lo + n < len, is_space = text[lo] == ' ';
    if (has_next)
        next = uclass_at(u, text + lo + n, &m);
    if ((next & UC_LETTER) && (is_space || (r->any_lead && !(c & (UC_CR_LF | UC_NUMBER)))))
        return letters_end(u, text, len, lo + n + m);
    if (c & UC_NUMBER)
        return numbers_end(u, text, len, lo, r->max_number);
    if (is_space && r->space_number && (next & UC_NUMBER))
        return numbers_end(u, text, len, lo + n, r->max_number);
    if (!(c & UC_SPACE))
        return other_end(r, u, text, len, lo + n);
    if (is_space && has_next && !(next & (UC_SPACE | UC_LETTER | UC_NUMBER)))
        return other_end(r, u, text, len, lo + n);
    return blank_end(r, u, text, len, lo);
}
