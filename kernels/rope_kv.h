/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel rope_kv by the kernels that it stands for, for every level of a CPU: so its bits are
 * theirs by construction. A few rows of one head of k at a time are normalised and turned next to
 * each other, and written to their cells while they are in the nearest cache.
 *
 * Thread: any.
 */
#ifndef KERNELS_ROPE_KV_H
#define KERNELS_ROPE_KV_H

#include "kernels/attention.h"

struct rope_kv_by {
    kernel_fn *norm, *rope, *write; /* rmsnorm, rope, kv_write */
};

enum { ROPE_KV_ROWS = 16 };

/* The heads of turn.x to turn.y, normalised where there is a weight, and turned. */
static inline void rope_kv_turn(const struct k_rope_kv *a, const struct rope_kv_by *by,
                                const float *weight, struct k_rope turn, const struct k_slice *s)
{
    struct k_slice runs = {.lo = 0, .hi = turn.m * turn.n_head, .scratch = s->scratch};
    struct k_slice rows = {.lo = 0, .hi = turn.m, .scratch = s->scratch};
    struct k_norm norm = {.x = turn.x,
                          .y = turn.y,
                          .weight = weight,
                          .ld_x = turn.ld_x,
                          .ld_y = turn.ld_y,
                          .m = turn.m,
                          .d = turn.d_head,
                          .n_head = turn.n_head,
                          .eps = a->eps,
                          .plus_one = a->plus_one};
    if (weight) {
        by->norm(&norm, &runs);
        turn.x = turn.y;
        turn.ld_x = turn.ld_y;
    }
    by->rope(&turn, &rows);
}

/* Rows [lo, hi) of a head of k and v into its cells. */
static inline void rope_kv_put(const struct k_rope_kv *a, const struct rope_kv_by *by,
                               struct k_rope turn, int64_t lo, int64_t hi, int64_t head,
                               const struct k_slice *s)
{
    struct k_kv_write w = a->kv;
    float k[ROPE_KV_ROWS * K_HEAD_MAX];
    struct k_slice rows = {.lo = 0, .hi = hi - lo, .scratch = s->scratch};
    int32_t d = w.cache.d_head;
    size_t before = (size_t)(head * w.cache.n_cell) * k_kv_cell_bytes(w.cache.type, d);
    turn.x = w.k + lo * w.ld_k + head * d;
    turn.y = k;
    turn.ld_x = w.ld_k;
    turn.ld_y = d;
    turn.n_head = 1;
    rope_kv_turn(a, by, a->k_weight, turn, s);
    w.batch.n_tok = hi - lo;
    w.batch.pos += lo;
    w.batch.seq_of += lo;
    w.cache.k = (char *)w.cache.k + before;
    w.cache.v = (char *)w.cache.v + before;
    w.cache.n_kv_head = 1;
    w.k = k;
    w.ld_k = d;
    w.v += lo * w.ld_v + head * d;
    by->write(&w, &rows);
}

static inline void rope_kv_rows(const struct k_rope_kv *a, const struct k_slice *s,
                                const struct rope_kv_by *by)
{
    for (int64_t lo = s->lo, hi; lo < s->hi; lo = hi) {
        hi = s->hi - lo > ROPE_KV_ROWS ? lo + ROPE_KV_ROWS : s->hi;
        struct k_rope turn = {.x = a->q + lo * a->ld_q,
                              .y = a->y + lo * a->ld_y,
                              .ld_x = a->ld_q,
                              .ld_y = a->ld_y,
                              .m = hi - lo,
                              .n_head = a->n_head,
                              .d_head = a->kv.cache.d_head,
                              .d_rot = a->d_rot,
                              .pos = a->turn + lo,
                              .cos = a->cos,
                              .sin = a->sin,
                              .interleaved = a->interleaved};
        rope_kv_turn(a, by, a->q_weight, turn, s);
        for (int64_t h = 0; h < a->kv.cache.n_kv_head; h++)
            rope_kv_put(a, by, turn, lo, hi, h, s);
    }
}

#endif
