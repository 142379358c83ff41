/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer's words on a terminal's lines, which are told from what a small terminal of our own
 * shows. Faults they can catch: a word that is broken; one that is shown twice, or of which a part
 * stays behind; a line that is wider than it may be; a space or a character that is lost; code that
 * is wrapped; a style that is on another word; half of a wide character; a piece's end that changes
 * the lines; a line that the terminal changed itself.
 */
#include "clients/remote/wrap.h"

#include <stdlib.h>
#include <string.h>

#include "clients/remote/markdown.h"
#include "tests/lib/test.h"

enum { LINES = 64, CELLS = 256, SHOWN_BYTES = 1 << 14 };

/* A cell has a character's bytes, "" behind a wide one. Where a line is full the cursor stays on
 * its last cell until something comes. */
struct screen {
    char cell[LINES][CELLS][24];
    int line, column, width;
    bool is_full, is_folded[LINES]; /* by the terminal */
};

/* n bytes behind what a text has. */
static void add(char *text, size_t room, const char *more, size_t n)
{
    size_t at = strlen(text);
    assert_true(at + n < room);
    memcpy(text + at, more, n);
    text[at + n] = 0;
}

static void go_on(struct screen *s, bool is_folded)
{
    s->line++;
    s->column = 0;
    s->is_full = false;
    assert_true(s->line < LINES);
    s->is_folded[s->line] = is_folded;
}

static void show(struct screen *s, const char *text, size_t n, int columns)
{
    if (columns == 0) {
        char *cell = s->cell[s->line][s->column - !s->is_full];
        add(cell, sizeof s->cell[0][0], text, n);
        return;
    }
    if (s->is_full || s->column + columns > s->width)
        go_on(s, true);
    snprintf(s->cell[s->line][s->column], sizeof s->cell[0][0], "%.*s", (int)n, text);
    if (columns == 2)
        s->cell[s->line][s->column + 1][0] = 0;
    s->is_full = s->column + columns == s->width;
    s->column += s->is_full ? columns - 1 : columns;
}

/* What begins with an escape; its bytes. */
static size_t obey(struct screen *s, const char *text)
{
    char *end;
    int n = (int)strtol(text + 2, &end, 10);
    if (*end == 'D') {
        s->column -= n;
        s->is_full = false;
        assert_true(s->column >= 0);
    } else if (*end == 'K') {
        for (int i = s->column; i < CELLS; i++)
            s->cell[s->line][i][0] = 0;
    } else {
        assert_int_equal(*end, 'm');
    }
    return (size_t)(end + 1 - text);
}

static void feed(struct screen *s, const char *text, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = 1;
        if (text[i] == '\n') {
            go_on(s, false);
        } else if (text[i] == '\t') {
            do
                show(s, " ", 1, 1);
            while (s->column % 8 > 0);
        } else if (text[i] == '\033') {
            n = obey(s, text + i);
        } else {
            int columns = term_character(text + i, &n);
            show(s, text + i, n, columns);
        }
    }
}

/* Lines with a newline each, those of the terminal's own with a "\\" before it; without spaces at
 * ends. */
static char *lines_of(const struct screen *s)
{
    char *all = calloc(1, SHOWN_BYTES);
    for (int y = 0; y <= s->line; y++) {
        for (int x = 0; x < s->width; x++)
            add(all, SHOWN_BYTES, s->cell[y][x], strlen(s->cell[y][x]));
        size_t n = strlen(all);
        while (n > 0 && all[n - 1] == ' ')
            all[--n] = 0;
        if (y < s->line)
            add(all, SHOWN_BYTES, "\\\n" + !s->is_folded[y + 1], 1 + s->is_folded[y + 1]);
    }
    return all;
}

static void set_width(int columns)
{
    char text[16];
    snprintf(text, sizeof text, "%d", columns);
    setenv("COLUMNS", text, 1);
}

static FILE *out; /* no terminal: COLUMNS says how wide it is */

static struct term term_of(bool has_cursor)
{
    return (struct term){.out = out, .has_cursor = has_cursor, .has_color = true};
}

/* Bytes of characters that begin within `most` bytes: pieces end between characters. */
static size_t whole(const char *text, size_t most)
{
    size_t n = most;
    while (((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static char *shown(const char *text, int width, size_t piece)
{
    struct term t = term_of(true);
    struct screen *s = calloc(1, sizeof *s);
    struct markdown m;
    struct buf b;
    set_width(width);
    s->width = width;
    buf_init(&b, SHOWN_BYTES);
    markdown_init(&m, &t);
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        n = whole(text, left < piece ? left : piece);
        markdown_put(&m, &b, text, n);
    }
    markdown_end(&m, &b);
    feed(s, b.data, b.len);
    buf_release(&b);
    char *lines = lines_of(s);
    free(s);
    return lines;
}

static void check(const char *text, int width, const char *want)
{
    for (size_t piece = 1; piece < 40; piece += 6) {
        char *lines = shown(text, width, piece);
        assert_string_equal(lines, want);
        free(lines);
    }
}

static void test_words(void **state)
{
    (void)state;
    check("one two three four five six seven", 20, "one two three four\nfive six seven");
    check("nineteen columns ok", 20, "nineteen columns ok");
    check("twenty columns are 1", 20, "twenty columns are\n1");
    check("a  b\n\n  indented too far to be in it\n", 20,
          "a  b\n\n  indented too far\nto be in it\n");
    check("one\ttab two\ttabs and more", 20, "one     tab two\ntabs and more");
    check("spaces at the end   \nof a line        ", 20, "spaces at the end\nof a line");
}

static void test_long_words(void **state)
{
    (void)state;
    check("see https://example.org/a/very/long/one and so on", 20,
          "see\nhttps://example.org/\\\na/very/long/one and\nso on");
    check("0123456789012345678901234567890123456789 x", 20,
          "01234567890123456789\\\n01234567890123456789\nx");
    check("12345678901234567890\nx", 20, "12345678901234567890\nx");
}

static void test_wide(void **state)
{
    (void)state;
    check("漢字漢字漢字漢字漢字漢字", 20, "漢字漢字漢字漢字漢\n字漢字");
    check("漢字漢字漢字漢字漢。字", 20, "漢字漢字漢字漢字\n漢。字");
    check("漢字漢字漢字漢字「字」", 20, "漢字漢字漢字漢字\n「字」");
    check("a漢字 in between 漢字 words", 20, "a漢字 in between 漢\n字 words");
    check("it is good to be 👍🏽 here", 20, "it is good to be\n👍🏽 here");
    check("a family 123 👩\u200D👧 too", 20, "a family 123 👩\u200D👧\ntoo");
    check("e\u0301e\u0301e\u0301 nine columns e\u0301e\u0301e\u0301 x", 20,
          "e\u0301e\u0301e\u0301 nine columns\ne\u0301e\u0301e\u0301 x");
}

static void test_blocks(void **state)
{
    (void)state;
    check(
        "a line that is wrapped\n```c\nint a_long_line_of_code = 1; /* x */\n```\na line that is wrapped",
        20,
        "a line that is\nwrapped\n```c\nint a_long_line_of_c\\\node = 1; /* x */\n```\na line that is\nwrapped");
    check("with `code` and **strong words** in it", 20, "with `code` and\n**strong words** in\nit");
}

static void test_styles(void **state)
{
    (void)state;
    struct term t = term_of(true);
    struct markdown m;
    struct buf b;
    const char *text = "some words before`co` **de**";
    set_width(20);
    buf_init(&b, SHOWN_BYTES);
    markdown_init(&m, &t);
    markdown_put(&m, &b, text, strlen(text));
    markdown_end(&m, &b);
    assert_string_equal(b.data,
                        "some words before\033[0m\033[36m`c\033[8D\033[K\n"
                        "\033[0mbefore\033[0m\033[36m`co`\033[0m \033[0m\033[1m**de**\033[0m");
    buf_release(&b);
}

/* Every text has the lines that words alone give, whatever its pieces. */
static void test_drawn(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 200; i++) {
        char text[2048] = "", want[2048] = "";
        int width = 20 + i % 30, column = 0;
        for (int n = 0; n < 60; n++) {
            char word[16] = "";
            seed = seed * 1664525 + 1013904223;
            size_t len = 1 + (seed >> 24) % 12;
            for (size_t k = 0; k < len; k++)
                word[k] = (char)('a' + (n + (int)k) % 26);
            bool has_room = column + 1 + (int)len <= width - 1;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", n ? " " : "", word);
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s",
                     !n         ? ""
                     : has_room ? " "
                                : "\n",
                     word);
            column = n && has_room ? column + 1 + (int)len : (int)len;
        }
        check(text, width, want);
    }
}

static void test_plain(void **state)
{
    (void)state;
    const char *text = "a line that is longer than twenty columns";
    for (int has_cursor = 0; has_cursor < 2; has_cursor++) {
        struct term t = term_of(has_cursor);
        struct markdown m;
        struct buf b;
        set_width(has_cursor ? TERM_WIDTH_MIN - 1 : 20);
        buf_init(&b, SHOWN_BYTES);
        markdown_init(&m, &t);
        markdown_put(&m, &b, text, strlen(text));
        markdown_end(&m, &b);
        assert_string_equal(b.data, text);
        buf_release(&b);
    }
}

/* A terminal that became narrower than its line is not counted on: the line ends behind its word.
 */
static void test_resized(void **state)
{
    (void)state;
    struct term t = term_of(true);
    struct markdown m;
    struct buf b;
    const char *before = "thirty columns are in this lin",
               *behind = "e, and some more of its words";
    for (int to = 20; to <= 60; to += 40) {
        set_width(40);
        buf_init(&b, SHOWN_BYTES);
        markdown_init(&m, &t);
        markdown_put(&m, &b, before, strlen(before));
        set_width(to);
        markdown_put(&m, &b, behind, strlen(behind));
        markdown_end(&m, &b);
        assert_string_equal(
            b.data,
            to == 20
                ? "thirty columns are in this line,\nand some more of it\033[2D\033[K\nits words"
                : "thirty columns are in this line, and some more of its words");
        buf_release(&b);
    }
}

static int open_file(void **state)
{
    (void)state;
    out = tmpfile();
    return out ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    return fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),  cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_wide),   cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_styles), cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_resized)};
    return cmocka_run_group_tests(tests, open_file, close_file);
}
