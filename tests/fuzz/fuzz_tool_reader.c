/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's text with calls of tools in it, in any form: the first byte says which form and in
 * pieces of what size it comes. However it is cut it is read alike, and no byte of a text without a
 * call is lost.
 */
#include <string.h>

#include "engine/tools/json_scan.h"
#include "engine/tools/tool_reader.h"
#include "tests/fuzz/fuzz.h"

static const struct tool_spec tool[] = {{.name = "f", .is_allowed = true},
                                        {.name = "get_weather", .is_allowed = true}};
static const char *const form[] = {"hermes",      "mistral",  "mistral_args", "llama3_json",
                                   "phi4_mini",   "gemma4",   "deepseek_v3",  "deepseek_v31",
                                   "qwen3_coder", "glm45",    "minimax_m2",   "deepseek_v32",
                                   "kimi_k2",     "pythonic", "glm47",        "granite"};

static struct tool_reader *read_all(const struct tool_format *f, const char *text, size_t n,
                                    size_t piece, bool streams)
{
    struct err e = ERR_INIT;
    struct tool_reader *r = tool_reader_new(f, tool, 2, streams);
    for (size_t at = 0; at < n; at += piece)
        ASSERT(!tool_reader_push(r, text + at, piece < n - at ? piece : n - at, &e));
    ASSERT(!tool_reader_end(r, &e));
    return r;
}

static void check_same(const struct buf *x, const struct buf *y)
{
    ASSERT(x->len == y->len && (!x->len || !memcmp(x->data, y->data, x->len)));
}

static void check_call(const struct tool_call *c)
{
    struct json_scan s;
    enum json_scan_is is = JSON_SCAN_MORE;
    json_scan_init(&s);
    ASSERT(c->tool);
    for (size_t i = 0; c->is_whole && i < c->arguments.len; i++) {
        ASSERT(is == JSON_SCAN_MORE);
        is = json_scan_byte(&s, c->arguments.data[i]);
    }
    ASSERT(!c->is_whole || (is == JSON_SCAN_DONE && c->arguments.data[0] == '{'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 1 << 16)
        return 0;
    const struct tool_format *f = tool_format_find(form[data[0] & 15]);
    const char *text = (const char *)data + 1;
    size_t n = size - 1, n_call[2];
    for (int streams = 0; streams < 2; streams++) {
        struct tool_reader *x = read_all(f, text, n, n + 1, streams),
                           *y = read_all(f, text, n, (size_t)(data[0] >> 4) + 1, streams);
        struct tool_call *cx = tool_reader_calls(x, &n_call[0]);
        struct tool_call *cy = tool_reader_calls(y, &n_call[1]);
        check_same(tool_reader_words(x), tool_reader_words(y));
        ASSERT(n_call[0] == n_call[1]);
        for (size_t i = 0; i < n_call[0]; i++) {
            check_same(&cx[i].arguments, &cy[i].arguments);
            check_call(&cx[i]);
            ASSERT(streams || cx[i].is_whole);
        }
        if (!n_call[0] && !f->lead) {
            const struct buf *words = tool_reader_words(x);
            ASSERT(words->len == n && (!n || !memcmp(words->data, text, n)));
        }
        tool_reader_free(x);
        tool_reader_free(y);
    }
    return 0;
}
