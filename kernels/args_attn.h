/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of attention over a ragged batch, and of its cache. Pointers are borrowed for the call.
 * Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_ATTN_H
#define KERNELS_ARGS_ATTN_H

#include "kernels/types.h"

/* The sequences of a step, all as flat arrays. Query rows of sequence s are
 * [q_start[s], q_start[s+1]); its last row sees kv_len[s] keys, the row before one less
 * (causal), or all rows see all keys. */
struct k_ragged {
    int64_t n_seq, n_tok;
    const int32_t *q_start; /* [n_seq + 1]; the last is n_tok */
    const int32_t *kv_len;  /* [n_seq] keys in the cache, those of this step included */
    const int32_t *seq_of;  /* [n_tok] sequence of each row */
    const int32_t *pos;     /* [n_tok] place of each row in its sequence */
    const int32_t *cell;    /* [n_seq, cell_stride] places of a sequence's cells */
    int64_t cell_stride;    /* contiguous caches have a table too: it is small */
};

struct k_kv_cache {
    enum k_type type; /* of kernels/cell.def */
    void *k, *v;      /* [n_kv_head, n_cell] cells of k_kv_cell_bytes(type, d_head) */
    int32_t n_kv_head, d_head;
    int64_t n_cell;  /* of a head. Heads are outside so that cells which stand in a row, as a
                      * sequence's should where they can, are read as one stream */
    int32_t n_layer; /* caches that are read in turn with this one, itself included; 0 is 1. What
                      * all of them hold is what a CPU's last cache might: for speed alone */
};

size_t k_kv_cell_bytes(enum k_type type, int32_t d_head); /* of k or of v, one head */

extern const char k_cell_choices[]; /* "auto|bf16|...": as an option's values */

struct k_kv_write { /* unit: a row */
    struct k_ragged batch;
    struct k_kv_cache cache;
    const float *k, *v; /* [n_tok, n_kv_head, d_head] */
    int64_t ld_k, ld_v;
};

/* The bits of rmsnorm of the heads of q and k where there are weights, rope of both, and kv_write,
 * in one. kv.k: before all that. Unit: a row */
struct k_rope_kv {
    struct k_kv_write kv;
    const float *q; /* [n_tok, n_head, d_head] */
    float *y;       /* like q, turned; may be q */
    int64_t ld_q, ld_y;
    const int32_t *turn;              /* [n_tok] rows of cos and sin, as k_rope.pos */
    const float *cos, *sin;           /* as in k_rope */
    const float *q_weight, *k_weight; /* [d_head]; both or neither */
    int32_t n_head, d_rot;
    float eps;
    bool interleaved;
    bool plus_one; /* as in k_norm */
};

struct k_attn {
    struct k_ragged batch;
    struct k_kv_cache cache;
    const float
        *q;     /* [n_tok, n_head, d_head], rounded to what the cache's type multiplies in here */
    float *y;   /* [n_tok, n_head, d_head]; zero for a row that sees no key */
    float *lse; /* [n_tok, n_head] for the backward, or NULL */
    int64_t ld_q, ld_y;
    int32_t n_head;
    int32_t window;       /* keys this far from the row or farther are not seen; 0: all are */
    float scale, softcap; /* score = scale q k; softcap not 0: softcap tanh(score / softcap) */
    bool causal;
};

/* attn_part, attn_merge: attn in two calls with the same bits, for long sequences in few rows:
 * parts of chunks of K_ATTN_CHUNK keys, made in any order, and their fold. */
struct k_attn_part {
    struct k_attn fwd; /* attn_part reads q, attn_merge writes y and lse */
    float *part;       /* [n_tok, n_head, n_chunk, d_head + 2]: o, m, l of each chunk */
    int64_t n_chunk;   /* at least ceil(kv_len / K_ATTN_CHUNK) of every sequence */
};

/* attn_sink: attention whose sums have one score more, sink[h], which no value belongs to. Of y and
 * lse of attn without it: y *= exp(lse - lse'), lse' = log(exp(lse) + exp(sink)). The backwards of
 * attn are those of this one where they are given the y and lse that it left. Unit: a row.
 * attn_sink_dw: dsink[h] -= sum over rows of exp(sink - lse') (dy . y'). Unit: a head */
struct k_attn_sink {
    const float *sink; /* [n_head] */
    float *y, *lse;    /* [m, n_head, d_head], [m, n_head] */
    const float *dy;   /* of attn_sink_dw */
    float *dsink;      /* [n_head], added to */
    int64_t ld_y, ld_dy, m;
    int32_t n_head, d_head;
};

/* attn_bwd_kv: dk, dv = ; attn_bwd_q, behind it: dq = . K and V are read from the cells. Where all
 * keys of the sequences are of this call, attn_bwd_kv may leave in `part` what each of up to
 * K_ATTN_PARTS runs of keys adds to dq (attn_key_run), and attn_bwd_q add these up: the scores are
 * then made once. Whether a variant does so is its own affair. */
struct k_attn_bwd {
    struct k_attn fwd;
    const float *dy; /* [n_tok, n_head, d_head] */
    int64_t ld_dy;
    float *dq, *dk, *dv; /* rows like q, k, v */
    int64_t ld_dq, ld_dk, ld_dv;
    float *part; /* [runs of the longest sequence, n_tok, n_head, d_head], or NULL */
};

#endif
