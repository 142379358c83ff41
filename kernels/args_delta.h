/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of recurrences over a ragged batch, along each sequence: the gated delta rule, and the
 * state-space scan of Mamba-2. Pointers are borrowed for the call. Part of kernels/kernels.h.
 *
 * A head of values has a state S[d_k, d_v]; n_v / n_k of them share a head of queries and keys. A
 * row, with q and k of unit length:
 *
 *     S = exp(g) S,  u = beta (v - S^T k),  S = S + k u^T,  y = S^T q / sqrt(d_k)
 *     g = -exp(a_log) softplus(a + dt_bias),  beta = sigmoid(b)
 *
 * The scan is the same with q and k as they come (Mamba's C and B), and without the correction by
 * what k finds:
 *
 *     S = exp(g) S,  u = beta v,  S = S + k u^T,  y = S^T q + skip v
 *     beta = softplus(dt + dt_bias), within bounds,  g = -exp(a_log) beta
 */
#ifndef KERNELS_ARGS_DELTA_H
#define KERNELS_ARGS_DELTA_H

#include "kernels/args_attn.h"

enum { K_DELTA_D_MAX = 256 }; /* of d_k and d_v */

/* Where states of sequences lie between steps. What a slot looks like inside is the kernels' own;
 * no slot that is written belongs to two sequences of a call. */
struct k_states {
    float *at;           /* [n_slot, n_v * d_k * d_v]; NULL: rows begin from zeros, none stay */
    const int32_t *from; /* [n_seq] slot that a sequence begins from; -1: zeros */
    const int32_t *to;   /* [n_seq] slot written behind its last row, may be `from`; -1: none */
    const int32_t *kept; /* [n_seq] one more slot; -1: none */
    const int32_t
        *kept_len; /* [n_seq] of so many tokens of the sequence: the last is in the call */
};

/* delta_rates: what a row does to states: [m, 2 n_v + 2 n_k] exp(g) and beta of each head of
 * values, what makes q of unit length / sqrt(d_k), what makes k of unit length. Unit: a row */
struct k_delta_rates {
    const float *q, *k;           /* [m, n_k, d_k] */
    const float *a, *b;           /* [m, n_v] */
    const float *a_log, *dt_bias; /* [n_v] */
    float *rate;
    int64_t ld_q, ld_k, ld_a, ld_b, m;
    int32_t n_k, n_v, d_k;
};

/* scan_rates: the same of a scan, whose q and k have factors of 1. Unit: a row */
struct k_scan_rates {
    const float *dt;              /* [m, n_v] */
    const float *a_log, *dt_bias; /* [n_v] */
    float *rate;
    int64_t ld_dt, m;
    int32_t n_k, n_v;
    float lo, hi; /* of beta */
};

/* Unit: a block of a state's columns, of a head, of a sequence (kernels/delta.h) */
struct k_delta {
    struct k_ragged batch; /* cells are not read */
    struct k_states state;
    const float *q, *k; /* [n_tok, n_k, d_k] */
    const float *v;     /* [n_tok, n_v, d_v] */
    const float *rate;  /* of delta_rates, or of scan_rates */
    const float *skip;  /* [n_v] of a scan; NULL: it is the delta rule */
    float *y;           /* [n_tok, n_v, d_v] */
    int64_t ld_q, ld_k, ld_v, ld_y;
    int32_t n_k, n_v, d_k, d_v;
};

/* Of sequences whose rows are all in the call and begin from zeros. dv = , and what q, k of unit
 * length (q by sqrt(d_k)), g and beta have of each half of a head's columns. Unit: such a half */
struct k_delta_bwd {
    struct k_delta fwd; /* state and y are not read */
    const float *dy;    /* [n_tok, n_v, d_v] */
    float *dv;          /* [n_tok, n_v, d_v] */
    float *part;        /* [n_tok, n_v, K_DELTA_PARTS, 2 d_k + 2]: dq, dk, dg, dbeta */
    float *border;      /* room for states: delta_borders() of [n_v, d_k, d_v] */
    int64_t ld_dy, ld_dv;
};

enum { K_DELTA_PARTS = 2 };

/* Behind it: dq, dk, da, db = , each may be NULL; da_log: what each row adds to the gradient of
 * a_log. ddt_bias is the sum of da. Unit: a row */
struct k_delta_rates_bwd {
    struct k_delta_rates fwd; /* rate is read */
    const float *part;        /* of delta_bwd */
    float *dq, *dk;           /* [m, n_k, d_k] */
    float *da, *db;           /* [m, n_v] */
    float *da_log;            /* [m, n_v] */
    int64_t ld_dq, ld_dk, ld_da, ld_db;
};

/* Of a scan, behind delta_bwd: dq, dk, ddt = , each may be NULL; da_log, dskip: what each row adds
 * to their gradients. ddt_bias is the sum of ddt. Unit: a row */
struct k_scan_rates_bwd {
    struct k_scan_rates fwd; /* rate is read */
    const float *part;       /* of delta_bwd */
    const float *v, *dy;     /* [m, n_v, d_v] */
    float *dq, *dk;          /* [m, n_k, d_k] */
    float *ddt;              /* [m, n_v] */
    float *da_log, *dskip;   /* [m, n_v] */
    int64_t ld_v, ld_dy, ld_dq, ld_dk, ld_ddt;
    int32_t d_k, d_v;
};

#endif
