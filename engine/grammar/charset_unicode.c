/* SPDX-License-Identifier: Apache-2.0
 *
 * What Unicode says of characters, asked of PCRE2 by the tokenizer's regex over a text of all of
 * them, so that one version of Unicode is spoken here and there. The text takes milliseconds to
 * search: sets of ASCII letters, which nearly all are, are folded by hand.
 */
#include "engine/grammar/charset.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/token/regex.h"
#include "engine/token/utf8.h"

enum { TEXT_BYTES = 4 * (CHAR_MAX_CODE + 1), MAX_NAME = 64, MAX_FOLD_RANGES = 2000 };

static uint8_t *all_characters(size_t *len, struct err *e)
{
    uint8_t *text = try_alloc(TEXT_BYTES, 1, "table of characters", e);
    size_t n = 0;
    for (uint32_t c = 0; text && c <= CHAR_MAX_CODE; c++)
        if (c < 0xd800 || c > 0xdfff)
            n += utf8_put(text + n, c);
    *len = n;
    return text;
}

/* The characters that the class matches join the set. */
static int ask(struct budget *b, const char *pattern, size_t pattern_len, struct charset *s)
{
    struct err e = ERR_INIT;
    size_t len = 0, lo = 0, hi = 0;
    uint8_t *text = NULL;
    int rc = -1;
    struct regex *r = regex_new(pattern, pattern_len, &e);
    struct regex_run *m = r ? regex_run_new(r, &e) : NULL;
    if (m)
        text = all_characters(&len, &e);
    while (text && budget_tick(b, 4096) &&
           (rc = regex_find(r, m, text, len, hi, &lo, &hi, &e)) == 1)
        for (size_t i = lo; i < hi;) {
            uint32_t c;
            i += utf8_get(text + i, &c);
            if (s->n && s->at[s->n - 1].hi + 1 == c)
                s->at[s->n - 1].hi = c;
            else
                charset_add(b, s, c, c);
        }
    mem_free(text);
    regex_run_free(m);
    regex_free(r);
    if (rc && !b->failed)
        budget_fail(b, ERR_BAD_INPUT, "the class of characters %.*s: %s", (int)pattern_len, pattern,
                    e.msg);
    charset_tidy(s);
    return b->failed ? -1 : 0;
}

int charset_property(struct budget *b, const char *name, size_t len, bool negated,
                     struct charset *out)
{
    char pattern[MAX_NAME + 16];
    *out = (struct charset){0};
    if (len == 0 || len > MAX_NAME)
        return budget_fail(b, ERR_BAD_INPUT, "a class of characters by Unicode without a name");
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_-= &", name[i]))
            return budget_fail(b, ERR_BAD_INPUT, "\\p{%.*s} is no class of Unicode", (int)len,
                               name);
    const char *value = memchr(name, '=', len); /* Script=Greek: its value says all */
    size_t skip = value ? (size_t)(value + 1 - name) : 0;
    int n = snprintf(pattern, sizeof pattern, "\\%c{%.*s}+", negated ? 'P' : 'p', (int)(len - skip),
                     name + skip);
    return ask(b, pattern, (size_t)n, out);
}

static int fold_all(struct budget *b, struct charset *s)
{
    struct buf pattern;
    struct charset folded = {0};
    int rc;
    if (s->n > MAX_FOLD_RANGES)
        return budget_fail(b, ERR_TOO_LARGE, "a set of %u ranges of characters without case", s->n);
    buf_init(&pattern, 64 << 10);
    buf_str(&pattern, "(?i)[");
    for (uint32_t i = 0; i < s->n; i++)
        buf_printf(&pattern, "\\x{%x}-\\x{%x}", s->at[i].lo, s->at[i].hi);
    buf_str(&pattern, "]+");
    rc = buf_check(&pattern, "a set of characters", &b->err);
    if (rc)
        b->failed = true;
    else
        rc = ask(b, pattern.data, pattern.len, &folded);
    buf_release(&pattern);
    charset_add_set(b, s, &folded);
    return rc;
}

int charset_fold(struct budget *b, struct charset *s)
{
    uint32_t n = s->n;
    if (n == 0 || (n == 1 && s->at[0].lo == 0 && s->at[0].hi >= 0xd7ff))
        return 0;
    if (s->at[n - 1].hi >= 0x80)
        return fold_all(b, s);
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        bool has = charset_has(&(struct charset){s->at, n, n}, c) ||
                   charset_has(&(struct charset){s->at, n, n}, c - 32);
        if (!has)
            continue;
        charset_add(b, s, c, c);
        charset_add(b, s, c - 32, c - 32);
        if (c == 'k') /* the sign of the kelvin, the long s */
            charset_add(b, s, 0x212a, 0x212a);
        if (c == 's')
            charset_add(b, s, 0x17f, 0x17f);
    }
    charset_tidy(s);
    return 0;
}
