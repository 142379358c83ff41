/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, one row and one head at a time: the specification of kernels/attention.h in plain
 * loops. A vector of d numbers is at most K_HEAD_MAX long and lives on the stack.
 */
#include "kernels/ref/attn.h"

#include <math.h>
#include <string.h>

#include "kernels/cell_codes.h"
#include "kernels/variants.h"

/* Number `at` of a cell, which is of key slot `slot`. */
static inline float number(const struct k_kv_cache *c, const char *cell, int64_t at, int64_t slot)
{
    float scale;
    switch (c->type) {
    case K_F32:
        return ((const float *)cell)[at];
    case K_BF16:
        return bf16_to_f32(((const k_bf16 *)cell)[at]);
    default:
        memcpy(&scale, cell + cell_scales_at(c->d_head) + (size_t)slot * sizeof scale,
               sizeof scale);
        return attn_ref_round(c->type, scale * (float)((const int8_t *)cell)[at]);
    }
}

void attn_ref_key(const struct k_attn *a, int64_t seq, int64_t head, int64_t key, float *k)
{
    const char *cell =
        (const char *)a->cache.k + attn_cell_at(&a->batch, &a->cache, seq, head, key);
    enum k_type type = a->cache.type;
    for (int64_t i = 0; i < a->cache.d_head; i++)
        k[i] = number(&a->cache, cell, attn_k_at(type, key % K_CELL, i), key % K_CELL);
}

void attn_ref_value(const struct k_attn *a, int64_t seq, int64_t head, int64_t key, float *v)
{
    const char *cell =
        (const char *)a->cache.v + attn_cell_at(&a->batch, &a->cache, seq, head, key);
    enum k_type type = a->cache.type;
    int64_t d = a->cache.d_head;
    for (int64_t panel = 0; panel < d; panel += K_NR) {
        int64_t at = attn_v_at(type, d, key % K_CELL, panel),
                w = d - panel < K_NR ? d - panel : K_NR;
        for (int64_t i = 0; i < w; i++)
            v[panel + i] = number(&a->cache, cell, at + (type == K_F32 ? i : 2 * i), key % K_CELL);
    }
}

/* q k^T of every key of the cell of `key`, each as attn_ref_dot takes it: of those that are not
 * seen, too, whatever they hold. */
static void cell_dots(const struct k_attn *a, int64_t seq, int64_t head, int64_t key,
                      const float *q, float dot[K_CELL])
{
    const char *cell =
        (const char *)a->cache.k + attn_cell_at(&a->batch, &a->cache, seq, head, key);
    float sum[K_CELL] = {0};
    for (int64_t i = 0; i < a->cache.d_head; i++) {
        const float *whole = (const float *)cell + i * K_CELL;
        const k_bf16 *half = (const k_bf16 *)cell + i / 2 * (2 * K_CELL) + i % 2;
        for (int j = 0; j < K_CELL && a->cache.type == K_F32; j++)
            sum[j] += q[i] * whole[j];
        for (int j = 0; j < K_CELL && a->cache.type == K_BF16; j++)
            sum[j] += q[i] * bf16_to_f32(half[2 * j]);
        for (int j = 0; j < K_CELL && a->cache.type == K_INT8; j++)
            sum[j] += q[i] * number(&a->cache, cell, attn_k_at(K_INT8, j, i), j);
    }
    memcpy(dot, sum, sizeof sum);
}

float attn_ref_dot(const float *a, const float *b, int32_t d)
{
    float sum = 0;
    for (int32_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

float attn_ref_score(const struct k_attn *a, float dot)
{
    float s = dot * a->scale;
    return a->softcap > 0 ? a->softcap * tanhf(s / a->softcap) : s;
}

/* The part of keys [lo, hi), which are of one chunk and all seen: o[d], then m and l behind it. */
static void part_of(const struct k_attn *a, int64_t seq, int64_t head, const float *q,
                    struct k_span keys, float *part)
{
    int32_t d = a->cache.d_head;
    float score[K_ATTN_CHUNK], dot[K_CELL], vec[K_HEAD_MAX], m = -INFINITY, l = 0;
    for (int64_t j = keys.lo; j < keys.hi; j++) {
        if (j == keys.lo || j % K_CELL == 0)
            cell_dots(a, seq, head, j, q, dot);
        score[j - keys.lo] = attn_ref_score(a, dot[j % K_CELL]);
        m = fmaxf(m, score[j - keys.lo]);
    }
    memset(part, 0, (size_t)d * sizeof *part);
    for (int64_t j = keys.lo; j < keys.hi; j++) {
        float p = expf(score[j - keys.lo] - m), rounded = attn_ref_round(a->cache.type, p);
        l += p;
        attn_ref_value(a, seq, head, j, vec);
        for (int32_t i = 0; i < d; i++)
            part[i] += rounded * vec[i];
    }
    part[d] = m;
    part[d + 1] = l;
}

/* Folds a part into a sum of the same form; a sum starts as {0..., -inf, 0}. */
static void fold(float *sum, const float *part, int32_t d)
{
    float m = fmaxf(sum[d], part[d]), keep = expf(sum[d] - m), take = expf(part[d] - m);
    for (int32_t i = 0; i < d; i++)
        sum[i] = sum[i] * keep + part[i] * take;
    sum[d] = m;
    sum[d + 1] = sum[d + 1] * keep + part[d + 1] * take;
}

static void sum_init(float *sum, int32_t d)
{
    memset(sum, 0, (size_t)d * sizeof *sum);
    sum[d] = -INFINITY;
    sum[d + 1] = 0;
}

/* y and log-sum-exp of a folded sum; adding zero makes -0 a +0, so that a product with the weight
 * zero is as good as none. */
static void sum_finish(const struct k_attn *a, const float *sum, int64_t tok, int64_t head)
{
    int32_t d = a->cache.d_head;
    float *y = a->y + tok * a->ld_y + head * d, l = sum[d + 1];
    for (int32_t i = 0; i < d; i++)
        y[i] = l == 0 ? 0 : sum[i] / l + 0.0f;
    if (a->lse)
        a->lse[tok * a->n_head + head] = sum[d] + logf(l);
}

void attn_ref_query(const struct k_attn *a, int64_t tok, int64_t head, float *q)
{
    const float *src = a->q + tok * a->ld_q + head * a->cache.d_head;
    for (int32_t i = 0; i < a->cache.d_head; i++)
        q[i] = attn_ref_round(a->cache.type, src[i]);
}

/* The keys of `seen` that are in the chunk which begins at key lo. */
static struct k_span in_chunk(struct k_span seen, int64_t lo)
{
    int64_t hi = lo + K_ATTN_CHUNK;
    return (struct k_span){seen.lo > lo ? seen.lo : lo, seen.hi < hi ? seen.hi : hi};
}

static int64_t chunk_of(int64_t key)
{
    return key / K_ATTN_CHUNK * K_ATTN_CHUNK;
}

static void attn_row(const struct k_attn *a, const struct k_attn_unit *u, int64_t row, int64_t head)
{
    float q[K_HEAD_MAX], sum[K_HEAD_MAX + 2], part[K_HEAD_MAX + 2];
    int64_t tok = a->batch.q_start[u->seq] + row;
    struct k_span seen = attn_seen(a, u->seq, row);
    attn_ref_query(a, tok, head, q);
    sum_init(sum, a->cache.d_head);
    for (int64_t lo = chunk_of(seen.lo); lo < seen.hi; lo += K_ATTN_CHUNK) {
        part_of(a, u->seq, u->head, q, in_chunk(seen, lo), part);
        fold(sum, part, a->cache.d_head);
    }
    sum_finish(a, sum, tok, head);
}

void attn_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn *a = args;
    int64_t group = a->n_head / a->cache.n_kv_head;
    struct k_attn_iter it;
    attn_iter_init(&it, a, K_CUT_ROWS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t row = u.row_lo; row < u.row_hi; row++) {
            for (int64_t h = 0; h < group; h++)
                attn_row(a, &u, row, u.head * group + h);
        }
    }
}

static float *part_at(const struct k_attn_part *a, int64_t tok, int64_t head, int64_t key)
{
    int64_t chunk = key / K_ATTN_CHUNK;
    return a->part +
           ((tok * a->fwd.n_head + head) * a->n_chunk + chunk) * (a->fwd.cache.d_head + 2);
}

void attn_part_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_part *a = args;
    int64_t group = a->fwd.n_head / a->fwd.cache.n_kv_head;
    struct k_attn_iter it;
    attn_iter_init(&it, &a->fwd, K_CUT_ROWS_CHUNKS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t row = u.row_lo; row < u.row_hi; row++) {
            int64_t tok = a->fwd.batch.q_start[u.seq] + row;
            struct k_span keys = in_chunk(attn_seen(&a->fwd, u.seq, row), u.key_lo);
            for (int64_t h = u.head * group; h < (u.head + 1) * group && keys.lo < keys.hi; h++) {
                float q[K_HEAD_MAX];
                attn_ref_query(&a->fwd, tok, h, q);
                part_of(&a->fwd, u.seq, u.head, q, keys, part_at(a, tok, h, u.key_lo));
            }
        }
    }
}

void attn_merge_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_part *a = args;
    int32_t d = a->fwd.cache.d_head;
    for (int64_t tok = s->lo; tok < s->hi; tok++) {
        int64_t seq = a->fwd.batch.seq_of[tok];
        struct k_span seen = attn_seen(&a->fwd, seq, tok - a->fwd.batch.q_start[seq]);
        for (int64_t h = 0; h < a->fwd.n_head; h++) {
            float sum[K_HEAD_MAX + 2];
            sum_init(sum, d);
            for (int64_t lo = chunk_of(seen.lo); lo < seen.hi; lo += K_ATTN_CHUNK)
                fold(sum, part_at(a, tok, h, lo), d);
            sum_finish(&a->fwd, sum, tok, h);
        }
    }
}

/* lse' = log(exp(lse) + exp(sink)) */
static double with_sink(double lse, double sink)
{
    double most = lse > sink ? lse : sink, least = lse > sink ? sink : lse;
    return most + log1p(exp(least - most));
}

void attn_sink_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_sink *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t h = 0; h < a->n_head; h++) {
            float *lse = a->lse + i * a->n_head + h, *y = a->y + i * a->ld_y + h * a->d_head;
            double sum = with_sink((double)*lse, (double)a->sink[h]);
            float keep = (float)exp((double)*lse - sum);
            for (int64_t j = 0; j < a->d_head; j++)
                y[j] *= keep;
            *lse = (float)sum;
        }
    }
}

void attn_sink_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_sink *a = args;
    for (int64_t h = s->lo; h < s->hi; h++) {
        double sum = 0;
        for (int64_t i = 0; i < a->m; i++) {
            const float *y = a->y + i * a->ld_y + h * a->d_head;
            const float *dy = a->dy + i * a->ld_dy + h * a->d_head;
            double dot = 0;
            for (int64_t j = 0; j < a->d_head; j++)
                dot += (double)dy[j] * (double)y[j];
            sum += exp((double)a->sink[h] - (double)a->lse[i * a->n_head + h]) * dot;
        }
        a->dsink[h] -= (float)sum;
    }
}
