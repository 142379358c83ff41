/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as serving takes them for vectors and labels: with what the tokenizer adds, two texts in
 * one input as the model's files put them together, cut where serving cuts them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/load/config.h"
#include "engine/train/dataset.h"

enum { TOK_MAX = 1 << 24, DIGEST_FIRST = 4, DIGEST_TARGET };

#define LABEL_MAX 1e9 /* the square of what is beyond leaves no digit of the others */

static const char what[] = "rows to train on";

static int put_row(struct dataset *d, const int32_t *id, size_t n, size_t n_first, bool is_cut,
                   struct err *e)
{
    struct dataset_row r = {.at = d->id.n,
                            .n = (int64_t)n,
                            .n_learn = 1,
                            .example = d->example,
                            .weight = 1,
                            .is_cut = is_cut,
                            .n_first = (int64_t)n_first};
    if (n == 0)
        return err_set(e, ERR_BAD_INPUT, "a text comes to no token");
    if (vec_try_reserve(&d->id, d->id.n + n, what, e) ||
        vec_try_reserve(&d->is_learned, d->id.n + n, what, e) ||
        vec_try_reserve(&d->row, d->row.n + 1, what, e))
        return -1;
    memcpy(d->id.at + d->id.n, id, n * sizeof *id);
    memset(d->is_learned.at + d->is_learned.n, 0, n);
    d->id.n += n;
    d->is_learned.n += n;
    d->row.at[d->row.n++] = r;
    d->digest =
        siphash((struct siphash_key){d->digest, DIGEST_FIRST}, id, n * sizeof *id) ^ n_first;
    d->n_learn++;
    d->n_cut += is_cut;
    d->longest = r.n > d->longest ? r.n : d->longest;
    return 0;
}

static int check_length(const struct dataset *d, size_t n, struct err *e)
{
    if ((int64_t)n <= d->opt.max_tok || d->opt.longer == DATASET_CUT)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "%zu tokens: a text may have %lld", n,
                   (long long)d->opt.max_tok);
}

static int encode(const struct dataset *d, const struct train_example *x, size_t i,
                  bool adds_special, struct tok_list *list, struct err *e)
{
    return tokenizer_encode(d->opt.tokenizer, x->text[i].p, x->text[i].n, false, adds_special, list,
                            e);
}

static int add_one(struct dataset *d, const struct train_example *x, size_t i, struct err *e)
{
    struct tok_list list;
    tok_list_init(&list, TOK_MAX, false);
    int rc = encode(d, x, i, true, &list, e) || check_length(d, list.n, e) ? -1 : 0;
    size_t all = list.n, max = (size_t)d->opt.max_tok;
    if (!rc && all > max) {
        tokenizer_cut(d->opt.tokenizer, &list, max, true);
        d->n_tok_cut += (int64_t)(all - list.n);
    }
    rc = rc || put_row(d, list.id, list.n, 0, all > max, e) ? -1 : 0;
    tok_list_release(&list);
    return rc;
}

/* Both texts in one row. */
static int put_two(struct dataset *d, const struct tok_list list[2], struct err *e)
{
    const struct tokenizer *t = d->opt.tokenizer;
    struct tok_run run[2] = {{list[0].id, list[0].n}, {list[1].id, list[1].n}};
    size_t added = tokenizer_pair_added(t), all = run[0].n + run[1].n + added;
    if (check_length(d, all, e))
        return -1;
    tokenizer_pair_cut(t, (size_t)d->opt.max_tok, &run[0].n, &run[1].n);
    size_t n = run[0].n + run[1].n + added;
    int32_t *id = try_alloc(n + 1, sizeof *id, what, e);
    if (!id)
        return -1;
    size_t n_first = tokenizer_pair_put(t, &run[0], &run[1], id);
    d->n_tok_cut += (int64_t)(all - n);
    int rc = put_row(d, id, n, n_first, n < all, e);
    mem_free(id);
    return rc;
}

static int add_two(struct dataset *d, const struct train_example *x, struct err *e)
{
    struct tok_list list[2];
    tok_list_init(&list[0], TOK_MAX, false);
    tok_list_init(&list[1], TOK_MAX, false);
    int rc = tokenizer_pair_check(d->opt.tokenizer, e) || encode(d, x, 0, false, &list[0], e) ||
                     encode(d, x, 1, false, &list[1], e) || put_two(d, list, e)
                 ? -1
                 : 0;
    tok_list_release(&list[0]);
    tok_list_release(&list[1]);
    return rc;
}

struct dataset_texts dataset_texts_of(const struct config *c, bool has_labels)
{
    struct dataset_texts t = {.loss = TRAIN_CONTRAST, .takes_last = c->pool == POOL_LAST};
    if (!has_labels)
        return t;
    t.n_label = c->n_label;
    t.loss = c->is_regression                                ? TRAIN_SQUARES
             : c->scores == SCORES_SOFTMAX && c->n_label > 1 ? TRAIN_CLASSES
                                                             : TRAIN_SIGMOIDS;
    return t;
}

/* ---- labels -------------------------------------------------------------------------------- */

static int unknown(const struct dataset_texts *o, const char *name, struct err *e)
{
    char known[200] = "";
    size_t at = 0;
    for (int32_t i = 0; i < o->n_label && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", o->label[i]);
    return err_set(e, ERR_BAD_INPUT, "'label': '%.80s' is none of the model's labels: %s%s", name,
                   known, at >= sizeof known ? " ..." : "");
}

/* The place of a label; numbers are places. */
static int place_of(const struct dataset_texts *o, const struct train_label *l, int32_t *out,
                    struct err *e)
{
    for (int32_t i = 0; l->name && i < o->n_label; i++)
        if (strcmp(o->label[i], l->name) == 0)
            return *out = i, 0;
    if (l->name)
        return unknown(o, l->name, e);
    if (l->number >= 0 && l->number < o->n_label && l->number == floor(l->number))
        return *out = (int32_t)l->number, 0;
    return err_set(e, ERR_BAD_INPUT, "'label': %g is no place of the model's %d labels, from 0",
                   l->number, o->n_label);
}

/* Of one label, or of several that are numbers and no classes. */
static int put_numbers(const struct dataset_texts *o, const struct train_example *x, float *to,
                       struct err *e)
{
    if (x->n_label != (size_t)o->n_label)
        return err_set(e, ERR_BAD_INPUT, "'label': %zu of them, the model has %d", x->n_label,
                       o->n_label);
    for (size_t i = 0; i < x->n_label; i++) {
        double v = x->label[i].number;
        if (x->label[i].name)
            return err_set(e, ERR_BAD_INPUT, "'label': must be a number, since the model has %s",
                           o->n_label > 1 ? "numbers for labels" : "one label");
        if (o->loss == TRAIN_SIGMOIDS && (v < 0 || v > 1))
            return err_set(e, ERR_BAD_INPUT, "'label': must be 0 to 1, and is %g", v);
        if (!(fabs(v) <= LABEL_MAX))
            return err_set(e, ERR_BAD_INPUT, "'label': %g is out of range", v);
        to[i] = (float)v;
    }
    return 0;
}

static int put_classes(const struct dataset_texts *o, const struct train_example *x, float *to,
                       struct err *e)
{
    if (o->loss == TRAIN_CLASSES && (x->n_label != 1 || x->has_labels))
        return err_set(e, ERR_BAD_INPUT, "'label': must be one of the model's labels, no list");
    for (size_t i = 0; i < x->n_label; i++) {
        int32_t place = 0;
        if (place_of(o, &x->label[i], &place, e))
            return -1;
        to[place] = 1;
    }
    return 0;
}

/* What the newest row's labels are to be. */
static int put_target(struct dataset *d, const struct train_example *x, struct err *e)
{
    const struct dataset_texts *o = &d->opt.texts;
    size_t n = (size_t)o->n_label;
    bool are_classes = o->n_label > 1 && o->loss != TRAIN_SQUARES;
    if (vec_try_reserve(&d->target, d->target.n + n, what, e))
        return -1;
    float *to = d->target.at + d->target.n;
    memset(to, 0, n * sizeof *to);
    if (are_classes ? put_classes(o, x, to, e) : put_numbers(o, x, to, e))
        return -1;
    d->row.at[d->row.n - 1].target_at = d->target.n;
    d->target.n += n;
    d->digest = siphash((struct siphash_key){d->digest, DIGEST_TARGET}, to, n * sizeof *to);
    return 0;
}

/* ---- examples ------------------------------------------------------------------------------ */

static int add_anchor(struct dataset *d, const struct train_example *x, struct err *e)
{
    int64_t n = (int64_t)x->n_text;
    if (d->n_each && n != d->n_each)
        return err_set(e, ERR_BAD_INPUT, "'negative': %s, but the first example of the file has %s",
                       n == 3 ? "is there" : "is missing", d->n_each == 3 ? "one" : "none");
    d->n_each = n;
    for (size_t i = 0; i < x->n_text; i++)
        if (add_one(d, x, i, e))
            return -1;
    return 0;
}

static int add_labelled(struct dataset *d, const struct train_example *x, struct err *e)
{
    return (x->n_text > 1 ? add_two(d, x, e) : add_one(d, x, 0, e)) || put_target(d, x, e) ? -1 : 0;
}

int dataset_add_texts(struct dataset *d, const struct train_example *x, struct err *e)
{
    const struct dataset then = *d;
    ASSERT(d->opt.texts.loss);
    if (!d->opt.tokenizer)
        return err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer");
    if (!(d->opt.texts.loss == TRAIN_CONTRAST ? add_anchor(d, x, e) : add_labelled(d, x, e)))
        return 0;
    dataset_go_back(d, &then);
    return -1;
}
