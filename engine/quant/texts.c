/* SPDX-License-Identifier: Apache-2.0
 *
 * See texts.h.
 */
#include "engine/quant/texts.h"

#include <string.h>

#include "engine/base/mem.h"

enum { HELD_OUT = 8, MICRO_TOK = 1024 };

static const char WHAT[] = "rows of text";

void quant_texts_release(struct quant_texts *t)
{
    vec_release(&t->id);
    vec_release(&t->end);
}

static int add_row(struct quant_texts *t, const int32_t *id, size_t n, struct err *e)
{
    if (t->cap_tok && t->cap_tok - t->id.n < n)
        n = t->cap_tok - t->id.n;
    if (n < 2)
        return 0;
    if (vec_try_reserve(&t->id, t->id.n + n, WHAT, e) ||
        vec_try_push(&t->end, WHAT, e, t->id.n + n))
        return -1;
    memcpy(t->id.at + t->id.n, id, n * sizeof *id);
    t->id.n += n;
    t->longest = (int64_t)n > t->longest ? (int64_t)n : t->longest;
    return 0;
}

int quant_texts_add(struct quant_texts *t, const int32_t *id, size_t n, size_t most, struct err *e)
{
    for (size_t at = 0; at < n; at += most)
        if (add_row(t, id + at, n - at < most ? n - at : most, e))
            return -1;
    return 0;
}

int quant_texts_hold_out(struct quant_texts *from, struct quant_texts *to, struct err *e)
{
    struct quant_texts kept = {.cap_tok = 0};
    int rc = 0;
    for (size_t i = 0; i < from->end.n && !rc; i++) {
        size_t lo = quant_texts_begin(from, i);
        bool is_held = i % HELD_OUT == HELD_OUT - 1;
        rc = add_row(is_held ? to : &kept, from->id.at + lo, from->end.at[i] - lo, e);
    }
    quant_texts_release(from);
    *from = kept;
    return rc;
}

static int64_t cap_tok(const struct quant_texts *t)
{
    return t->longest > MICRO_TOK ? t->longest : MICRO_TOK;
}

struct packed *quant_texts_packed(const struct quant_texts *t, const struct model *m,
                                  struct stream *s, struct err *e)
{
    struct packed_options o = {
        .cap_tok = cap_tok(t), .cap_row = cap_tok(t) / 2, .shares_cells = true};
    return packed_new(m, &o, s, e);
}

int quant_texts_pack(const struct quant_texts *t, size_t *next, bool has_labels, struct packed *p,
                     struct err *e)
{
    int rc = 0;
    int32_t *label = try_alloc((size_t)t->longest, sizeof *label, WHAT, e);
    packed_clear(p);
    for (rc = label ? 0 : -1; !rc && *next < t->end.n; ++*next) {
        size_t lo = quant_texts_begin(t, *next);
        const int32_t *id = t->id.at + lo;
        int64_t n = (int64_t)(t->end.at[*next] - lo);
        if (!packed_fits(p, n) && packed_n_row(p) > 0)
            break;
        for (int64_t i = 0; i < n; i++)
            label[i] = has_labels && i + 1 < n ? id[i + 1] : -1;
        rc = packed_add(p, id, label, NULL, n, 0, e);
    }
    mem_free(label);
    return rc;
}
