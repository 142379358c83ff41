/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's text that may begin with thoughts: the first byte says how the prompt left the model,
 * which marks it has, and in pieces of what size the text comes. However it is cut it is read
 * alike; a text that is behind its thoughts already stays as it is, where it has no channels.
 */
#include <string.h>

#include "engine/tools/think_reader.h"
#include "tests/fuzz/fuzz.h"

static struct think_reader *read_all(const struct think_marks *m, enum think_place place,
                                     const char *text, size_t n, size_t piece)
{
    struct think_reader *r = think_reader_new(m, place);
    for (size_t at = 0; at < n; at += piece)
        think_reader_push(r, text + at, piece < n - at ? piece : n - at);
    think_reader_end(r);
    return r;
}

static bool is_same(const struct buf *b, const char *text, size_t n)
{
    return b->len == n && (!n || !memcmp(b->data, text, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 1 << 16)
        return 0;
    const struct think_marks *m =
        think_marks_told(data[0] & 128 ? "<|channel|>analysis<|message|> <|channel|>final"
                         : data[0] & 4 ? "[/THINK]"
                                       : "</think>");
    enum think_place place = (enum think_place)((data[0] & 3) % 3);
    const char *text = (const char *)data + 1;
    size_t n = size - 1;
    struct think_reader *x = read_all(m, place, text, n, n + 1);
    struct think_reader *y = read_all(m, place, text, n, (size_t)(data[0] >> 3) + 1);
    const struct buf *thoughts = think_reader_thoughts(x), *words = think_reader_words(x);
    ASSERT(is_same(think_reader_thoughts(y), thoughts->data, thoughts->len));
    ASSERT(is_same(think_reader_words(y), words->data, words->len));
    ASSERT(m->say || thoughts->len + words->len <= n); /* headers of calls are written anew */
    ASSERT(m->say || place != THINK_NOT || is_same(words, text, n));
    think_reader_free(x);
    think_reader_free(y);
    return 0;
}
