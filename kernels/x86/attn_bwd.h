/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gradient of attention is made of, for attn_bwd.c and for variants with a tile of keys of
 * their own.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_BWD_H
#define KERNELS_X86_ATTN_BWD_H

#include "kernels/x86/attn.h"

enum {
    ATTN_STEP = 64, /* rows of a head that dk and dv take at a time, by their place in a sequence */
    ATTN_PART_HEAD = 128 /* heads of more would not fit with what parts take besides */
};

/* Keys [u.key_lo, u.key_hi) of one K/V head, K_ATTN_KEYS at most: their dk and dv, and what they
 * give to parts of dq. */
struct attn_keys {
    const struct k_attn_bwd *a; /* borrowed */
    struct k_attn_unit u;
    bool adds; /* to parts that are there */
};

static inline bool attn_has_parts(const struct k_attn_bwd *a)
{
    return a->part && a->fwd.cache.d_head <= ATTN_PART_HEAD;
}

/* The part of dq that the run of keys with key `key` gives a head and row. */
static inline float *attn_part_at(const struct k_attn_bwd *a, int64_t seq, int64_t key, int64_t row,
                                  int64_t head)
{
    const struct k_ragged *b = &a->fwd.batch;
    int64_t run = key / attn_key_run(b->kv_len[seq]), tok = b->q_start[seq] + row;
    return a->part + ((run * b->n_tok + tok) * a->fwd.n_head + head) * a->fwd.cache.d_head;
}

/* The factor that brings dots to what attn_grad takes for scores. */
static inline float attn_score_factor(const struct k_attn *f)
{
    return f->softcap > 0 ? f->scale : f->scale * attn_log2e;
}

/* A head's numbers of a row of q, y or dy. */
static inline const float *attn_row_of(const float *x, int64_t ld, int64_t tok, int64_t head, int d)
{
    return x + tok * ld + head * d;
}

/* The rows of q, dy and y that belong to a query, some time before they are read. */
static inline void attn_query_fetch(const struct k_attn_bwd *a, int64_t tok, int64_t head)
{
    const struct k_attn *f = &a->fwd;
    int d = f->cache.d_head;
    attn_fetch(attn_row_of(f->q, f->ld_q, tok, head, d), d);
    attn_fetch(attn_row_of(a->dy, a->ld_dy, tok, head, d), d);
    attn_fetch(attn_row_of(f->y, f->ld_y, tok, head, d), d);
}

#endif
