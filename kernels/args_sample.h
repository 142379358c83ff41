/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of what takes a token from a row of logits where the row lies, so that the token alone
 * has to be seen by the host: changes of listed logits, the draw, numbers at listed places, and
 * tokens that go into the next step. The chain and its order are engine/sample's. Pointers are
 * borrowed for the call. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_SAMPLE_H
#define KERNELS_ARGS_SAMPLE_H

#include "kernels/args_heads.h"
#include "kernels/types.h"

struct k_edit {
    int32_t id;
    float by; /* seen: times in the answer, 0: in the prompt only; bias: what is added */
};

/* A row's changes: entries [at, at + n_seen) are penalised, the n_bias behind them are added to,
 * the n_ban behind those may not be taken. An id comes once in each of the first two. */
struct k_edit_row {
    double repetition, frequency, presence;
    int32_t row, at, n_seen, n_bias, n_ban;
};

struct k_logit_edit { /* in place; what is left is finite, or -infinity for what is banned */
    float *logits;    /* [.., n] */
    int64_t ld, n, m;
    const struct k_edit_row *how; /* [m], each of another row */
    const struct k_edit *edit;
};

/* How a row's token is taken. Entries weigh exp((logit - largest) * scale). The cuts are
 * top_select's; what they leave is in its order, and without any in the order of ids. The token is
 * the first at which the running sum of weights exceeds u times the sum of all that are left. */
struct k_sample_how {
    double u;          /* in [0, 1) */
    float scale;       /* 1 / temperature; 0: the largest, the lower id of equals */
    float top_p;       /* 1: no cut */
    float min_p;       /* 0: no cut */
    int32_t top_k;     /* 0: no cut */
    int32_t is_edited; /* the row is not any more as `best` says */
};

struct k_sample {
    const float *logits; /* [m, n] */
    int64_t ld, m, n;
    const struct k_sample_how *how; /* [m] */
    const struct k_best *best;      /* [m] argmax's; NULL: found here */
    int32_t *id;                    /* [m]; -1: nothing is above -infinity */
};

struct k_pick { /* y[i, j] = x[i, id[i, j]]; 0 where that is no place of the row */
    const float *x;
    int64_t ld, m, n;
    const int32_t *id; /* [m, n_id] */
    float *y;          /* [m, n_id] */
    int64_t n_id;
};

struct k_token_feed { /* token[i] = id[from[i]], 0 for a negative one; as it was where from is -1 */
    int32_t *token;
    const int32_t *from; /* [n] */
    const int32_t *id;
    int64_t n;
};

#endif
