/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the system what a stream leads to; making texts harmless.
 */
#include "clients/remote/term.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/num.h"

enum { CLEAN_BYTES_MAX = 64 << 20, COLUMNS_MAX = 10000 };

static bool is_set(const char *name)
{
    const char *v = getenv(name);
    return v && *v;
}

void term_init(struct term *t, FILE *out)
{
    const char *kind = getenv("TERM");
    bool is_dumb = !kind || !*kind || !strcmp(kind, "dumb");
    *t = (struct term){.out = out, .is_tty = isatty(fileno(out))};
    t->has_cursor = t->is_tty && !is_dumb;
    t->has_color = t->has_cursor && !is_set("NO_COLOR");
}

static int width_set(void)
{
    const char *text = getenv("COLUMNS");
    int64_t n;
    struct err e = ERR_INIT;
    return text && !num_int(text, 1, COLUMNS_MAX, &n, &e) ? (int)n : TERM_WIDTH;
}

int term_width_now(const struct term *t)
{
    struct winsize size;
    bool is_known = ioctl(fileno(t->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : width_set();
}

int term_width(const struct term *t)
{
    int width = term_width_now(t);
    return width < TERM_WIDTH_MIN ? TERM_WIDTH_MIN : width;
}

const char *term_style(const struct term *t, enum term_style style)
{
    static const char *const code[] = {
        [TERM_PLAIN] = "\033[0m", [TERM_BOLD] = "\033[1m", [TERM_DIM] = "\033[2m",
        [TERM_GOOD] = "\033[32m", [TERM_BAD] = "\033[31m", [TERM_CODE] = "\033[36m"};
    return t->has_color ? code[style] : "";
}

/* Bytes of the character at p, of n that there are; 0: none is well formed. */
static size_t character(const unsigned char *p, size_t n)
{
    size_t len = *p < 0x80 ? 1 : *p >= 0xC2 && *p < 0xE0 ? 2 : *p >= 0xE0 && *p < 0xF0 ? 3 : 4;
    if (len > n || (len == 4 && (*p < 0xF0 || *p > 0xF4)))
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    bool is_overlong = (*p == 0xE0 && p[1] < 0xA0) || (*p == 0xF0 && p[1] < 0x90);
    bool is_surrogate = *p == 0xED && p[1] >= 0xA0;
    return is_overlong || is_surrogate || (*p == 0xF4 && p[1] >= 0x90) ? 0 : len;
}

/* Characters that take two columns, and those that take none: the blocks where nearly all of them
 * stand. Terminals differ about the rest. */
static const struct block {
    uint32_t from, to;
    int columns;
} blocks[] = {
    {0x300, 0x36F, 0},     {0x483, 0x489, 0},     {0x591, 0x5BD, 0},     {0x610, 0x61A, 0},
    {0x64B, 0x65F, 0},     {0x1100, 0x115F, 2},   {0x1AB0, 0x1AFF, 0},   {0x1DC0, 0x1DFF, 0},
    {0x200B, 0x200F, 0},   {0x20D0, 0x20FF, 0},   {0x2E80, 0x303E, 2},   {0x3041, 0x4DBF, 2},
    {0x4E00, 0xA4CF, 2},   {0xAC00, 0xD7A3, 2},   {0xF900, 0xFAFF, 2},   {0xFE00, 0xFE0F, 0},
    {0xFE20, 0xFE2F, 0},   {0xFE30, 0xFE6F, 2},   {0xFF00, 0xFF60, 2},   {0xFFE0, 0xFFE6, 2},
    {0x1F300, 0x1F64F, 2}, {0x1F680, 0x1F6FF, 2}, {0x1F900, 0x1F9FF, 2}, {0x20000, 0x3FFFD, 2}};

static uint32_t decode(const unsigned char *p, size_t len)
{
    static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = p[0] & mask[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3F);
    return c;
}

int term_character(const char *text, size_t *n)
{
    const unsigned char *p = (const unsigned char *)text;
    *n = character(p, strnlen(text, 4));
    if (*n == 0) {
        *n = 1;
        return 1;
    }
    uint32_t c = decode(p, *n);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && c >= blocks[i].from; i++)
        if (c <= blocks[i].to)
            return blocks[i].columns;
    return 1;
}

int term_columns(const char *text)
{
    int columns = 0;
    for (size_t n; *text; text += n)
        columns += term_character(text, &n);
    return columns;
}

size_t term_cut(const char *text, int columns)
{
    size_t at = 0, n;
    for (; text[at]; at += n) {
        columns -= term_character(text + at, &n);
        if (columns < 0)
            break;
    }
    return at;
}

/* C0, DEL, and C1 as UTF-8 writes it. */
static bool is_control(const unsigned char *p, size_t len)
{
    return len == 1 ? *p < ' ' || *p == 127 : len == 2 && *p == 0xC2 && p[1] < 0xA0;
}

void term_clean(struct buf *out, const char *text, size_t n, bool keeps_lines)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    while (p < end) {
        size_t len = character(p, (size_t)(end - p));
        bool is_space = *p == '\n' || *p == '\t';
        if (len == 0)
            buf_str(out, "\xEF\xBF\xBD");
        else if (is_space && !keeps_lines)
            buf_char(out, ' ');
        else if (is_space || !is_control(p, len))
            buf_add(out, p, len);
        p += len ? len : 1;
    }
}

void term_put(FILE *out, const char *text)
{
    struct buf b;
    buf_init(&b, CLEAN_BYTES_MAX);
    term_clean(&b, text, strlen(text), false);
    if (b.len)
        fwrite(b.data, 1, b.len, out);
    buf_release(&b);
}
