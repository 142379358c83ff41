/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-probabilities are f32, as serving reports them; sums over them f64.
 */
#include "engine/train/seen.h"

#include <math.h>
#include <string.h>

#include "engine/base/mem.h"

int seen_reserve(struct seen **seen, int64_t *cap, int64_t n, struct err *e)
{
    if (n > *cap) {
        mem_free(*seen);
        *seen = try_alloc((size_t)n, sizeof **seen, "a step's losses", e);
        *cap = *seen ? n : 0;
    }
    if (!*seen)
        return -1;
    memset(*seen, 0, (size_t)n * sizeof **seen);
    return 0;
}

double seen_weight(const struct train_row *r, int64_t i)
{
    if (r->label[i] < 0)
        return 0;
    return r->weight ? (double)r->weight[i] : 1;
}

static float logprob_of(const struct k_ce_state *s)
{
    return s->target_logit - k_ce_lse(s);
}

int64_t seen_read(const struct train_row *r, const struct k_ce_state *state, struct seen *seen)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->label[i] < 0)
            continue;
        const struct k_ce_state *s = &state[n++];
        seen[i] = (struct seen){.logprob = logprob_of(s),
                                .was_best = s->best_id == r->label[i],
                                .reference = r->reference ? r->reference[i] : 0};
        seen[i].loss = -seen[i].logprob;
    }
    return n;
}

/* x log x */
static double entropy(double x)
{
    return x > 0 ? x * log(x) : 0;
}

/* Of a label that a teacher gave all its mass each sum has one term, which is the label's loss. */
static double divergence(const int32_t *id, const float *mass, int32_t label, double weight,
                         const struct k_ce_state *state, const struct batch_top *top, int64_t at)
{
    const float *logit = top->logit + at * top->n_top;
    float lse = k_ce_lse(&state[at]);
    double loss = 0, rest = 1, known = 0;
    for (int64_t k = 0; id[k] >= 0; k++) {
        double share = weight * (double)mass[k] + (id[k] == label ? 1 - weight : 0);
        if (share > 0)
            loss -= share * (double)(logit[k] - lse);
        known += entropy((double)mass[k]);
        rest -= (double)mass[k];
    }
    if (rest > 0)
        loss -= weight * rest * (double)k_ce_others(k_ce_lse(&top->others[at]), lse);
    return loss + weight * (known + entropy(rest));
}

void seen_teach(const struct train_row *r, double weight, const struct k_ce_state *state,
                const struct batch_top *top, int64_t at, struct seen *seen)
{
    const int32_t *id = r->top_id;
    const float *mass = r->top;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->label[i] < 0)
            continue;
        if (*id >= 0)
            seen[i].loss = (float)divergence(id, mass, r->label[i], weight, state, top, at);
        for (; *id >= 0; id++)
            mass++;
        id++, mass++, at++;
    }
}

int64_t seen_reference(const struct train_row *r, const struct k_ce_state *state)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        r->reference[i] = r->label[i] < 0 ? 0 : logprob_of(&state[n++]);
    return n;
}

static struct preference_row sum_row(const struct train_row *r, const struct seen *seen)
{
    struct preference_row sum = {0};
    for (int64_t i = 0; i < r->n; i++) {
        if (r->label[i] < 0)
            continue;
        sum.logprob += (double)seen[i].logprob;
        sum.reference += (double)seen[i].reference;
        sum.n_label++;
    }
    return sum;
}

struct preference_pair seen_pair(const struct train_preference *p, const struct train_row row[2],
                                 const struct seen *seen)
{
    const struct preference_row sum[2] = {sum_row(&row[0], seen),
                                          sum_row(&row[1], seen + row[0].n)};
    return preference_of(p, sum);
}

void seen_add(const struct train_row *r, const struct seen *seen, struct train_result *sum)
{
    double loss = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double w = seen_weight(r, i);
        loss += w * (double)seen[i].loss;
        sum->accuracy += w * (double)seen[i].was_best;
    }
    sum->loss += loss;
}

void seen_add_pair(const struct train_preference *p, const struct train_row row[2],
                   const struct seen *seen, struct train_result *sum)
{
    struct preference_pair got = seen_pair(p, row, seen);
    sum->loss += got.loss;
    sum->accuracy += got.reward[0] > got.reward[1];
    for (int k = 0; k < 2; k++) {
        sum->reward[k] += got.reward[k];
        sum->n_reward[k]++;
    }
}

struct preference_verdict seen_verdict(const struct train_preference *p, const struct train_row *r,
                                       const struct seen *seen, double kl)
{
    const struct preference_row sum = sum_row(r, seen);
    return preference_of_row(p, &sum, r->is_undesirable, kl);
}

void seen_add_verdict(const struct train_preference *p, const struct train_row *r,
                      const struct seen *seen, double kl, struct train_result *sum)
{
    struct preference_verdict got = seen_verdict(p, r, seen, kl);
    sum->loss += got.loss;
    sum->accuracy += got.is_right;
    sum->reward[r->is_undesirable] += got.reward;
    sum->n_reward[r->is_undesirable]++;
}

/* ---- policies ------------------------------------------------------------------------------ */

static double log_ratio_at(const struct train_row *r, const struct seen *seen, int64_t i)
{
    return (double)seen[i].logprob - (double)r->sampled[i];
}

static double log_ratio_of(const struct train_row *r, const struct seen *seen)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->label[i] >= 0)
            sum += log_ratio_at(r, seen, i);
    return sum;
}

static struct policy_token token_at(const struct train_policy *p, const struct train_row *r,
                                    const struct seen *seen, double of_row, int64_t i)
{
    const struct policy_logprobs x = {.now = (double)seen[i].logprob,
                                      .sampled = (double)r->sampled[i],
                                      .reference = (double)seen[i].reference};
    return policy_of(p, r->advantage, p->has_row_ratio ? of_row : x.now - x.sampled, &x);
}

int64_t seen_policy(const struct train_policy *p, const struct train_row *r,
                    const struct seen *seen, float *by)
{
    double of_row = log_ratio_of(r, seen);
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->label[i] >= 0)
            by[n++] = (float)(r->share * token_at(p, r, seen, of_row, i).by);
    return n;
}

/* A row's ratio is one loss, which each of its labels moves whole. */
void seen_add_policy(const struct train_policy *p, const struct train_row *r,
                     const struct seen *seen, struct train_result *sum)
{
    double of_row = log_ratio_of(r, seen), loss = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->label[i] < 0)
            continue;
        struct policy_token t = token_at(p, r, seen, of_row, i);
        loss += p->has_row_ratio && n++ > 0 ? t.penalty : t.loss;
        sum->kl += t.kl;
        sum->n_clipped += t.is_clipped;
        sum->n_moved += exp(log_ratio_at(r, seen, i)) != 1;
    }
    sum->loss += r->share * loss;
}

/* ---- losses of labels ---------------------------------------------------------------------- */

static struct label_told label_at(const struct label_loss *l, const struct train_row *r,
                                  const struct seen *seen, int64_t i)
{
    return label_loss_of(l, (double)r->counts[i], (double)seen[i].logprob,
                         r->sampled ? (double)r->sampled[i] : 0);
}

int64_t seen_labels(const struct label_loss *l, const struct train_row *r, const struct seen *seen,
                    float *by)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->label[i] >= 0)
            by[n++] = (float)label_at(l, r, seen, i).by;
    return n;
}

void seen_add_labels(const struct label_loss *l, const struct train_row *r, const struct seen *seen,
                     struct train_result *sum)
{
    double loss = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->label[i] < 0)
            continue;
        struct label_told t = label_at(l, r, seen, i);
        loss += t.loss;
        sum->n_clipped += t.is_clipped;
        sum->n_moved += t.is_moved;
    }
    sum->loss += loss;
}

void seen_tell(const struct train_row *r, const struct seen *seen, struct train_result *out)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (r->logprob)
            r->logprob[i] = seen[i].logprob;
        if (r->loss)
            r->loss[i] = seen[i].loss;
        if (r->reference)
            r->reference[i] = seen[i].reference;
        out->n_label += r->label[i] >= 0;
    }
    out->n_tok += r->n;
}
