/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the system what a stream leads to; making texts harmless.
 */
#include "clients/remote/term.h"

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

int term_width(const struct term *t)
{
    struct winsize size;
    bool is_known = ioctl(fileno(t->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    int width = is_known ? size.ws_col : width_set();
    return width < TERM_WIDTH_MIN ? TERM_WIDTH_MIN : width;
}

const char *term_style(const struct term *t, enum term_style style)
{
    static const char *const code[] = {[TERM_PLAIN] = "\033[0m",
                                       [TERM_BOLD] = "\033[1m",
                                       [TERM_DIM] = "\033[2m",
                                       [TERM_GOOD] = "\033[32m",
                                       [TERM_BAD] = "\033[31m"};
    return t->has_color ? code[style] : "";
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

int term_columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += begins_character(*text);
    return n;
}

size_t term_cut(const char *text, int columns)
{
    size_t n = 0;
    for (; text[n]; n++)
        if (begins_character(text[n]) && columns-- <= 0)
            break;
    return n;
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
