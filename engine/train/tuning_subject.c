/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers go into the digest as text with all their bits, names whole, each with what ends it.
 */
#include "engine/train/tuning_subject.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of any number that printf writes with %lld, %llx, %d or %a. */
enum { NUMBER_BYTES = 32 };

static __attribute__((format(printf, 2, 3))) void add(struct sha256 *s, const char *format, ...)
{
    char text[NUMBER_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ASSERT(n >= 0 && n < (int)sizeof text);
    sha256_add(s, text, (size_t)n);
}

static void add_lora(struct sha256 *s, const struct train_lora *l)
{
    add(s, "%lld ", (long long)l->rank);
    add(s, "%a ", l->alpha);
    add(s, "%a ", l->dropout);
    if (l->lr_ratio > 0) /* nothing where there is none, as below */
        add(s, "plus %a ", l->lr_ratio);
    if (l->is_dora)
        add(s, "%s", "dora ");
    if (l->saves)
        add(s, "saves %d ", (int)l->saves);
    add(s, "%d|", l->is_rs);
}

static void add_train(struct sha256 *s, const struct train_options *t)
{
    const double number[] = {t->beta1, t->beta2, t->eps, t->decay, t->max_norm};
    add(s, "%a ", t->lr);
    add(s, "%d ", (int)t->schedule);
    if (t->warmup) /* trainings of a time when its first step was above 0 are others */
        add(s, "%s", "from 0 to ");
    add(s, "%lld ", (long long)t->warmup);
    add(s, "%lld ", (long long)t->n_step);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        add(s, "%a ", number[i]);
    if (t->noise > 0)
        add(s, "noise %a ", t->noise);
    add(s, "%llu ", (unsigned long long)t->seed);
    add(s, "%lld|", (long long)t->cap_tok);
    if (t->has_codes)
        add(s, "%s", "moments of 8 bits|");
}

/* Nothing where there is none: so trainings of a time without it go on. */
static void add_preference(struct sha256 *s, const struct train_preference *p)
{
    if (!train_has_preference(p))
        return;
    add(s, "preference %d ", (int)p->loss);
    add(s, "%a ", p->beta);
    add(s, "%a|", p->gamma);
    if (!train_has_verdicts(p))
        return;
    add(s, "%a ", p->desirable);
    add(s, "%a|", p->undesirable);
}

static void add_distill(struct sha256 *s, const struct tuning_options *o)
{
    if (tuning_n_top(o))
        add(s, "distill %a|", o->train.distill);
}

static void add_policy(struct sha256 *s, const struct train_policy *p)
{
    if (!p->is_on)
        return;
    add(s, "policy %d ", p->has_row_ratio);
    add(s, "%a ", p->clip_low);
    add(s, "%a ", p->clip_high);
    add(s, "%a|", p->kl);
}

static void add_vectors(struct sha256 *s, const struct train_vectors *v)
{
    if (!train_has_vectors(v))
        return;
    add(s, "vectors %d ", (int)v->loss);
    add(s, "%a ", v->scale);
    add(s, "%lld|", (long long)v->n_each);
}

static void add_ancestor(struct sha256 *s, const struct train_ancestor *a)
{
    if (!a->dir)
        return;
    add(s, "%s", "ancestor ");
    sha256_add(s, a->digest, strlen(a->digest));
}

static void add_end(struct sha256 *s, const struct tuning_options *o)
{
    if (!o->keeps_best && o->patience == 0)
        return;
    add(s, "best %d ", o->keeps_best);
    add(s, "%lld|", (long long)o->patience);
    if (o->judge_every)
        add(s, "every %lld|", (long long)o->judge_every);
}

void tuning_subject(const struct tuning_options *o, char text[SHA256_TEXT_BYTES])
{
    const struct train_lora *l = &o->train.lora;
    uint8_t digest[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    add_lora(&s, l);
    add_train(&s, &o->train);
    add_preference(&s, &o->train.preference);
    add_distill(&s, o);
    add_policy(&s, &o->train.policy);
    add_vectors(&s, &o->train.vectors);
    add_ancestor(&s, &o->ancestor);
    add_end(&s, o);
    add(&s, "%lld ", (long long)o->n_epoch);
    add(&s, "%lld ", (long long)o->batch);
    add(&s, "%llx|", (unsigned long long)o->data->digest);
    for (int32_t i = 0; i < l->n_target; i++) {
        sha256_add(&s, l->target[i], strlen(l->target[i]));
        sha256_add(&s, ",", 1);
    }
    sha256_end(&s, digest);
    sha256_text(digest, text);
}
