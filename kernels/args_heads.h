/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of what stands on top of a model (losses, pools, the sampler's cut) and of the
 * optimizer. Pointers are borrowed for the call. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_HEADS_H
#define KERNELS_ARGS_HEADS_H

#include "kernels/args_linear.h"

struct k_ce_state { /* per row; the chunk at lo = 0 starts it */
    float max, sum, target_logit, best;
    int32_t best_id;
};

struct k_ce { /* ce_fwd folds logits[m, n] of entries [lo, lo + n) into state, n <= K_CE_CHUNK;
               * ce_bwd writes dlogits over them: (exp(logit - lse) - [id == target]) * dloss,
               * and of capped logits the gradient of what was capped */
    float *logits;
    int64_t ld, m, lo, n;
    const int32_t *target; /* [m]; -1: a row without loss */
    struct k_ce_state *state;
    const float *dloss; /* [m] */
    float cap;          /* that softcap gave the logits; 0: none did */
};

float k_ce_lse(const struct k_ce_state *s); /* max + log(sum): log-prob is logit - lse */

/* Rows whose loss is -sum share * log-prob of some tokens, and -rest * that of all others together:
 * shares and rest sum to 1. ce_take leaves -infinity where these tokens stood, so that ce_fwd over
 * what is left gives `others`, and ce_bwd over it the gradient but for two things, which ce_put
 * does behind it: the others' is multiplied by 1 - rest / (their probability), and these tokens' is
 * (exp(logit - lse) - share) * dloss. Rows that name no token stay as ce_bwd has them, and so does
 * one of which a share is 1. */
struct k_ce_top {  /* unit: a row */
    float *logits; /* [m, n]: the whole vocabulary */
    int64_t ld, m, n, n_top;
    const int32_t *id;                       /* [m, n_top] each once; -1 behind the last */
    const float *share;                      /* [m, n_top] */
    const float *rest;                       /* [m] */
    float *logit;                            /* [m, n_top] of them, 0 behind the last */
    const struct k_ce_state *state, *others; /* [m] of all tokens; of all but these */
    const float *dloss;                      /* [m] */
    float cap;                               /* as k_ce's */
};

/* Log-probability of the others, which is no less than this. */
#define K_CE_LEAST (-80.0f)
static inline float k_ce_others(float lse_others, float lse)
{
    float x = lse_others - lse;
    return x > K_CE_LEAST ? x : K_CE_LEAST;
}

struct k_pool { /* mean_pool: y[s] = mean of x rows of s; mean_pool_bwd: x is dy, y is dx */
    const float *x;
    float *y;
    const int32_t *start; /* [n_seq + 1] */
    int64_t ld_x, ld_y, n_seq, d;
};

struct k_l2norm { /* l2norm_bwd: y is dx */
    const float *x, *dy;
    float *y;
    int64_t ld_x, ld_dy, ld_y, m, d;
    float eps;
};

struct k_best {
    float max;
    int32_t id;        /* the lowest of the largest; -1: nothing above -infinity. NaN is never it */
    int32_t is_finite; /* 1: all of the row */
};

struct k_argmax {
    const float *x; /* [m, n] */
    int64_t ld, m, n;
    struct k_best *best; /* [m] */
};

/* Per row: ids and probabilities left, descending, ties by lower id. The softmax over all entries
 * is cut to the top_k largest; of these, renormalised, to the smallest set that reaches top_p; of
 * those to what has at least min_p times the largest probability; then to n_max entries (which is
 * to hold top_k). At least
 * one is left. NaN counts as -infinity, which is never left, except that a row of nothing else
 * leaves its entry 0. */
struct k_top_select {
    const float *logits; /* [m, n] */
    int64_t ld, m, n;
    const int32_t *top_k; /* [m]; 0: no cut */
    const float *top_p;   /* [m]; 1: no cut */
    const float *min_p;   /* [m]; 0: no cut */
    int32_t *id;          /* [m, n_max] */
    float *prob;          /* [m, n_max], renormalised to 1 */
    int32_t *n_left;      /* [m]; at most n_max */
    int64_t n_max;
};

/* ---- optimizer ---------------------------------------------------------------------------- */

struct k_adamw {
    float *p, *m, *v;
    const float *g;
    int64_t n;
    double lr, beta1, beta2, eps, decay, g_scale; /* g_scale: clipping and normalisation */
    double corr1, corr2;                          /* 1 - beta^t */
};

/* adamw_weight: what is packed is the value; of bf16 its high half, which is joined with its low
 * half, stepped, and parted again (kernels/halves.h). low, m, v, g are row-major [w.n, w.k]. */
struct k_adamw_weight { /* unit: a panel */
    struct k_weight w;  /* K_F32 or K_BF16 */
    uint16_t *low;      /* NULL for K_F32 */
    struct k_adamw a;   /* p and n are not read */
};

/* Moments as codes (kernels/moments.h), which is what they are kept as: unpack puts x, pack makes
 * code and power of it. x[0] begins a block. */
struct k_moments { /* unit: a chunk of K_SUM_CHUNK */
    float *x;
    uint8_t *code, *power; /* [n], [ceil(n / K_MOMENT)] */
    int64_t n;
    bool is_second;
    uint32_t seed; /* pack: of the step's draws, and x[0]'s place among all */
    int64_t first;
};

struct k_sum_sq { /* unit: a chunk of K_SUM_CHUNK */
    const float *x;
    int64_t n;
    double *part; /* [ceil(n / K_SUM_CHUNK)] */
};

#endif
