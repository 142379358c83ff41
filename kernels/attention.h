/* SPDX-License-Identifier: Apache-2.0
 *
 * What the attention kernels share: the layout of a K/V cell, which keys a row sees, and how a
 * ragged call is cut into units.
 *
 * A cell holds K_CELL tokens of one head, for K and for V apart:
 *     bf16  K [d/2][32 keys][2]   V per 32 of d: [32/2 keys][w][2]
 *     f32   K [d][32 keys]        V per 32 of d: [32 keys][w]           w = 32, or what is left of
 * d which are panels of packed weights: q k^T is a product with d inputs and 32 outputs, p v one
 * with 32 inputs and d outputs, and neither transposes anything. Adding a key is a column of K and
 * a row of V. d is from 2 to K_HEAD_MAX, and even in bf16 and int8.
 *     int8  as bf16, a code each, then a scale for each of the 32 tokens, which its d numbers share
 *           (kernels/cell_codes.h): it stands for the cell of bf16 that these come to.
 *
 * The sum of a row. Keys are taken in chunks of K_ATTN_CHUNK by their position in the sequence. The
 * part of a chunk is m = max of the scores, l = sum exp(score - m), o = sum exp(score - m) v: it is
 * made of the row's own q and the keys that it sees in the chunk, and of nothing else. Parts are
 * folded from the first chunk to the last:
 *     M' = max(M, m),  L' = L exp(M - M') + l exp(m - M'),  O' = O exp(M - M') + o exp(m - M')
 * and y = O / L. So a row has the same bits in a decode step, in a prompt of any chunking and in a
 * training row, and the parts of a long sequence can be made apart (attn_part) and folded later
 * (attn_merge). A chunk of which a row sees nothing is no step of its sum.
 *
 * bf16 and int8 caches: q is rounded to bf16; exp(score - m), in (0, 1], is rounded to bf16 for the
 * product with v and not for l. Backward: p = exp(score - lse), D = sum dy y, ds = p (dy v - D),
 * and dy, p, ds are rounded to bf16 for the products. The rounding of K and V in the cells is part
 * of the function, and gradients pass through it. Sums are f32.
 *
 * Slots and cells that a row does not see may hold anything, NaN included.
 *
 * Thread: any.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/format.h"

enum {
    K_HEAD_MAX = 512,  /* d_head at most */
    K_ATTN_TILE = 96,  /* rows times grouped heads of a unit, about */
    K_ATTN_KEYS = 128, /* keys of a unit of attn_bwd_kv without parts; cells are not cut */
    K_ATTN_PARTS = 8,  /* of a dq, at most */
    K_CHUNK_CELLS = K_ATTN_CHUNK / K_CELL
};

struct k_span {
    int64_t lo, hi; /* [lo, hi) */
};

/* Rows [row_lo, row_hi) of sequence seq, for the query heads that share K/V head `head`; keys
 * [key_lo, key_hi) are what attn_part and attn_bwd_kv are cut by. */
struct k_attn_unit {
    int64_t seq;
    int64_t head;
    int64_t row_lo, row_hi; /* token = q_start[seq] + row */
    int64_t key_lo, key_hi;
};

/* What the calls are cut by. */
enum k_attn_cut { K_CUT_ROWS, K_CUT_ROWS_CHUNKS, K_CUT_KEYS, K_CUT_KEY_RUNS };

/* Keys of a run of which a dq has a part: a multiple of K_ATTN_KEYS. */
int64_t attn_key_run(int64_t kv_len);

/* Floats of k_attn_bwd.part for n_tok rows, whatever sequences they are. */
size_t attn_part_floats(int64_t n_tok, int32_t n_head, int32_t d_head);

int64_t attn_unit_count(const struct k_attn *a, enum k_attn_cut cut);

/* Units in order. Cut by keys: sequence, keys, head; causal, the first keys cost most, and what is
 * left for the end of a call should be small. By rows: sequence, tile of rows, head, chunk
 * of keys. Of the tiles the earlier half comes first, so that two threads who share a call out each
 * have the rows that they have in other kernels; and each half from its last to its first (causal,
 * the last costs most, and what is left for the end of a call should be small). */
struct k_attn_iter {
    const struct k_attn *a; /* borrowed */
    enum k_attn_cut cut;
    int64_t seq, left; /* units of seq from the present one on */
};

void attn_iter_init(struct k_attn_iter *it, const struct k_attn *a, enum k_attn_cut cut,
                    int64_t unit);
void attn_iter_next(struct k_attn_iter *it, struct k_attn_unit *u);

/* Keys that a row of a sequence sees. Causal: itself and those before; with a window, only those
 * less than `window` away. */
struct k_span attn_seen(const struct k_attn *a, int64_t seq, int64_t row);

/* Rows of this call that see a key. */
struct k_span attn_seen_by(const struct k_attn *a, int64_t seq, int64_t key);

static inline int64_t attn_row_count(const struct k_ragged *b, int64_t seq)
{
    return b->q_start[seq + 1] - b->q_start[seq];
}

/* Position of a sequence's first row of this call. */
static inline int64_t attn_first_pos(const struct k_ragged *b, int64_t seq)
{
    return b->kv_len[seq] - attn_row_count(b, seq);
}

/* What attention multiplies the cells with, and what cells of codes stand for: K_F32 or K_BF16. */
static inline enum k_type attn_rows_type(enum k_type type)
{
    return format_rows(type);
}

/* Elements from the start of a cell to number i of a key. */
static inline int64_t attn_k_at(enum k_type type, int64_t key, int64_t i)
{
    return type == K_F32 ? i * K_CELL + key : i / 2 * (2 * K_CELL) + key * 2 + i % 2;
}

static inline int64_t attn_v_at(enum k_type type, int64_t d, int64_t key, int64_t i)
{
    int64_t panel = i / K_NR * K_NR, w = d - panel < K_NR ? d - panel : K_NR;
    return panel * K_CELL +
           (type == K_F32 ? key * w + (i - panel) : key / 2 * (2 * w) + (i - panel) * 2 + key % 2);
}

/* Bytes from the start of the cache to the cell that holds key `key` of a sequence. */
static inline size_t attn_cell_at(const struct k_ragged *b, const struct k_kv_cache *c, int64_t seq,
                                  int64_t head, int64_t key)
{
    int64_t place = b->cell[seq * b->cell_stride + key / K_CELL];
    return (size_t)(head * c->n_cell + place) * k_kv_cell_bytes(c->type, c->d_head);
}

#endif
