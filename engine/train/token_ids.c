/* SPDX-License-Identifier: Apache-2.0
 *
 * A map over the whole vocabulary, filled in two rounds: first the tokens that a text is made of.
 */
#include "engine/train/token_ids.h"

#include <string.h>

enum { TOKEN_BYTES_MAX = 1 << 20 };

/* "<0x0A>": what some tokenizers have for a byte that is in no other token. */
static bool is_byte(const char *piece, size_t n)
{
    static const char form[] = "<0x__>";
    return n == sizeof form - 1 && memcmp(piece, form, 3) == 0 && piece[n - 1] == '>';
}

static bool is_odd(const struct tokenizer *t, int32_t id)
{
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);
    return tokenizer_is_special(t, id) || (piece && is_byte(piece, n));
}

static int fill(struct token_ids *t, const struct tokenizer *from, bool odd, struct detok *d,
                struct buf *bytes, struct err *e)
{
    int32_t size = (int32_t)tokenizer_size(from);
    for (int32_t id = 0; id < size; id++) {
        buf_clear(bytes);
        if (is_odd(from, id) != odd)
            continue;
        if (detok_bytes(d, id, bytes, e))
            return -1;
        if (bytes->len && !map_get(&t->id, bytes->data, bytes->len))
            map_put(&t->id, bytes->data, bytes->len, (void *)((intptr_t)id + 1));
    }
    return 0;
}

int token_ids_init(struct token_ids *t, const struct tokenizer *from, struct err *e)
{
    struct detok *d = detok_new(from, false);
    struct buf bytes;
    buf_init(&bytes, TOKEN_BYTES_MAX);
    map_init(&t->id);
    int rc = fill(t, from, false, d, &bytes, e) || fill(t, from, true, d, &bytes, e) ? -1 : 0;
    buf_release(&bytes);
    detok_free(d);
    return rc;
}

void token_ids_release(struct token_ids *t)
{
    map_release(&t->id);
}

int32_t token_ids_get(const struct token_ids *t, const char *p, size_t n)
{
    return n ? (int32_t)((intptr_t)map_get(&t->id, p, n) - 1) : -1;
}
