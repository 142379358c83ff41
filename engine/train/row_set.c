/* SPDX-License-Identifier: Apache-2.0
 *
 * What is usable is found once; the room of a batch is made once, for the longest usable rows.
 */
#include "engine/train/row_set.h"

#include <math.h>
#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"

/* What a set needs room for. */
struct need {
    int64_t n, longest, cap_row, n_reference;
    bool has_samples, has_weights, has_teacher;
};

/* What is known of rows that come again. */
static bool has_reference(const struct dataset *d)
{
    return d->opt.has_pairs || d->opt.has_verdicts;
}

static struct need need_of(const struct dataset *d, int64_t batch)
{
    struct need need = {.n_reference = has_reference(d) ? (int64_t)d->id.n : 0,
                        .has_samples = d->opt.n_sample > 0,
                        .has_weights = d->has_weights,
                        .has_teacher = d->n_top > 0};
    for (size_t i = 0; i < d->row.n; i++) {
        const struct dataset_row *r = &d->row.at[i];
        if (r->n_learn == 0)
            continue;
        need.n++;
        need.longest = r->n > need.longest ? r->n : need.longest;
    }
    batch *= dataset_n_each(d);
    need.cap_row = batch < need.n ? batch : need.n;
    need.n /= dataset_n_each(d);
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
    s->reference =
        carve(&c, need->has_samples ? s->cap_tok : need->n_reference, sizeof *s->reference);
    s->id = carve(&c, need->has_samples ? s->cap_tok : 0, sizeof *s->id);
    s->sampled = carve(&c, need->has_samples ? s->cap_tok : 0, sizeof *s->sampled);
    s->weight = carve(&c, need->has_weights ? s->cap_tok : 0, sizeof *s->weight);
    s->loss = carve(&c, need->has_teacher ? s->cap_tok : 0, sizeof *s->loss);
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
    *s = (struct row_set){.data = d, .n_each = dataset_n_each(d)};
    s->block = try_alloc(lay_out(s, &need, NULL), 1, "a batch of rows", e);
    if (!s->block)
        return -1;
    lay_out(s, &need, s->block);
    for (size_t i = 0; i < d->row.n; i += (size_t)s->n_each)
        if (d->row.at[i].n_learn > 0)
            s->usable[s->n++] = (int64_t)i;
    for (size_t i = 0; i < d->row.n && has_reference(d); i++)
        s->reference[d->row.at[i].at] = NAN;
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

/* A sample's text is not known yet, nor is what the reference says of it. */
static void put_sample(struct row_set *s, struct train_row *row)
{
    int32_t *id = s->id + s->n_tok;
    memcpy(id, row->id, (size_t)row->n * sizeof *id);
    row->id = id;
    row->sampled = s->sampled + s->n_tok;
    row->reference = s->reference + s->n_tok;
    row->reference[0] = NAN;
}

static float *put_weight(struct row_set *s, const struct dataset_row *r)
{
    float *weight = s->weight + s->n_tok;
    for (int64_t i = 0; i < r->n; i++)
        weight[i] = r->weight;
    return weight;
}

static void put(struct row_set *s, int64_t at)
{
    const struct dataset_row *r = &s->data->row.at[at];
    struct train_row *row = &s->row[s->n_row];
    *row = dataset_get(s->data, (size_t)at, s->label + s->n_tok);
    row->logprob = s->logprob + s->n_tok;
    row->loss = s->data->n_top ? s->loss + s->n_tok : NULL;
    row->reference = has_reference(s->data) ? s->reference + r->at : NULL;
    row->is_undesirable = r->is_undesirable;
    if (s->data->has_weights)
        row->weight = put_weight(s, r);
    if (s->data->opt.n_sample)
        put_sample(s, row);
    s->example[s->n_row++] = r->example ? r->example : at / s->n_each + 1;
    s->n_tok += r->n;
}

bool row_set_add(struct row_set *s, int64_t i)
{
    int64_t at = s->usable[i], n = 0;
    for (int64_t k = 0; k < s->n_each; k++)
        n += s->data->row.at[at + k].n;
    if (s->n_row + s->n_each > s->cap_row || n > s->cap_tok - s->n_tok)
        return false;
    for (int64_t k = 0; k < s->n_each; k++)
        put(s, at + k);
    return true;
}

/* Where row i stands in the arrays of all rows. */
static int64_t place_of(const struct row_set *s, int64_t i)
{
    return s->row[i].label - s->label;
}

int64_t row_set_prompt(const struct row_set *s, int64_t i)
{
    int64_t at = place_of(s, i), n = 1;
    while (s->label[at + n - 1] < 0)
        n++;
    return n;
}

const char *row_set_line(const struct row_set *s, int64_t i, size_t *n)
{
    const struct dataset_row *r = &s->data->row.at[s->row[i].key];
    *n = r->n_text;
    return s->data->text.at + r->text_at;
}

void row_set_put(struct row_set *s, int64_t i, int64_t place, int32_t id, float logprob)
{
    int64_t at = place_of(s, i) + row_set_prompt(s, i) + place;
    ASSERT(place < s->data->opt.max_new);
    s->id[at] = id;
    s->label[at - 1] = id;
    s->sampled[at - 1] = logprob;
}

void row_set_end(struct row_set *s, int64_t i, int64_t n)
{
    s->row[i].n = row_set_prompt(s, i) + n;
    s->label[place_of(s, i) + s->row[i].n - 1] = -1;
}
