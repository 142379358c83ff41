/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json. A file that is taken must tokenize and decode: ids in range, spans inside the
 * text, valid UTF-8.
 */
#include <string.h>

#include "engine/token/tokenizer.h"
#include "engine/token/utf8.h"
#include "tests/fuzz/fuzz.h"

static const char text[] = "The keeper's  lamps: 1592\n\n<s> \xc3\xa9 e\xcc\x81 \xe7\x81\xaf"
                           "\xf0\x9f\x98\x80 <|end|> \xe2\x96\x81 abba \xff";

static void check_text(const struct tokenizer *t, const struct tok_list *l)
{
    struct buf out;
    struct err e = ERR_INIT;
    buf_init(&out, 1 << 20);
    if (tokenizer_decode(t, l->id, l->n, false, &out, &e) == 0 && out.len)
        ASSERT(utf8_valid((uint8_t *)out.data, out.len) == out.len);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct tok_list l;
    struct tokenizer *t = tokenizer_parse((const char *)data, size, &e);
    if (!t)
        return 0;
    tok_list_init(&l, 10000, true);
    if (tokenizer_encode(t, text, sizeof text - 1, true, true, &l, &e) == 0) {
        for (size_t i = 0; i < l.n; i++) {
            ASSERT(l.id[i] >= 0 && (size_t)l.id[i] < tokenizer_size(t));
            ASSERT(l.span[i].lo <= l.span[i].hi && l.span[i].hi < sizeof text);
        }
        check_text(t, &l);
    }
    tok_list_release(&l);
    tokenizer_free(t);
    return 0;
}
