/* SPDX-License-Identifier: Apache-2.0
 *
 * A row has as many places for each of its learned tokens as the teacher named at most of them.
 */
#include "engine/train/dataset_taught.h"

#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/siphash.h"

static const char what[] = "what teachers said of rows";

static const struct train_teacher *teacher_of(const struct dataset *d, int64_t message)
{
    for (size_t i = 0; i < d->n_teacher; i++)
        if ((int64_t)d->teacher[i].message == message)
            return &d->teacher[i];
    return NULL;
}

static int make_ids(struct dataset *d, struct err *e)
{
    if (d->ids)
        return 0;
    d->ids = xcalloc(1, sizeof *d->ids);
    return token_ids_init(d->ids, d->opt.tokenizer, e);
}

int dataset_hear(struct dataset *d, int64_t message, const struct template_out *text,
                 struct row_part *part, struct taught *out, struct err *e)
{
    const struct train_teacher *of = teacher_of(d, message);
    *out = (struct taught){.of = NULL};
    if (!of)
        return 0;
    if (make_ids(d, e) || taught_init(out, d->ids, of, text, part, e))
        return -1;
    part->given = &out->given;
    return 0;
}

/* What was said of token i of the row. */
static int32_t top_of(const struct dataset *d, const struct taught *said, size_t n, size_t i,
                      int32_t id[TRAIN_TOP_MAX], float mass[TRAIN_TOP_MAX], struct err *e)
{
    for (size_t k = 0; k < n; k++)
        if (said[k].of && i >= said[k].given.at && i - said[k].given.at < said[k].list.n)
            return taught_top(&said[k], d->ids, i - said[k].given.at, id, mass, e);
    return 0;
}

/* Most tokens that were named at one that is learned; -1: an error. */
static int32_t widest(const struct dataset *d, const struct dataset_row *r,
                      const struct taught *said, size_t n, struct err *e)
{
    int32_t id[TRAIN_TOP_MAX], most = 0;
    float mass[TRAIN_TOP_MAX];
    for (size_t i = 0; i < (size_t)r->n; i++) {
        int32_t here = d->is_learned.at[r->at + i] ? top_of(d, said, n, i, id, mass, e) : 0;
        if (here < 0)
            return -1;
        most = here > most ? here : most;
    }
    return most;
}

static void put(struct dataset *d, int32_t n_top, int32_t n, const int32_t *id, const float *mass)
{
    for (int32_t k = 0; k < n_top; k++) {
        d->top_id.at[d->top_id.n++] = k < n ? id[k] : -1;
        d->top.at[d->top.n++] = k < n ? mass[k] : 0;
    }
}

static void digest(struct dataset *d, const struct dataset_row *r)
{
    size_t n = d->top.n - r->top_at;
    const struct siphash_key ids = {d->digest, 5}, masses = {d->digest, 6};
    uint64_t a = siphash(ids, d->top_id.at + r->top_at, n * sizeof *d->top_id.at);
    d->digest = a ^ siphash(masses, d->top.at + r->top_at, n * sizeof *d->top.at);
}

int dataset_teach(struct dataset *d, const struct taught *said, size_t n, struct err *e)
{
    struct dataset_row *r = &d->row.at[d->row.n - 1];
    int32_t id[TRAIN_TOP_MAX], n_top = widest(d, r, said, n, e);
    float mass[TRAIN_TOP_MAX];
    size_t all = d->top.n + (size_t)r->n_learn * (size_t)(n_top > 0 ? n_top : 0);
    if (n_top <= 0)
        return n_top;
    if (vec_try_reserve(&d->top_id, all, what, e) || vec_try_reserve(&d->top, all, what, e))
        return -1;
    r->top_at = d->top.n;
    r->n_top = n_top;
    for (size_t i = 0; i < (size_t)r->n; i++)
        if (d->is_learned.at[r->at + i])
            put(d, n_top, top_of(d, said, n, i, id, mass, e), id, mass);
    d->n_top = n_top > d->n_top ? n_top : d->n_top;
    d->n_taught++;
    digest(d, r);
    return 0;
}
