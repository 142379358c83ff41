/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of characters as bytes: UTF-8 by ranges of its bytes, and in JSON the escapes of what cannot
 * stand for itself. ASCII goes straight to its target; all else is a rule that equal sets share.
 */
#include <string.h>

#include "engine/grammar/build.h"
#include "engine/token/utf8.h"

/* ---- UTF-8 ---- */

struct seq {
    uint8_t lo[4], hi[4];
    unsigned len;
};

typedef LIST(struct seq) seq_list;

/* lo to hi take equally many bytes: cut until every byte behind the first that differs is free. */
static void cut(struct build *d, uint32_t lo, uint32_t hi, seq_list *out)
{
    while (lo <= hi && !d->b->failed) {
        uint32_t end = hi;
        for (unsigned shift = 18; shift > 0; shift -= 6) {
            uint32_t tail = (1u << shift) - 1;
            if ((lo & ~tail) == (end & ~tail))
                continue;
            if (lo & tail)
                end = lo | tail;
            else if ((end & tail) != tail)
                end = (end & ~tail) - 1;
        }
        struct seq s = {.len = utf8_put(s.lo, lo)};
        utf8_put(s.hi, end);
        list_push(d->b, out, s);
        lo = end + 1;
    }
}

static void sequences(struct build *d, const struct charset *s, seq_list *out)
{
    static const uint32_t last[] = {0x7f, 0x7ff, 0xffff, CHAR_MAX_CODE};
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t lo = s->at[i].lo, k = 0; k < 4 && lo <= s->at[i].hi; k++) {
            if (lo > last[k])
                continue;
            cut(d, lo, s->at[i].hi < last[k] ? s->at[i].hi : last[k], out);
            lo = last[k] + 1;
        }
}

/* The sequences, alike in the first `at` bytes, by their byte there. */
static uint32_t by_bytes(struct build *d, const struct seq *s, uint32_t n, unsigned at,
                         uint32_t next)
{
    struct fan f = {0};
    for (uint32_t i = 0, j; i < n && !d->b->failed; i = j) {
        for (j = i + 1; j < n && s[j].lo[at] == s[i].lo[at] && s[j].hi[at] == s[i].hi[at]; j++)
            ;
        uint32_t to = at + 1 == s[i].len ? next : by_bytes(d, s + i, j - i, at + 1, next);
        fan_add(d, &f, s[i].lo[at], s[i].hi[at], to);
    }
    return fan_end(d, &f);
}

static uint32_t utf8_of(struct build *d, const struct charset *s, uint32_t next)
{
    seq_list list = {0};
    sequences(d, s, &list);
    return d->b->failed ? PROGRAM_FAIL : by_bytes(d, list.at, list.n, 0, next);
}

/* ---- escapes of JSON ---- */

static const char escape_letter[] = "\b\f\n\r\t\"\\/";
static const char escape_name[] = "bfnrt\"\\/";

static uint32_t hex_digit(struct build *d, uint32_t digit, uint32_t next)
{
    struct fan f = {0};
    uint8_t c = (uint8_t) "0123456789abcdef"[digit];
    fan_add(d, &f, c, c, next);
    if (digit > 9)
        fan_add(d, &f, c - 32, c - 32, next);
    return fan_end(d, &f);
}

static uint32_t hex_any(struct build *d, uint32_t lo, uint32_t hi, uint32_t next)
{
    struct fan f = {0};
    if (lo < 10)
        fan_add(d, &f, (uint8_t)('0' + lo), (uint8_t)('0' + (hi < 10 ? hi : 9)), next);
    if (hi > 9) {
        uint8_t a = (uint8_t)('a' + (lo > 10 ? lo - 10 : 0)), z = (uint8_t)('a' + hi - 10);
        fan_add(d, &f, a, z, next);
        fan_add(d, &f, a - 32, z - 32, next);
    }
    return fan_end(d, &f);
}

/* Behind \u: any character but the halves of a pair, or a whole pair. */
static uint32_t hex_all(struct build *d, uint32_t next)
{
    uint32_t two = hex_any(d, 0, 15, hex_any(d, 0, 15, next));
    uint32_t low = build_text(d, "\\u", 2, hex_any(d, 13, 13, hex_any(d, 12, 15, two)));
    uint32_t high = hex_any(d, 8, 11, hex_any(d, 0, 15, hex_any(d, 0, 15, low)));
    uint32_t three = hex_any(d, 0, 15, two);
    struct fan f = {0};
    uint32_t after_d = build_either(d, hex_any(d, 0, 7, two), high);
    fan_add(d, &f, '0', '9', three);
    fan_add(d, &f, 'a', 'c', three);
    fan_add(d, &f, 'A', 'C', three);
    fan_add(d, &f, 'e', 'f', three);
    fan_add(d, &f, 'E', 'F', three);
    fan_add(d, &f, 'd', 'd', after_d);
    fan_add(d, &f, 'D', 'D', after_d);
    return fan_end(d, &f);
}

/* Behind the backslash, for the characters that are written so. */
static uint32_t escapes(struct build *d, const struct charset *s, bool all, uint32_t next)
{
    struct fan f = {0}, tens[2] = {{{0}}, {{0}}}, zero = {0};
    for (size_t i = 0; escape_name[i]; i++)
        if (charset_has(s, (uint8_t)escape_letter[i]) && (all || escape_name[i] != '/'))
            fan_add(d, &f, (uint8_t)escape_name[i], (uint8_t)escape_name[i], next);
    for (uint32_t c = 0; c < 0x20 && !all; c++)
        if (charset_has(s, c) && !(c && strchr(escape_letter, (int)c)))
            fan_add(d, &tens[c >> 4], 0, 0, hex_digit(d, c & 15, next));
    uint32_t u = PROGRAM_FAIL;
    if (all)
        u = hex_all(d, next);
    else
        for (uint32_t t = 0; t < 2; t++) {
            LIST(uint32_t) one = {0};
            for (uint32_t i = 0; i < tens[t].range.n; i++)
                list_push(d->b, &one, tens[t].range.at[i].to);
            if (one.n)
                fan_add(d, &zero, (uint8_t)('0' + t), (uint8_t)('0' + t),
                        build_alt(d, one.at, one.n));
        }
    if (zero.range.n)
        u = build_text(d, "00", 2, fan_end(d, &zero));
    if (u != PROGRAM_FAIL)
        fan_add(d, &f, 'u', 'u', u);
    return fan_end(d, &f);
}

/* ---- a set ---- */

static bool is_any(const struct charset *s)
{
    return s->n == 2 && s->at[0].lo == 0 && s->at[0].hi == 0xd7ff && s->at[1].lo == 0xe000 &&
           s->at[1].hi == CHAR_MAX_CODE;
}

static struct charset within(struct build *d, const struct charset *s, uint32_t lo, uint32_t hi)
{
    struct charset r = {0};
    charset_add(d->b, &r, lo, hi);
    return charset_and(d->b, s, &r);
}

/* What is no ASCII that stands for itself: a rule, known by what it is. */
static uint32_t rule_of(struct build *d, enum spelling how, const struct charset *s)
{
    size_t n_key = 1 + s->n * sizeof *s->at;
    char *key = budget_alloc(d->b, 1, n_key);
    key[0] = (char)how;
    memcpy(key + 1, s->at, n_key - 1);
    uintptr_t known = (uintptr_t)map_get(&d->known, key, n_key);
    if (known)
        return (uint32_t)(known - 1);
    struct charset high = within(d, s, 0x80, CHAR_MAX_CODE);
    uint32_t entry = high.n ? utf8_of(d, &high, PROGRAM_END) : PROGRAM_FAIL;
    if (how == SPELL_JSON) {
        uint32_t e = escapes(d, s, is_any(s), PROGRAM_END);
        if (e != PROGRAM_FAIL)
            entry = build_either(d, build_byte(d, '\\', '\\', e), entry);
    }
    uint32_t rule = build_rule(d, "a character");
    build_rule_is(d, rule, entry);
    budget_charge(d->b, n_key + 64);
    map_put(&d->known, key, n_key, (void *)(uintptr_t)(rule + 1));
    return rule;
}

/* Of the set what is written by its one byte. */
static void add_plain(struct build *d, enum spelling how, const struct charset *s, struct fan *f,
                      uint32_t next)
{
    static const struct char_range plain[] = {{0, 0x7f}}, json[] = {{0x20, '"' - 1},
                                                                    {'"' + 1, '\\' - 1},
                                                                    {'\\' + 1, 0x7f}};
    const struct char_range *is = how == SPELL_PLAIN ? plain : json;
    uint32_t n = how == SPELL_PLAIN ? 1 : 3;
    for (uint32_t i = 0; i < s->n && s->at[i].lo <= 0x7f; i++)
        for (uint32_t k = 0; k < n; k++) {
            uint32_t lo = s->at[i].lo > is[k].lo ? s->at[i].lo : is[k].lo;
            uint32_t hi = s->at[i].hi < is[k].hi ? s->at[i].hi : is[k].hi;
            if (lo <= hi)
                fan_add(d, f, (uint8_t)lo, (uint8_t)hi, next);
        }
}

static bool needs_rule(enum spelling how, const struct charset *s)
{
    if (s->n && s->at[s->n - 1].hi >= 0x80)
        return true;
    if (how == SPELL_PLAIN)
        return false;
    return (s->n && s->at[0].lo < 0x20) || charset_has(s, '"') || charset_has(s, '\\');
}

uint32_t build_set(struct build *d, enum spelling how, const struct charset *s, struct fan *f,
                   uint32_t next)
{
    struct fan own = {0};
    add_plain(d, how, s, f ? f : &own, next);
    uint32_t rest = PROGRAM_FAIL;
    if (needs_rule(how, s) && !d->b->failed)
        rest = build_call(d, rule_of(d, how, s), next);
    return f ? rest : build_either(d, fan_end(d, &own), rest);
}
