/* SPDX-License-Identifier: Apache-2.0
 *
 * What is usable is found once; the room of a batch is made once, for the longest usable rows.
 */
#include "engine/train/row_set.h"

#include "engine/base/carve.h"
#include "engine/base/mem.h"

/* What a set needs room for. */
struct need {
    int64_t n, longest, cap_row;
};

static struct need need_of(const struct dataset *d, int64_t batch)
{
    struct need need = {0};
    for (size_t i = 0; i < d->row.n; i++) {
        const struct dataset_row *r = &d->row.at[i];
        if (r->n_learn == 0)
            continue;
        need.n++;
        need.longest = r->n > need.longest ? r->n : need.longest;
    }
    need.cap_row = batch < need.n ? batch : need.n;
    return need;
}

static size_t lay_out(struct row_set *s, const struct need *need, void *base)
{
    struct carve c = {.base = base};
    s->cap_row = need->cap_row;
    s->cap_tok = need->cap_row * need->longest; /* no more than there are ids */
    s->usable = carve(&c, need->n, sizeof *s->usable);
    s->row = carve(&c, s->cap_row, sizeof *s->row);
    s->example = carve(&c, s->cap_row, sizeof *s->example);
    s->label = carve(&c, s->cap_tok, sizeof *s->label);
    s->logprob = carve(&c, s->cap_tok, sizeof *s->logprob);
    return c.at;
}

size_t row_set_bytes(const struct dataset *d, int64_t batch)
{
    struct need need = need_of(d, batch);
    struct row_set unused;
    return lay_out(&unused, &need, NULL);
}

int row_set_init(struct row_set *s, const struct dataset *d, int64_t batch, struct err *e)
{
    struct need need = need_of(d, batch);
    *s = (struct row_set){.data = d};
    s->block = try_alloc(lay_out(s, &need, NULL), 1, "a batch of rows", e);
    if (!s->block)
        return -1;
    lay_out(s, &need, s->block);
    for (size_t i = 0; i < d->row.n; i++)
        if (d->row.at[i].n_learn > 0)
            s->usable[s->n++] = (int64_t)i;
    return 0;
}

void row_set_release(struct row_set *s)
{
    mem_free(s->block);
    *s = (struct row_set){0};
}

void row_set_clear(struct row_set *s)
{
    s->n_row = s->n_tok = 0;
}

bool row_set_add(struct row_set *s, int64_t i)
{
    int64_t at = s->usable[i];
    const struct dataset_row *r = &s->data->row.at[at];
    if (s->n_row == s->cap_row || r->n > s->cap_tok - s->n_tok)
        return false;
    struct train_row *row = &s->row[s->n_row];
    *row = dataset_get(s->data, (size_t)at, s->label + s->n_tok);
    row->logprob = s->logprob + s->n_tok;
    s->example[s->n_row++] = r->example ? r->example : at + 1;
    s->n_tok += r->n;
    return true;
}
