/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of one step: the ragged batch. A flat list of tokens with sequence bounds serves
 * decode (sequences of one row), prefill chunks, and whole training rows alike; no padding exists.
 * All arrays are the device's, at addresses that stay for the life of a plan; only the counts and
 * contents change from step to step.
 *
 * Thread: whoever runs the step.
 */
#ifndef ENGINE_OP_BATCH_H
#define ENGINE_OP_BATCH_H

#include "engine/op/param.h"

/* What the rows of a value count. */
enum dim { DIM_TOK, DIM_OUT, DIM_SEQ, DIM_GROUP, DIM_DORA, DIM_SAVED, DIM_COUNT };

/* Matrices that an adapter may have whole, in place of the model's: PEFT's modules_to_save. */
enum saved { SAVED_EMBED, SAVED_HEAD, SAVED_COUNT };

/* Room in which attention may take the chunks of long sequences apart, for steps of so few tokens
 * that their heads alone would leave compute threads idle. */
struct batch_parts {
    float *at;     /* [n_row, n_head, n_chunk, d_head + 2] */
    int64_t n_row; /* steps of at most so many tokens; 0: none */
    int64_t n_chunk;
};

/* Rows wanted, [lo, hi), and what the gradients of their losses are multiplied by. */
struct batch_scale {
    int64_t lo, hi;
    float by;
};

/* Tokens of which a teacher says how likely they are at each row wanted, and what of the row's loss
 * is theirs: see struct k_ce_top. n_top 0: nobody says anything. */
struct batch_top {
    int64_t n_top;
    int32_t *id;               /* [n_out, n_top] -1: no more */
    float *share, *rest;       /* [n_out, n_top], [n_out] */
    float *logit;              /* [n_out, n_top] what the forward found of them, */
    struct k_ce_state *others; /* [n_out] and of all others */
};

/* The load of experts in training, which a loss balances: each layer with a mixture leaves the
 * bounds of its map, and what its router gives each expert over all rows. */
struct batch_balance {
    int32_t *start;  /* [n_layer, n_expert + 1] */
    float *sum;      /* [n_layer, n_expert] */
    int64_t n_layer; /* 0: nobody asks */
    float by;        /* what the gradient of a sum of loads times probabilities is multiplied by */
};

struct batch {
    /* tokens, rows wanted, sequences, adapter groups, and of these those up to the last whose
     * adapter multiplies outputs, and up to the last with a matrix of its adapter's own */
    int64_t n[DIM_COUNT];

    int32_t *token;   /* [n_tok] */
    int32_t *from;    /* [n_tok] row of the step before that drew the token; -1: `token` has it.
                       * NULL: no step goes ahead of another's tokens */
    int32_t *segment; /* [n_tok] BERT's token types; NULL: zeros are not needed */
    int32_t *pos;     /* [n_tok] place in the sequence */
    int32_t *turn;    /* [n_tok] row of the table of rotary positions; pos where it has one form */
    int32_t *seq_of;  /* [n_tok] */
    int32_t *q_start; /* [n_seq + 1] */
    int32_t *kv_len;  /* [n_seq] */
    int32_t *cell;    /* [n_seq, cell_stride] places of each sequence's K/V cells */
    int64_t cell_stride;

    int32_t *out_row; /* [n_out] rows of tokens whose answer is wanted, ascending */
    int32_t *target;  /* [n_out] next token; -1: none */
    float *dloss;     /* [n_out] weight of each row's loss: mask over normaliser */

    /* What losses count where only the forward's log-probabilities could tell: filled between
     * forward and backward, on the host. 0: dloss has said it all. */
    const struct batch_scale *scale; /* [n_scale] all rows, each once */
    int64_t n_scale;

    /* States of sequences (kernels/args_delta.h); NULL: rows begin from zeros, and none stay. */
    float **state;           /* [n_layer] slots of each layer with a recurrence */
    int32_t *state_from;     /* [n_seq] slot to begin from */
    int32_t *state_to;       /* [n_seq] slot to leave the last state in */
    int32_t *state_kept;     /* [n_seq] one more, */
    int32_t *state_kept_len; /* [n_seq] of so many tokens */

    struct k_kv_cache *kv;     /* [n_layer] */
    struct k_lora_group *lora; /* [n_lora, cap[DIM_GROUP]]: the same rows for each product */
    int64_t lora_stride;
    uint64_t
        *lora_of; /* [cap[DIM_GROUP]] version of each group's adapter, 0: none; NULL: unasked */

    struct k_saved *saved[SAVED_COUNT]; /* [n[DIM_SAVED]] of the groups' rows */
    int64_t saved_stride;               /* cap[DIM_SAVED] */
    int32_t
        *saved_out; /* [n[DIM_SAVED] + 1] the first row wanted of each group; batch_find_saved */

    struct batch_top top;
    struct batch_balance balance;
    struct batch_parts part;
    float *dq_part; /* room for the parts of attention's dq (kernels/args_attn.h), or NULL */

    uint64_t *dropout_key; /* [n_tok] of the example and the place in it; training only */
    uint64_t dropout_seed;
};

/* Where the groups' rows begin among those wanted, once these are known. Groups leave no row out.
 */
static inline void batch_find_saved(struct batch *b)
{
    const struct k_saved *at = b->saved[SAVED_HEAD];
    int64_t n = b->n[DIM_SAVED], out = 0;
    for (int64_t g = 0; g <= n && n; g++) {
        int64_t row = g < n ? at[g].row_lo : at[n - 1].row_hi;
        while (out < b->n[DIM_OUT] && b->out_row[out] < row)
            out++;
        b->saved_out[g] = (int32_t)out;
    }
}

static inline struct k_ragged batch_ragged(const struct batch *b)
{
    return (struct k_ragged){.n_seq = b->n[DIM_SEQ],
                             .n_tok = b->n[DIM_TOK],
                             .q_start = b->q_start,
                             .kv_len = b->kv_len,
                             .seq_of = b->seq_of,
                             .pos = b->pos,
                             .cell = b->cell,
                             .cell_stride = b->cell_stride};
}

#endif
