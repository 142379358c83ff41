/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention, pair by pair: p is made again from the saved log-sum-exp. With
 * ds = p (dy v - D), D = dy y:  dq = scale sum ds k,  dk = scale sum ds q,  dv = sum p dy.
 */
#include "kernels/ref/attn.h"

#include <math.h>
#include <string.h>

#include "kernels/variants.h"

/* What a row and head need: its vectors as the products take them, and D. */
struct row {
    float q[K_HEAD_MAX], dy[K_HEAD_MAX];
    float lse, delta;
};

static void row_read(const struct k_attn_bwd *a, int64_t tok, int64_t head, struct row *r)
{
    int32_t d = a->fwd.cache.d_head;
    const float *dy = a->dy + tok * a->ld_dy + head * d;
    attn_ref_query(&a->fwd, tok, head, r->q);
    for (int32_t i = 0; i < d; i++)
        r->dy[i] = attn_ref_round(a->fwd.cache.type, dy[i]);
    r->lse = a->fwd.lse[tok * a->fwd.n_head + head];
    r->delta = attn_ref_dot(dy, a->fwd.y + tok * a->fwd.ld_y + head * d, d);
}

/* p and ds of a row and a key that it sees, unrounded. */
static void pair(const struct k_attn *a, const struct row *r, const float *k, const float *v,
                 float *p, float *ds)
{
    int32_t d = a->cache.d_head;
    float score = attn_ref_score(a, attn_ref_dot(r->q, k, d));
    *p = expf(score - r->lse);
    *ds = *p * (attn_ref_dot(r->dy, v, d) - r->delta);
    if (a->softcap > 0) {
        float t = score / a->softcap;
        *ds *= 1 - t * t;
    }
}

static void add_scaled(float *y, float s, const float *x, int32_t d)
{
    for (int32_t i = 0; i < d; i++)
        y[i] += s * x[i];
}

static void dq_row(const struct k_attn_bwd *a, const struct k_attn_unit *u, int64_t row,
                   int64_t head)
{
    const struct k_attn *f = &a->fwd;
    int32_t d = f->cache.d_head;
    int64_t tok = f->batch.q_start[u->seq] + row;
    struct k_span seen = attn_seen(f, u->seq, row);
    float k[K_HEAD_MAX], v[K_HEAD_MAX], sum[K_HEAD_MAX] = {0}, p, ds;
    struct row r;
    row_read(a, tok, head, &r);
    for (int64_t j = seen.lo; j < seen.hi; j++) {
        attn_ref_key(f, u->seq, u->head, j, k);
        attn_ref_value(f, u->seq, u->head, j, v);
        pair(f, &r, k, v, &p, &ds);
        add_scaled(sum, attn_ref_round(f->cache.type, ds), k, d);
    }
    for (int32_t i = 0; i < d; i++)
        a->dq[tok * a->ld_dq + head * d + i] = sum[i] * f->scale;
}

void attn_bwd_q_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_bwd *a = args;
    int64_t group = a->fwd.n_head / a->fwd.cache.n_kv_head;
    struct k_attn_iter it;
    attn_iter_init(&it, &a->fwd, K_CUT_ROWS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t row = u.row_lo; row < u.row_hi; row++) {
            for (int64_t h = 0; h < group; h++)
                dq_row(a, &u, row, u.head * group + h);
        }
    }
}

static void dkv_key(const struct k_attn_bwd *a, const struct k_attn_unit *u, int64_t key)
{
    const struct k_attn *f = &a->fwd;
    int32_t d = f->cache.d_head;
    int64_t group = f->n_head / f->cache.n_kv_head, first = f->batch.q_start[u->seq];
    struct k_span rows = attn_seen_by(f, u->seq, key);
    float k[K_HEAD_MAX], v[K_HEAD_MAX], dk[K_HEAD_MAX] = {0}, dv[K_HEAD_MAX] = {0}, p, ds;
    attn_ref_key(f, u->seq, u->head, key, k);
    attn_ref_value(f, u->seq, u->head, key, v);
    for (int64_t h = u->head * group; h < (u->head + 1) * group; h++) {
        for (int64_t row = rows.lo; row < rows.hi; row++) {
            struct row r;
            row_read(a, first + row, h, &r);
            pair(f, &r, k, v, &p, &ds);
            add_scaled(dv, attn_ref_round(f->cache.type, p), r.dy, d);
            add_scaled(dk, attn_ref_round(f->cache.type, ds), r.q, d);
        }
    }
    int64_t tok = first + key - attn_first_pos(&f->batch, u->seq);
    for (int32_t i = 0; i < d; i++)
        a->dk[tok * a->ld_dk + u->head * d + i] = dk[i] * f->scale;
    memcpy(a->dv + tok * a->ld_dv + u->head * d, dv, (size_t)d * sizeof *dv);
}

void attn_bwd_kv_ref(const void *args, const struct k_slice *s)
{
    const struct k_attn_bwd *a = args;
    struct k_attn_iter it;
    attn_iter_init(&it, &a->fwd, a->part ? K_CUT_KEY_RUNS : K_CUT_KEYS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t key = u.key_lo; key < u.key_hi; key++)
            dkv_key(a, &u, key);
    }
}
