/* SPDX-License-Identifier: Apache-2.0
 *
 * Of each learned token of a row that a teacher spoke of stands what it named there, one behind the
 * other.
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

/* At each token that is learned what was named there, and -1 behind it: memory follows what the
 * file says, however much more is said of one token than of others. Gives the most that were named
 * at one; -1: an error. */
static int32_t put_all(struct dataset *d, const struct dataset_row *r, const struct taught *said,
                       size_t n, struct err *e)
{
    int32_t id[TRAIN_TOP_MAX], most = 0;
    float mass[TRAIN_TOP_MAX];
    for (size_t i = 0; i < (size_t)r->n; i++) {
        if (!d->is_learned.at[r->at + i])
            continue;
        int32_t here = top_of(d, said, n, i, id, mass, e);
        size_t all = d->top.n + (size_t)(here < 0 ? 0 : here) + 1;
        if (here < 0 || vec_try_reserve(&d->top_id, all, what, e) ||
            vec_try_reserve(&d->top, all, what, e))
            return -1;
        for (int32_t k = 0; k <= here; k++) {
            d->top_id.at[d->top_id.n++] = k < here ? id[k] : -1;
            d->top.at[d->top.n++] = k < here ? mass[k] : 0;
        }
        most = here > most ? here : most;
    }
    return most;
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
    size_t at = d->top.n;
    int32_t most = put_all(d, r, said, n, e);
    if (most <= 0) {
        d->top_id.n = d->top.n = at;
        return most;
    }
    r->top_at = at;
    r->n_top = most;
    d->n_top = most > d->n_top ? most : d->n_top;
    d->n_taught++;
    digest(d, r);
    return 0;
}
