/* SPDX-License-Identifier: Apache-2.0
 *
 * One row at a time. The row is copied only where something edits it, and cut by the kernels that
 * cut a distribution.
 */
#include "engine/sample/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/sample/cuts.h"
#include "engine/sample/dry.h"
#include "engine/sample/row.h"

/* Below it 1 / temperature leaves f32's range of use: everything but the largest has lost. */
#define TEMPERATURE_LEAST 1e-6

struct sampler {
    const struct kernel_table *kernels; /* borrowed */
    int64_t n_vocab;
    float *row, *prob; /* owned: [n_vocab] */
    int32_t *id;       /* owned: [n_vocab] */
    double *weight;    /* owned: [chunks of the vocabulary] */
    void *scratch;     /* owned: K_SCRATCH_BYTES */
    double mu;         /* of the row in hand */
};

/* The vocabulary is summed in the chunks that op `ce` walks. */
static int64_t chunks(const struct sampler *s)
{
    return (s->n_vocab + K_CE_CHUNK - 1) / K_CE_CHUNK;
}

static int64_t chunk_len(const struct sampler *s, int64_t chunk)
{
    int64_t left = s->n_vocab - chunk * K_CE_CHUNK;
    return left < K_CE_CHUNK ? left : K_CE_CHUNK;
}

struct sampler *sampler_new(int64_t n_vocab, const struct kernel_table *kernels, struct err *e)
{
    struct sampler *s = xcalloc(1, sizeof *s);
    *s = (struct sampler){.kernels = kernels, .n_vocab = n_vocab};
    s->row = try_alloc((size_t)n_vocab, sizeof *s->row, "a row of logits", e);
    s->prob = s->row ? try_alloc((size_t)n_vocab, sizeof *s->prob, "a row of logits", e) : NULL;
    s->id = s->prob ? try_alloc((size_t)n_vocab, sizeof *s->id, "a row of ids", e) : NULL;
    s->weight = s->id ? try_alloc((size_t)chunks(s), sizeof *s->weight, "weights", e) : NULL;
    s->scratch = s->weight ? try_alloc(K_SCRATCH_BYTES, 1, "scratch", e) : NULL;
    if (s->scratch)
        return s;
    sampler_free(s);
    return NULL;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->row);
    mem_free(s->prob);
    mem_free(s->id);
    mem_free(s->weight);
    mem_free(s->scratch);
    free(s);
}

/* ---- parameters ---------------------------------------------------------------------------- */

static int check_range(const char *name, double v, double lo, double hi, struct err *e)
{
    if (v >= lo && v <= hi)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %g is not between %g and %g", name, v, lo, hi);
}

static int check_bias(const struct sample_params *p, int64_t n_vocab, struct err *e)
{
    if (p->n_bias < 0 || p->n_bias > SAMPLE_BIAS_MAX)
        return err_set(e, ERR_TOO_LARGE, "logit_bias: %d entries, at most %d", p->n_bias,
                       SAMPLE_BIAS_MAX);
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || p->bias[i].id >= n_vocab)
            return err_set(e, ERR_BAD_INPUT,
                           "logit_bias: token %d is not in the vocabulary of %lld", p->bias[i].id,
                           (long long)n_vocab);
        if (check_range("logit_bias", (double)p->bias[i].add, -100, 100, e))
            return -1;
        for (int32_t j = 0; j < i; j++)
            if (p->bias[j].id == p->bias[i].id)
                return err_set(e, ERR_BAD_INPUT, "logit_bias: token %d comes twice", p->bias[i].id);
    }
    return 0;
}

static int check_allowed(const struct sample_params *p, int64_t n_vocab, struct err *e)
{
    if (p->n_allow < 0 || p->n_allow > SAMPLE_ALLOW_MAX)
        return err_set(e, ERR_TOO_LARGE, "allowed_token_ids: %d ids, at most %d", p->n_allow,
                       SAMPLE_ALLOW_MAX);
    for (int32_t i = 0; i < p->n_allow; i++)
        if (p->allow[i] < 0 || p->allow[i] >= n_vocab || (i && p->allow[i] <= p->allow[i - 1]))
            return err_set(e, ERR_BAD_INPUT, "allowed_token_ids: %d is not in its place",
                           p->allow[i]);
    return 0;
}

/* Lists, one behind the other: a length and so many tokens. */
static int check_lists(const char *name, const int32_t *at, int32_t n_all, int64_t n_vocab,
                       struct err *e)
{
    if (n_all < 0 || n_all > SAMPLE_LISTS_MAX)
        return err_set(e, ERR_TOO_LARGE, "%s: more than %d tokens", name, SAMPLE_LISTS_MAX);
    for (int32_t i = 0, n = 0; i < n_all; n--, i++) {
        bool is_good = n ? at[i] >= 0 && at[i] < n_vocab : at[i] > 0 && at[i] < n_all - i;
        if (!is_good)
            return err_set(e, ERR_BAD_INPUT, "%s: entry %d is no token", name, i);
        n = n ? n : at[i] + 1;
    }
    return 0;
}

static int check_serial(const struct sample_params *p, struct err *e)
{
    if (check_range("dry_multiplier", p->dry_multiplier, 0, 100, e))
        return -1;
    if (sample_is_dry(p) &&
        (check_range("dry_base", p->dry_base, 1, 100, e) ||
         check_range("dry_allowed_length", (double)p->dry_allowed, 0, INT32_MAX, e)))
        return -1;
    if (p->mirostat != 0 && p->mirostat != 2)
        return err_set(e, ERR_UNSUPPORTED, "mirostat: the second version alone, 2, is there");
    return p->mirostat && (check_range("mirostat_tau", p->mirostat_tau, 0, 100, e) ||
                           check_range("mirostat_eta", p->mirostat_eta, 0, 100, e))
               ? -1
               : 0;
}

static int check_rare(const struct sample_params *p, int64_t n_vocab, struct err *e)
{
    return check_range("top_n_sigma", p->top_n_sigma, -1, 100, e) ||
                   check_range("typical_p", p->typical_p, 0, 1, e) ||
                   check_range("xtc_probability", p->xtc_probability, 0, 1, e) ||
                   check_range("xtc_threshold", p->xtc_threshold, 0, 1, e) ||
                   check_range("dynatemp_range", p->dynatemp_range, 0, 100, e) ||
                   check_range("dynatemp_exponent", p->dynatemp_exponent, 0, 100, e) ||
                   check_serial(p, e) || check_allowed(p, n_vocab, e) ||
                   check_lists("bad_words", p->bad, p->n_bad, n_vocab, e) ||
                   check_lists("dry_sequence_breakers", p->dry_breaker, p->n_dry_breaker, n_vocab,
                               e)
               ? -1
               : 0;
}

int sample_check(const struct sample_params *p, int64_t n_vocab, struct err *e)
{
    if (check_range("temperature", p->temperature, 0, 100, e))
        return -1;
    if (!(p->top_p > 0 && p->top_p <= 1))
        return err_set(e, ERR_BAD_INPUT, "top_p: %g is not above 0 and at most 1", p->top_p);
    if (check_range("min_p", p->min_p, 0, 1, e))
        return -1;
    if (p->top_k < 0)
        return err_set(e, ERR_BAD_INPUT, "top_k: %lld is below 0", (long long)p->top_k);
    if (!(p->repetition > 0 && p->repetition <= 100))
        return err_set(e, ERR_BAD_INPUT, "repetition_penalty: %g is not above 0 and at most 100",
                       p->repetition);
    if (check_range("presence_penalty", p->presence, -2, 2, e) ||
        check_range("frequency_penalty", p->frequency, -2, 2, e))
        return -1;
    return check_bias(p, n_vocab, e) || check_rare(p, n_vocab, e) ? -1 : 0;
}

/* Comparing numbers that a client wrote with the neutral one, exactly, is meant. */
bool sample_wants_seen(const struct sample_params *p)
{
    return p->repetition < 1 || p->repetition > 1 || p->presence < 0 || p->presence > 0 ||
           p->frequency < 0 || p->frequency > 0;
}

static bool is_typical(const struct sample_params *p)
{
    return p->typical_p > 0 && p->typical_p < 1;
}

/* No two tokens have more than a half each. */
static bool is_xtc(const struct sample_params *p)
{
    return p->xtc_probability > 0 && p->xtc_threshold <= 0.5;
}

bool sample_is_serial(const struct sample_params *p)
{
    return sample_is_dry(p) || p->mirostat;
}

static bool has_rare_cut(const struct sample_params *p)
{
    return p->top_n_sigma > 0 || is_typical(p) || is_xtc(p) || p->dynatemp_range > 0;
}

bool sample_is_rare(const struct sample_params *p)
{
    return has_rare_cut(p) || p->n_allow > 0 || p->n_bad > 0 || sample_is_serial(p);
}

/* ---- editing the row ----------------------------------------------------------------------- */

/* An edit cannot make an infinity: those stand for what must not be taken. */
static float clamped(double x)
{
    return (float)fmin(fmax(x, -(double)FLT_MAX), (double)FLT_MAX);
}

static float penalised(double x, const struct sample_params *p, int32_t n_answer)
{
    x = x > 0 ? x / p->repetition : x * p->repetition;
    x -= p->frequency * n_answer;
    x -= n_answer > 0 ? p->presence : 0;
    return clamped(x);
}

static void penalise(float *row, const struct sample_row *r)
{
    int64_t n;
    const struct seen_token *t = seen_tokens(r->seen, &n);
    for (int64_t i = 0; i < n; i++)
        row[t[i].id] = penalised((double)r->logits[t[i].id], r->params, t[i].n_answer);
    for (int32_t i = 0; i < r->n_ahead; i++) {
        int64_t at = seen_find(r->seen, r->ahead[i]);
        int32_t n_answer = at >= 0 ? t[at].n_answer : 0;
        for (int32_t k = 0; k < r->n_ahead; k++)
            n_answer += r->ahead[k] == r->ahead[i];
        row[r->ahead[i]] = penalised((double)r->logits[r->ahead[i]], r->params, n_answer);
    }
}

/* 32 numbers, of which those of the bits stay. Most words of a mask leave none or nearly all: what
 * is written one by one is the lesser part. */
static void mask_word(float *row, const float *from, uint32_t may)
{
    if (__builtin_popcount(may) > 16) {
        memmove(row, from, 32 * sizeof *row);
        for (uint32_t out = ~may; out; out &= out - 1)
            row[__builtin_ctz(out)] = -INFINITY;
        return;
    }
    float kept[32];
    memcpy(kept, from, sizeof kept);
    for (int i = 0; i < 32; i++)
        row[i] = -INFINITY;
    for (; may; may &= may - 1)
        row[__builtin_ctz(may)] = kept[__builtin_ctz(may)];
}

/* The row of what may be taken; `from` may be the row itself. */
static void apply_mask(float *row, const float *from, int64_t n, const uint32_t *mask)
{
    int64_t whole = n / 32 * 32;
    for (int64_t lo = 0; lo < whole; lo += 32)
        if (mask[lo / 32])
            mask_word(row + lo, from + lo, mask[lo / 32]);
        else
            for (int i = 0; i < 32; i++)
                row[lo + i] = -INFINITY;
    for (int64_t i = whole; i < n; i++)
        row[i] = mask[i / 32] >> i % 32 & 1 ? from[i] : -INFINITY;
}

bool sample_is_greedy(const struct sample_params *p)
{
    return p->temperature < TEMPERATURE_LEAST;
}

bool sample_is_edited(const struct sample_row *r)
{
    return (r->seen && sample_wants_seen(r->params)) || r->params->n_bias > 0 || r->mask ||
           r->n_banned > 0 || sample_is_rare(r->params);
}

bool sample_follows_text(const struct sample_row *r)
{
    return (r->seen && sample_wants_seen(r->params)) || r->mask || r->params->n_bad > 0 ||
           sample_is_serial(r->params);
}

static void apply_allowed(float *row, int64_t n, const int32_t *allow, int32_t n_allow)
{
    for (int64_t i = 0, k = 0; i < n; i++)
        if (k < n_allow && allow[k] == i)
            k++;
        else
            row[i] = -INFINITY;
}

/* A bad word's last token is shut out where the others have just been said. */
static void shut_out_bad(float *row, const struct sample_row *r)
{
    const struct sample_params *p = r->params;
    for (int32_t i = 0; i < p->n_bad; i += p->bad[i] + 1) {
        int32_t before = p->bad[i] - 1;
        const int32_t *word = p->bad + i + 1;
        if (r->n_said >= before &&
            (!before || !memcmp(r->text + r->n_text - before, word, (size_t)before * sizeof *word)))
            row[word[before]] = -INFINITY;
    }
}

static void edit(struct sampler *s, const struct sample_row *r)
{
    const struct sample_params *p = r->params;
    bool is_plain = !(r->seen && sample_wants_seen(p)) && !sample_is_dry(p) && !p->n_bias;
    if (!r->mask || !is_plain)
        memcpy(s->row, r->logits, (size_t)s->n_vocab * sizeof *s->row);
    if (r->seen && sample_wants_seen(p))
        penalise(s->row, r);
    if (sample_is_dry(p))
        dry_edit(p, r->text, r->n_text, r->length, s->id, s->row);
    for (int32_t i = 0; i < p->n_bias; i++)
        s->row[p->bias[i].id] = clamped((double)s->row[p->bias[i].id] + (double)p->bias[i].add);
    if (r->mask)
        apply_mask(s->row, is_plain ? r->logits : s->row, s->n_vocab, r->mask);
    for (int32_t i = 0; i < r->n_banned; i++)
        if (r->banned[i] >= 0 && r->banned[i] < s->n_vocab)
            s->row[r->banned[i]] = -INFINITY;
    if (p->n_allow)
        apply_allowed(s->row, s->n_vocab, p->allow, p->n_allow);
    shut_out_bad(s->row, r);
}

/* ---- drawing ------------------------------------------------------------------------------- */

/* The n_max likeliest that the cuts leave, into s->id and s->prob; returns how many. */
static int32_t cut(struct sampler *s, const float *row, int64_t k, double p, double p_least,
                   int64_t n_max)
{
    int32_t top_k = k < s->n_vocab ? (int32_t)k : 0, n_left = 0;
    float top_p = (float)p, min_p = (float)p_least;
    struct k_top_select a = {.logits = row,
                             .ld = s->n_vocab,
                             .m = 1,
                             .n = s->n_vocab,
                             .top_k = &top_k,
                             .top_p = &top_p,
                             .min_p = &min_p,
                             .id = s->id,
                             .prob = s->prob,
                             .n_left = &n_left,
                             .n_max = n_max};
    kernel_run(s->kernels, K_top_select, &a, s->scratch);
    return n_left;
}

/* n numbers of the row over the temperature, the row's largest at 0, in `to`; where it is 1 the
 * numbers as they are: only differences count. */
static const float *scaled(const struct k_best *best, const float *x, int64_t n, double temperature,
                           float *to)
{
    if (!(temperature < 1) && !(temperature > 1))
        return x;
    row_scale(x, to, n, best->max, (float)(1 / temperature));
    return to;
}

/* Folds n numbers into the state; those at lo = 0 begin it. */
static void fold(struct sampler *s, const float *x, int64_t lo, int64_t n, struct k_ce_state *state)
{
    int32_t none = -1;
    struct k_ce a = {.logits = (float *)(uintptr_t)x, /* ce_fwd only reads them */
                     .ld = n,
                     .m = 1,
                     .lo = lo,
                     .n = n,
                     .target = &none,
                     .state = state};
    kernel_run(s->kernels, K_ce_fwd, &a, s->scratch);
}

/* No cut: first the weight of each chunk of the vocabulary, then a draw within the one that is hit.
 * So the exponentials of a row are summed where it lies in cache, and never written. */
static int32_t draw_of_all(struct sampler *s, const struct k_best *best, const float *row,
                           double temperature, double u)
{
    double left = 0, top = temperature < 1 || temperature > 1 ? 0 : (double)best->max;
    int64_t hit = 0, at = 0; /* hit: a chunk with weight */
    for (int64_t c = 0; c < chunks(s); c++) {
        struct k_ce_state state;
        int64_t n = chunk_len(s, c);
        fold(s, scaled(best, row + c * K_CE_CHUNK, n, temperature, s->prob), 0, n, &state);
        s->weight[c] = state.sum > 0 ? (double)state.sum * exp((double)state.max - top) : 0;
        left += s->weight[c];
    }
    for (left *= u; at < chunks(s) && left >= s->weight[at]; at++) {
        if (s->weight[at] > 0)
            hit = at;
        left -= s->weight[at];
    }
    hit = at < chunks(s) ? at : hit;
    int64_t lo = hit * K_CE_CHUNK, n = chunk_len(s, hit);
    struct k_softmax a = {
        .x = scaled(best, row + lo, n, temperature, s->prob), .y = s->prob, .m = 1, .d = n};
    kernel_run(s->kernels, K_softmax, &a, s->scratch);
    return (int32_t)(lo + row_draw(s->prob, n, left / s->weight[hit]));
}

static int32_t draw(struct sampler *s, const struct sample_params *p, const float *row,
                    const struct k_best *best, uint64_t place)
{
    double u = rng_unit(p->seed, 0, place);
    if (p->top_k == 0 && p->top_p >= 1 && p->min_p <= 0)
        return draw_of_all(s, best, row, p->temperature, u);
    row = scaled(best, row, s->n_vocab, p->temperature, s->row);
    int32_t n = cut(s, row, p->top_k, p->top_p, p->min_p, s->n_vocab);
    return s->id[row_draw(s->prob, n, u)];
}

/* What surprises by more than mu bits is out; by as much as what is drawn surprises beside what it
 * was to, mu moves. */
static int32_t draw_mirostat(struct sampler *s, const struct sample_params *p,
                             const struct k_best *best, uint64_t place)
{
    const float *row = scaled(best, s->row, s->n_vocab, p->temperature, s->row);
    int32_t n = cut_surprise(s->prob, cut(s, row, 0, 1, 0, s->n_vocab), s->mu);
    int64_t at = row_draw(s->prob, n, rng_unit(p->seed, 0, place));
    s->mu -= p->mirostat_eta * (cut_bits(s->prob, n, at) - p->mirostat_tau);
    return s->id[at];
}

/* The same with the cuts that are the host's own; s->row was edited. */
static int32_t draw_rare(struct sampler *s, const struct sample_params *p,
                         const struct k_best *best, uint64_t place)
{
    double temperature = p->temperature;
    bool whole = is_typical(p);
    if (p->top_n_sigma > 0)
        cut_sigma(s->row, s->n_vocab, p->top_n_sigma);
    if (p->dynatemp_range > 0)
        temperature = cut_temperature(s->row, s->n_vocab, temperature, p->dynatemp_range,
                                      p->dynatemp_exponent);
    temperature = fmax(temperature, TEMPERATURE_LEAST);
    const float *row = scaled(best, s->row, s->n_vocab, temperature, s->row);
    int32_t n = cut(s, row, p->top_k, whole ? 1 : p->top_p, whole ? 0 : p->min_p, s->n_vocab);
    if (whole) {
        n = cut_typical(s->id, s->prob, n, p->typical_p);
        /* of those that are left */
        n = cut_tail(s->prob, n, p->top_p, p->min_p);
    }
    if (is_xtc(p) && rng_unit(p->seed, 1, place) < p->xtc_probability)
        n = cut_top(s->id, s->prob, n, p->xtc_threshold);
    return s->id[row_draw(s->prob, n, rng_unit(p->seed, 0, place))];
}

static struct k_best best_of(struct sampler *s, const float *row)
{
    struct k_best best;
    struct k_argmax a = {.x = row, .ld = s->n_vocab, .m = 1, .n = s->n_vocab, .best = &best};
    kernel_run(s->kernels, K_argmax, &a, s->scratch);
    return best;
}

static int32_t find(struct sampler *s, const struct sample_row *r, struct k_best best)
{
    const float *row = r->logits;
    if (r->drawn)
        return *r->drawn;
    if (sample_is_edited(r)) {
        edit(s, r);
        row = s->row;
        best = best_of(s, row);
    }
    if (best.id < 0 || sample_is_greedy(r->params))
        return best.id;
    if (r->params->mirostat)
        return draw_mirostat(s, r->params, &best, r->place);
    return has_rare_cut(r->params) ? draw_rare(s, r->params, &best, r->place)
                                   : draw(s, r->params, row, &best, r->place);
}

static int take(struct sampler *s, const struct sample_row *r, struct k_best best, int32_t *id,
                struct err *e)
{
    *id = find(s, r, best);
    return *id >= 0 ? 0 : err_set(e, ERR_BAD_INPUT, "no token may follow: the mask leaves none");
}

/* ---- log-probabilities --------------------------------------------------------------------- */

/* The row's log-sum-exp as op `ce` folds it, chunk by chunk. */
static float log_sum(struct sampler *s, const float *logits)
{
    struct k_ce_state state;
    for (int64_t c = 0; c < chunks(s); c++)
        fold(s, logits + c * K_CE_CHUNK, c * K_CE_CHUNK, chunk_len(s, c), &state);
    return k_ce_lse(&state);
}

static float logit_of(const struct sample_row *r, int32_t id)
{
    return r->logit ? *r->logit : r->logits[id];
}

static void score(struct sampler *s, const struct sample_row *r, int32_t n_top,
                  struct sample_taken *t)
{
    float lse = r->state ? k_ce_lse(r->state) : log_sum(s, r->logits);
    t->logprob = logit_of(r, t->id) - lse;
    t->n_top = n_top > 0 && !r->top_id ? cut(s, r->logits, n_top, 1, 0, n_top) : n_top;
    for (int32_t i = 0; i < t->n_top; i++)
        t->top[i] = r->top_id ? (struct sample_top){r->top_id[i], r->top_logit[i] - lse}
                              : (struct sample_top){s->id[i], r->logits[s->id[i]] - lse};
}

static int find_best(struct sampler *s, const struct sample_row *r, struct k_best *best,
                     struct err *e)
{
    *best = r->best ? *r->best : best_of(s, r->logits);
    if (best->is_finite)
        return 0;
    return err_set(e, ERR_DIVERGED, "the model's logits are not finite: its weights overflow here");
}

/* Its place in the order that the likeliest are listed in: descending, ties by lower id. */
static int32_t rank_of(const float *logits, int64_t n, int32_t id)
{
    int32_t rank = 1;
    float x = logits[id];
    for (int64_t i = 0; i < n; i++)
        rank += logits[i] > x || (i < id && logits[i] >= x);
    return rank;
}

bool sample_needs_logits(const struct sample_row *r)
{
    return r->mask || r->wants_rank || sample_is_rare(r->params) ||
           (sample_is_edited(r) && (r->wants_logprob || r->n_top > 0));
}

/* ---- the face ------------------------------------------------------------------------------ */

static int32_t top_count(const struct sampler *s, int32_t n)
{
    ASSERT(n >= 0 && n <= SAMPLE_TOP_MAX);
    return n < s->n_vocab ? n : (int32_t)s->n_vocab;
}

int sampler_next(struct sampler *s, const struct sample_row *r, struct sample_taken *t,
                 struct err *e)
{
    struct k_best best;
    *t = (struct sample_taken){.id = -1};
    s->mu = r->mu;
    if (find_best(s, r, &best, e) || take(s, r, best, &t->id, e))
        return -1;
    t->mu = s->mu;
    if (r->wants_logprob || r->n_top > 0)
        score(s, r, top_count(s, r->n_top), t);
    return 0;
}

int sampler_score_row(struct sampler *s, const struct sample_row *r, int32_t id,
                      struct sample_taken *t, struct err *e)
{
    struct k_best best;
    *t = (struct sample_taken){.id = id};
    ASSERT(id >= 0 && id < s->n_vocab);
    if (find_best(s, r, &best, e))
        return -1;
    score(s, r, top_count(s, r->n_top), t);
    if (r->wants_rank)
        t->rank = rank_of(r->logits, s->n_vocab, id);
    return 0;
}

int sampler_score(struct sampler *s, const float *logits, int32_t id, int32_t n_top,
                  struct sample_taken *t, struct err *e)
{
    return sampler_score_row(s, &(struct sample_row){.logits = logits, .n_top = n_top}, id, t, e);
}
