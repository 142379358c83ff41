/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain against its definition in f64: what may be drawn, how often, and in which order the
 * links stand.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/sample/ask.h"
#include "engine/sample/sampler.h"

enum { N = 50, DRAWS = 20000 };

static struct kernel_table table;

static struct sampler *make(int64_t n)
{
    struct err e = ERR_INIT;
    struct sampler *s = sampler_new(n, &table, &e);
    assert_non_null(s);
    return s;
}

static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)((i * 37) % N) * 0.12f - 2;
}

static int32_t next(struct sampler *s, const struct sample_row *r)
{
    struct sample_taken t;
    struct err e = ERR_INIT;
    assert_good(sampler_next(s, r, &t, &e), &e);
    return t.id;
}

/* ---- the definition ------------------------------------------------------------------------ */

struct entry {
    double x, p;
    int32_t id;
};

static int by_size(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    if (a->x < b->x || a->x > b->x)
        return a->x > b->x ? -1 : 1;
    return a->id - b->id;
}

/* Of a sorted row: probabilities of the first n, the others 0. */
static void share(struct entry *t, int n)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        t[i].p = i < n ? exp(t[i].x - t[0].x) : 0;
        sum += t[i].p;
    }
    for (int i = 0; i < n; i++)
        t[i].p /= sum;
}

/* prompt and answer: how often each token stands there. */
static void expect(const struct sample_row *r, const int *prompt, const int *answer, double *prob)
{
    const struct sample_params *p = r->params;
    struct entry t[N];
    int n = 0;
    for (int i = 0; i < N; i++) {
        double x = (double)r->logits[i];
        if (prompt[i] || answer[i])
            x = x > 0 ? x / p->repetition : x * p->repetition;
        x -= p->frequency * answer[i] + (answer[i] ? p->presence : 0);
        for (int b = 0; b < p->n_bias; b++)
            x += p->bias[b].id == i ? (double)p->bias[b].add : 0;
        for (int b = 0; b < r->n_banned; b++)
            x = r->banned[b] == i ? -INFINITY : x;
        if (r->mask && !(r->mask[i / 32] >> i % 32 & 1))
            x = -INFINITY;
        t[i] = (struct entry){.x = x / p->temperature, .id = i};
    }
    qsort(t, N, sizeof *t, by_size);
    while (n < N && t[n].x > -INFINITY)
        n++;
    n = p->top_k > 0 && p->top_k < n ? (int)p->top_k : n;
    share(t, n);
    double sum = 0;
    for (int i = 0; i < n; sum += t[i++].p)
        if (i > 0 && p->top_p < 1 && sum >= p->top_p)
            n = i;
    while (n > 1 && t[n - 1].p < p->min_p * t[0].p)
        n--;
    share(t, n);
    for (int i = 0; i < N; i++)
        prob[t[i].id] = t[i].p;
}

static void count_draws(const struct sample_row *r, const int *prompt, const int *answer)
{
    struct sampler *s = make(N);
    struct sample_row row = *r;
    double prob[N];
    int count[N] = {0};
    expect(r, prompt, answer, prob);
    for (int i = 0; i < DRAWS; i++) {
        row.place = (uint64_t)i;
        count[next(s, &row)]++;
    }
    for (int i = 0; i < N; i++) {
        double want = DRAWS * prob[i];
        if (!(prob[i] > 0))
            assert_int_equal(count[i], 0);
        else if (fabs(count[i] - want) > 5 * sqrt(want) + 5)
            fail_msg("token %d: drawn %d times, not about %.1f", i, count[i], want);
    }
    sampler_free(s);
}

/* Faults: links that are swapped, left out or applied twice; a cut that keeps one too many or too
 * few, or cuts by a share of the wrong whole; a draw that does not follow the weights. */
static void draws_follow_the_chain(void **state)
{
    static const struct sample_bias bias[] = {{3, 4}, {49, -100}, {20, -0.5f}};
    static const int32_t banned[] = {9, 44};
    static const uint32_t mask[] = {0xf0f3fdffu, 0xffff0f0fu};
    const struct {
        struct sample_params p;
        bool is_masked, is_banned;
    } at[] = {
        {{.temperature = 1, .top_p = 1, .repetition = 1}, false, false},
        {{.temperature = 0.7, .top_p = 1, .repetition = 1}, false, false},
        {{.temperature = 3, .top_p = 0.8, .repetition = 1}, false, false},
        {{.temperature = 0.5, .top_p = 0.8, .top_k = 6, .repetition = 1}, false, false},
        {{.temperature = 2, .top_p = 0.6, .top_k = 12, .min_p = 0.7, .repetition = 1},
         false,
         false},
        {{.temperature = 1, .top_p = 1, .min_p = 0.3, .repetition = 1}, false, false},
        {{.temperature = 1, .top_p = 1, .top_k = 5, .repetition = 1.7}, false, false},
        {{.temperature = 1, .top_p = 1, .repetition = 1, .presence = 1.5}, false, false},
        {{.temperature = 0.8, .top_p = 0.9, .repetition = 0.8, .frequency = -0.7}, false, false},
        {{.temperature = 1.3, .top_p = 0.7, .repetition = 2, .frequency = 0.3, .presence = -1},
         true,
         true},
        {{.temperature = 1, .top_p = 1, .repetition = 1}, true, false},
        {{.temperature = 1, .top_p = 1, .top_k = 3, .repetition = 1}, false, true},
    };
    struct err e = ERR_INIT;
    float x[N];
    int prompt[N] = {0}, answer[N] = {0};
    (void)state;
    fill(x);
    struct seen *seen = seen_new(100, &e);
    for (int i = 0; i < 30; i++) {
        int32_t id = (i * i) % N;
        if (i < 12)
            seen_prompt(seen, id);
        else
            seen_answer(seen, id);
        (i < 12 ? prompt : answer)[id]++;
    }
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct sample_params p = at[i].p;
        struct sample_row r = {.logits = x, .params = &p, .seen = seen};
        r.mask = at[i].is_masked ? mask : NULL;
        r.banned = banned;
        r.n_banned = at[i].is_banned ? 2 : 0;
        p.seed = i;
        count_draws(&r, prompt, answer);
        p.bias = bias;
        p.n_bias = 3;
        count_draws(&r, prompt, answer);
    }
    seen_free(seen);
}

static int32_t typical_by_hand(const float *x, double p, bool *kept)
{
    struct entry t[N];
    double entropy = 0, sum = 0;
    int32_t n = 0;
    for (int i = 0; i < N; i++)
        t[i] = (struct entry){.x = (double)x[i], .id = i};
    qsort(t, N, sizeof *t, by_size);
    share(t, N);
    for (int i = 0; i < N; i++)
        entropy -= t[i].p * log(t[i].p);
    for (int i = 0; i < N; i++)
        t[i].x = -fabs(-log(t[i].p) - entropy);
    qsort(t, N, sizeof *t, by_size);
    for (; sum < p; sum += t[n++].p)
        kept[t[n].id] = true;
    return n;
}

/* Faults: a floor, or a share of the mass, that cuts the row before the typical ones are known. */
static void typical_ones_are_of_the_whole_row(void **state)
{
    struct sampler *s = make(N);
    struct sample_params p = SAMPLE_PARAMS_INIT;
    bool kept[N] = {0}, drawn[N] = {0};
    float x[N];
    int32_t n = 0;
    (void)state;
    fill(x);
    int32_t want = typical_by_hand(x, 0.5, kept);
    p.temperature = 1;
    p.typical_p = 0.5;
    struct sample_row r = {.logits = x, .params = &p};
    for (r.place = 0; r.place < DRAWS; r.place++)
        drawn[next(s, &r)] = true;
    for (int i = 0; i < N; i++) {
        assert_true(kept[i] || !drawn[i]);
        n += drawn[i];
    }
    assert_true(n == want && want > 5);
    sampler_free(s);
}

/* Faults: a chunk of the vocabulary that is weighed by its own largest, one without weight that is
 * hit, a row that is scaled twice. */
static void draws_reach_every_chunk(void **state)
{
    enum { BIG = 3 * K_CE_CHUNK + 100, WORDS = (BIG + 31) / 32, N_AT = 5 };
    static const int32_t at[N_AT] = {7, K_CE_CHUNK - 1, K_CE_CHUNK, 2 * K_CE_CHUNK + 5, BIG - 1};
    static const float logit[N_AT] = {80, 81, 79.5f, 80.5f, 82};
    struct sampler *s = make(BIG);
    float *x = calloc(BIG, sizeof *x);
    uint32_t mask[WORDS];
    (void)state;
    for (int i = 0; i < N_AT; i++)
        x[at[i]] = logit[i];
    memset(mask, 0xff, sizeof mask);
    for (int i = 2 * K_CE_CHUNK / 32; i < 3 * K_CE_CHUNK / 32; i++)
        mask[i] = 0; /* a chunk of nothing */
    for (int trial = 0; trial < 4; trial++) {
        struct sample_params p = {
            .temperature = trial % 2 ? 0.6 : 1, .top_p = 1, .repetition = 1, .seed = 3};
        struct sample_row r = {.logits = x, .params = &p, .mask = trial / 2 ? mask : NULL};
        int count[N_AT] = {0};
        double sum = 0;
        for (r.place = 0; r.place < DRAWS; r.place++) {
            int32_t id = next(s, &r), i = 0;
            while (i < N_AT && at[i] != id)
                i++;
            assert_true(i < N_AT);
            count[i]++;
        }
        for (int i = 0; i < N_AT; i++)
            sum += r.mask && i == 3 ? 0 : exp((double)logit[i] / p.temperature);
        for (int i = 0; i < N_AT; i++) {
            double want =
                r.mask && i == 3 ? 0 : DRAWS * exp((double)logit[i] / p.temperature) / sum;
            assert_true(fabs(count[i] - want) <= 5 * sqrt(want));
        }
    }
    free(x);
    sampler_free(s);
}

/* ---- penalties by hand --------------------------------------------------------------------- */

/* What the chain makes of token 0's logit before the temperature: where greedy goes over to a rival
 * whose logit nothing edits. */
static double edited(struct sampler *s, struct sample_row r, float logit)
{
    float x[N];
    double lo = -1000, hi = 1000;
    for (int i = 0; i < N; i++)
        x[i] = -5000;
    x[0] = logit;
    r.logits = x;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        x[1] = (float)mid;
        *(next(s, &r) == 0 ? &lo : &hi) = mid;
    }
    return lo;
}

/* Faults: a penalty that raises what it should lower; a negative logit that is divided; presence
 * by count, frequency by presence; the prompt in what only the answer pays for. The values are
 * those of transformers' RepetitionPenaltyLogitsProcessor and of OpenAI's formula. */
static void penalties_by_hand(void **state)
{
    struct sampler *s = make(N);
    struct err e = ERR_INIT;
    struct sample_params p = SAMPLE_PARAMS_INIT;
    struct seen *none = seen_new(4, &e), *prompt = seen_new(4, &e), *both = seen_new(4, &e);
    struct sample_bias bias = {0, 2.5f};
    (void)state;
    seen_prompt(prompt, 0);
    seen_prompt(both, 0);
    for (int i = 0; i < 3; i++)
        seen_answer(both, 0);
    struct sample_row r = {.params = &p};
    p.repetition = 2;
    assert_float_equal(edited(s, r, 3), 3, 1e-4);
    r.seen = none;
    assert_float_equal(edited(s, r, 3), 3, 1e-4);
    r.seen = prompt;
    assert_float_equal(edited(s, r, 3), 1.5, 1e-4);
    assert_float_equal(edited(s, r, -3), -6, 1e-4);
    r.seen = both; /* once, however often it came */
    assert_float_equal(edited(s, r, 3), 1.5, 1e-4);
    p.repetition = 1;
    p.presence = 0.6;
    assert_float_equal(edited(s, r, 3), 2.4, 1e-4);
    p.frequency = 0.5;
    assert_float_equal(edited(s, r, 3), 0.9, 1e-4);
    assert_float_equal(edited(s, r, -3), -5.1, 1e-4);
    r.seen = prompt;
    assert_float_equal(edited(s, r, 3), 3, 1e-4);
    r.seen = both;
    p.repetition = 0.5; /* rewards; the order is repetition, then the others, then the bias */
    p.bias = &bias;
    p.n_bias = 1;
    assert_float_equal(edited(s, r, 3), 6 - 2.1 + 2.5, 1e-4);
    seen_free(none);
    seen_free(prompt);
    seen_free(both);
    sampler_free(s);
}

/* Fault: an edit that overflows to an infinity, which stands for a token that cannot be. */
static void an_edit_stays_finite(void **state)
{
    struct sampler *s = make(N);
    struct err e = ERR_INIT;
    struct sample_params p = {.temperature = 1, .top_p = 1, .repetition = 1e-6};
    struct seen *seen = seen_new(2, &e);
    float x[N];
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = -3e38f;
    x[7] = 3e38f;
    seen_prompt(seen, 7);
    struct sample_row r = {.logits = x, .params = &p, .seen = seen};
    assert_int_equal(next(s, &r), 7);
    p.repetition = 100;
    x[7] = -3e38f;
    for (int i = 0; i < N; i++)
        x[i] = i == 7 ? -3e38f : -3.4e38f;
    r.mask = (uint32_t[2]){1 << 7};
    assert_int_equal(next(s, &r), 7);
    seen_free(seen);
    sampler_free(s);
}

/* ---- masks, ties, edges -------------------------------------------------------------------- */

/* Faults: a bit read from the wrong word or end, bits behind the vocabulary that matter, a masked
 * token that is taken all the same, no error where nothing is left. */
static void a_mask_is_kept(void **state)
{
    enum { BIG = 3000 };
    struct sampler *s = make(BIG);
    float *x = calloc(BIG, sizeof *x);
    uint32_t mask[(BIG + 31) / 32];
    struct sample_params p = SAMPLE_PARAMS_INIT;
    struct sample_row r = {.logits = x, .params = &p, .mask = mask};
    struct sample_taken t;
    struct err e = ERR_INIT;
    (void)state;
    for (int i = 0; i < BIG; i++)
        x[i] = (float)rng_unit(2, 0, (uint64_t)i) * 4;
    for (uint64_t trial = 0; trial < 300; trial++) {
        int32_t only = (int32_t)rng_below(2, 1, trial, BIG), other;
        memset(mask, 0, sizeof mask);
        mask[BIG / 32] = ~UINT32_C(0) << BIG % 32; /* behind the vocabulary */
        mask[only / 32] |= UINT32_C(1) << only % 32;
        p.temperature = trial % 2 ? 1 : 0;
        p.top_k = trial % 3;
        assert_int_equal(next(s, &r), only);
        other = (only + 64) % BIG;
        mask[other / 32] |= UINT32_C(1) << other % 32;
        r.banned = &only;
        r.n_banned = 1;
        assert_int_equal(next(s, &r), other);
        r.n_banned = 0;
    }
    memset(mask, 0, sizeof mask);
    assert_err(sampler_next(s, &r, &t, &e), &e, ERR_BAD_INPUT, "mask");
    free(x);
    sampler_free(s);
}

/* Faults: greedy that prefers the later of equals; a top-k whose tie goes to the higher id; a
 * temperature so small that the row overflows; a temperature of all but 0 that is not greedy. */
static void ties_and_small_temperatures(void **state)
{
    struct sampler *s = make(N);
    struct sample_params p = SAMPLE_PARAMS_INIT;
    float x[N];
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = i == 7 || i == 30 ? 2.0f : 1.0f;
    struct sample_row r = {.logits = x, .params = &p};
    assert_int_equal(next(s, &r), 7);
    static const double small[] = {5e-324, 1e-30, 9e-7};
    for (int i = 0; i < 3; i++) {
        p.temperature = small[i];
        assert_int_equal(next(s, &r), 7);
    }
    p.temperature = 1;
    p.top_k = 1;
    for (r.place = 0; r.place < 100; r.place++)
        assert_int_equal(next(s, &r), 7);
    x[30] = 2.001f;
    x[4] = -3e38f;
    p.top_k = 0;
    p.temperature = 1.1e-6;
    for (r.place = 0; r.place < 100; r.place++)
        assert_int_equal(next(s, &r), 30);
    sampler_free(s);
}

/* Fault: state that a draw leaves behind for the next row. */
static void a_draw_is_a_function(void **state)
{
    struct sampler *s = make(N);
    struct sample_params p = {.temperature = 1, .top_p = 0.9, .seed = 9, .repetition = 1};
    float x[N];
    int32_t first[20];
    (void)state;
    fill(x);
    struct sample_row r = {.logits = x, .params = &p};
    for (r.place = 0; r.place < 20; r.place++)
        first[r.place] = next(s, &r);
    for (r.place = 20; r.place-- > 0;) {
        p.temperature = 2;
        next(s, &r);
        p.temperature = 1;
        assert_int_equal(next(s, &r), first[r.place]);
    }
    p.seed = 10;
    int same = 0;
    for (r.place = 0; r.place < 20; r.place++)
        same += next(s, &r) == first[r.place];
    assert_in_range(same, 0, 15);
    sampler_free(s);
}

/* Faults: a NaN that hides in a tail, an infinity that is taken as the likeliest. */
static void what_is_not_finite_is_an_error(void **state)
{
    enum { BIG = 2100 };
    static const int place[] = {0, 1, 1023, 1024, 2048, 2063, 2064, BIG - 1};
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    struct sampler *s = make(BIG);
    struct sample_params p = SAMPLE_PARAMS_INIT;
    float *x = calloc(BIG, sizeof *x);
    struct sample_row r = {.logits = x, .params = &p};
    struct sample_taken t;
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        for (int k = 0; k < 3; k++) {
            x[place[i]] = odd[k];
            assert_err(sampler_next(s, &r, &t, &e), &e, ERR_DIVERGED, "not finite");
            assert_err(sampler_score(s, x, 3, 1, &t, &e), &e, ERR_DIVERGED, "not finite");
            x[place[i]] = 0;
        }
    }
    assert_good(sampler_next(s, &r, &t, &e), &e);
    free(x);
    sampler_free(s);
}

/* ---- log-probabilities --------------------------------------------------------------------- */

/* Faults: log-probabilities of the edited row; a likeliest that is not sorted; the taken token's
 * that is another's; room for more than the vocabulary has. */
static void logprobs_are_the_models(void **state)
{
    struct sampler *s = make(N);
    struct sample_bias bias = {11, 50};
    struct sample_params p = {.temperature = 0.2, .top_p = 0.5, .repetition = 1};
    struct sample_taken t, known;
    struct err e = ERR_INIT;
    float x[N];
    double sum = 0;
    (void)state;
    fill(x);
    x[5] = x[6] = 3.5f;
    for (int i = 0; i < N; i++)
        sum += exp((double)x[i]);
    p.bias = &bias;
    p.n_bias = 1;
    struct sample_row r = {.logits = x, .params = &p, .wants_logprob = true, .n_top = 20};
    assert_good(sampler_next(s, &r, &t, &e), &e);
    assert_int_equal(t.id, 11);
    assert_float_equal(t.logprob, (double)x[11] - log(sum), 1e-5);
    assert_int_equal(t.n_top, 20);
    for (int i = 0; i < 20; i++) {
        assert_float_equal(t.top[i].logprob, (double)x[t.top[i].id] - log(sum), 1e-5);
        if (i > 0 && !(t.top[i].logprob < t.top[i - 1].logprob))
            assert_true(t.top[i].logprob == t.top[i - 1].logprob && t.top[i].id > t.top[i - 1].id);
    }
    assert_good(sampler_score(s, x, 11, 5, &known, &e), &e);
    assert_memory_equal(&known.logprob, &t.logprob, sizeof t.logprob);
    assert_memory_equal(known.top, t.top, 5 * sizeof *t.top);
    sampler_free(s);
    s = make(3);
    assert_good(sampler_score(s, x, 1, 20, &known, &e), &e);
    assert_int_equal(known.n_top, 3);
    sampler_free(s);
}

/* The chain of a row as a device walks it: what engine/sample/ask.h says, by kernels. */
struct away {
    struct k_best best;
    struct k_ce_state state;
    int32_t id, top_id[3];
    float logit, top_logit[3];
};

static void run(enum kernel_id k, const void *args)
{
    static _Alignas(64) char scratch[K_SCRATCH_BYTES];
    kernel_run(&table, k, args, scratch);
}

static void find_away(const struct sample_row *r, float *x, struct away *a)
{
    static struct k_edit edit[2 * N];
    struct k_edit_row edited = {0};
    struct k_sample_how how = sample_ask(r);
    int32_t none = -1, top_k = 3, n_left;
    float one = 1, zero = 0, prob[3];
    run(K_argmax, &(struct k_argmax){.x = x, .ld = N, .m = 1, .n = N, .best = &a->best});
    run(K_ce_fwd,
        &(struct k_ce){.logits = x, .ld = N, .m = 1, .n = N, .target = &none, .state = &a->state});
    run(K_top_select, &(struct k_top_select){.logits = x,
                                             .ld = N,
                                             .m = 1,
                                             .n = N,
                                             .top_k = &top_k,
                                             .top_p = &one,
                                             .min_p = &zero,
                                             .id = a->top_id,
                                             .prob = prob,
                                             .n_left = &n_left,
                                             .n_max = 3});
    struct k_pick pick = {.x = x, .ld = N, .m = 1, .n = N, .id = a->top_id, .y = a->top_logit};
    pick.n_id = 3;
    run(K_pick, &pick);
    assert_true(sample_ask_edits(r, &edited, edit, 2 * N) >= 0);
    run(K_logit_edit,
        &(struct k_logit_edit){.logits = x, .ld = N, .n = N, .m = 1, .how = &edited, .edit = edit});
    run(K_sample,
        &(struct k_sample){
            .logits = x, .ld = N, .m = 1, .n = N, .how = &how, .best = &a->best, .id = &a->id});
    pick =
        (struct k_pick){.x = x, .ld = N, .m = 1, .n = N, .id = &a->id, .y = &a->logit, .n_id = 1};
    run(K_pick, &pick);
}

/* Faults: a row whose token is taken where it lies gets another one than here, or other bits of
 * its log-probabilities; a link of the chain that a device is not told of, or told wrongly; a guess
 * that counts twice, or not. */
static void what_was_found_elsewhere_serves(void **state)
{
    static const struct sample_bias bias[] = {{3, 4}, {N - 1, -2.5f}, {17, 0.75f}};
    static const int32_t banned[] = {5, -1, N}, ahead[] = {4, 16, 2, 4, N - 2};
    struct sampler *s = make(N);
    struct sample_taken here, there;
    struct err e = ERR_INIT;
    struct seen *seen;
    float x[N], y[N];
    (void)state;
    assert_non_null(seen = seen_new(40, &e));
    for (int32_t i = 0; i < 20; i++)
        i % 3 ? seen_answer(seen, i * i % N) : seen_prompt(seen, i * 7 % N);
    for (int round = 0; round < 400; round++) {
        struct sample_params p = {.temperature = round % 7 * 0.3,
                                  .top_p = round % 3 ? 1 : 0.9,
                                  .min_p = round % 4 == 1 ? 0.02 : 0,
                                  .top_k = round % 5 ? 0 : 12,
                                  .repetition = round % 11 ? 1 : 1.3,
                                  .frequency = round % 13 ? 0 : 0.5,
                                  .presence = round % 17 ? 0 : 0.25,
                                  .bias = bias,
                                  .n_bias = round % 6 ? 0 : 3,
                                  .seed = (uint64_t)round};
        struct sample_row r = {.logits = x,
                               .params = &p,
                               .place = (uint64_t)round % 9,
                               .seen = seen,
                               .ahead = ahead,
                               .n_ahead = round % 6,
                               .banned = banned,
                               .n_banned = round % 8 ? 0 : 3};
        struct away a;
        fill(x);
        memcpy(y, x, sizeof y);
        r.wants_logprob = !sample_is_edited(&r);
        r.n_top = r.wants_logprob ? 3 : 0;
        assert_false(sample_needs_logits(&r));
        assert_good(sampler_next(s, &r, &here, &e), &e);
        find_away(&r, y, &a);
        r.logits = NULL;
        r.best = &a.best;
        r.state = &a.state;
        r.drawn = &a.id;
        r.logit = &a.logit;
        r.top_id = a.top_id;
        r.top_logit = a.top_logit;
        assert_good(sampler_next(s, &r, &there, &e), &e);
        assert_int_equal(here.id, there.id);
        assert_int_equal(here.n_top, there.n_top);
        assert_memory_equal(&here.logprob, &there.logprob, sizeof here.logprob);
        assert_memory_equal(here.top, there.top, (size_t)here.n_top * sizeof *here.top);
    }
    seen_free(seen);
    sampler_free(s);
}

/* Faults: a guess that penalties do not count, count for a prompt's token, or count once of twice.
 */
static void guesses_count_as_what_was_said(void **state)
{
    static const int32_t said[] = {7, 7, 9, 30, 7, 3, 3};
    struct sampler *s = make(N);
    struct sample_taken one, other;
    struct err e = ERR_INIT;
    float x[N];
    (void)state;
    for (int n = 0; n <= 7; n++) {
        struct seen *seen = seen_new(20, &e), *some = seen_new(20, &e);
        struct sample_params p = SAMPLE_PARAMS_INIT;
        struct sample_row r = {.logits = x, .params = &p, .seen = seen};
        p.repetition = 1.2;
        p.frequency = 0.3;
        p.presence = 0.1;
        p.temperature = 1;
        seen_prompt(seen, 30), seen_prompt(some, 30);
        for (int i = 0; i < 7; i++)
            seen_answer(seen, said[i]);
        for (int i = 0; i < n; i++)
            seen_answer(some, said[i]);
        struct sample_row guessed = r;
        guessed.seen = some;
        guessed.ahead = said + n;
        guessed.n_ahead = 7 - n;
        for (uint64_t seed = 0; seed < 300; seed++) {
            fill(x);
            p.seed = seed;
            x[7] = x[9] = x[30] = x[3] = 4;
            assert_good(sampler_next(s, &r, &one, &e), &e);
            assert_good(sampler_next(s, &guessed, &other, &e), &e);
            assert_int_equal(one.id, other.id);
        }
        seen_free(seen), seen_free(some);
    }
    sampler_free(s);
}

/* Faults: a row with a mask or penalties that runs ahead of the tokens they hang on; one without
 * that waits for them. */
static void what_follows_from_the_text_waits_for_it(void **state)
{
    uint32_t mask[(N + 31) / 32] = {1};
    struct sample_params p = SAMPLE_PARAMS_INIT;
    struct err e = ERR_INIT;
    struct seen *seen = seen_new(20, &e);
    struct sample_row r = {.params = &p};
    (void)state;
    assert_false(sample_follows_text(&r));
    r.mask = mask;
    assert_true(sample_follows_text(&r));
    r.mask = NULL;
    r.seen = seen;
    assert_false(sample_follows_text(&r));
    p.presence = 1;
    assert_true(sample_follows_text(&r));
    seen_free(seen);
}

/* Faults: a row that a device would sample wrongly is left to it; one that is not finite, or of
 * which nothing is left, passes for good. */
static void what_was_not_found_is_told(void **state)
{
    struct sampler *s = make(N);
    struct sample_params p = {.temperature = 1, .top_p = 1, .repetition = 1};
    struct k_best best = {.max = 1, .id = 3, .is_finite = 1};
    struct sample_taken t;
    struct err e = ERR_INIT;
    uint32_t mask[(N + 31) / 32] = {1};
    int32_t drawn = -1, ban = 2;
    (void)state;
    struct sample_row r = {.params = &p, .best = &best, .drawn = &drawn};
    assert_err(sampler_next(s, &r, &t, &e), &e, ERR_BAD_INPUT, "mask");
    best.is_finite = 0;
    assert_err(sampler_next(s, &r, &t, &e), &e, ERR_DIVERGED, "finite");
    assert_false(sample_needs_logits(&r));
    r.banned = &ban;
    r.n_banned = 1;
    assert_false(sample_needs_logits(&r));
    r.wants_logprob = true;
    assert_true(sample_needs_logits(&r));
    r.n_banned = 0;
    r.mask = mask;
    assert_true(sample_needs_logits(&r));
    sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_chain),
        cmocka_unit_test(draws_reach_every_chunk),
        cmocka_unit_test(typical_ones_are_of_the_whole_row),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(an_edit_stays_finite),
        cmocka_unit_test(a_mask_is_kept),
        cmocka_unit_test(ties_and_small_temperatures),
        cmocka_unit_test(a_draw_is_a_function),
        cmocka_unit_test(what_is_not_finite_is_an_error),
        cmocka_unit_test(logprobs_are_the_models),
        cmocka_unit_test(what_was_found_elsewhere_serves),
        cmocka_unit_test(guesses_count_as_what_was_said),
        cmocka_unit_test(what_follows_from_the_text_waits_for_it),
        cmocka_unit_test(what_was_not_found_is_told),
    };
    kernel_table_init(&table, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
