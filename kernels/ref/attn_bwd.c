/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention, pair by pair: p is made again from the saved log-sum-exp. With
 * ds = p (dy v - D), D = dy y:  dq = scale sum ds k,  dk = scale sum ds q,  dv = sum p dy.
 *
 * Rows and keys are read once for many pairs, and the keys of a block are looked at side by side,
 * each by chains of its own: pair by pair, reading them again would be most of the tests' time.
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

/* At most K_CELL keys one behind the other, as rows, and as columns beside those of the others. */
struct keys {
    float k[K_CELL][K_HEAD_MAX];
    float k_col[K_HEAD_MAX][K_CELL], v_col[K_HEAD_MAX][K_CELL];
    int64_t lo, hi;
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

/* Keys from lo on, before hi. */
static void keys_read(const struct k_attn *a, const struct k_attn_unit *u, int64_t lo, int64_t hi,
                      struct keys *to)
{
    float v[K_HEAD_MAX];
    to->lo = lo;
    to->hi = hi < lo + K_CELL ? hi : lo + K_CELL;
    for (int64_t j = 0; j < to->hi - lo; j++) {
        attn_ref_key(a, u->seq, u->head, lo + j, to->k[j]);
        attn_ref_value(a, u->seq, u->head, lo + j, v);
        for (int32_t i = 0; i < a->cache.d_head; i++) {
            to->k_col[i][j] = to->k[j][i];
            to->v_col[i][j] = v[i];
        }
    }
}

/* x times each of the columns, as attn_ref_dot takes it: of those behind the last one, too. */
static void dots(const float *x, float (*col)[K_CELL], int32_t d, float *restrict dot)
{
    float sum[K_CELL] = {0};
    for (int32_t i = 0; i < d; i++)
        for (int j = 0; j < K_CELL; j++)
            sum[j] += x[i] * col[i][j];
    memcpy(dot, sum, sizeof sum);
}

/* p and ds of a row and a key that it sees, unrounded. */
static void pair(const struct k_attn *a, const struct row *r, float dot_k, float dot_v, float *p,
                 float *ds)
{
    float score = attn_ref_score(a, dot_k);
    *p = expf(score - r->lse);
    *ds = *p * (dot_v - r->delta);
    if (a->softcap > 0) {
        float t = score / a->softcap;
        *ds *= 1 - t * t;
    }
}

static void add_scaled(float *restrict y, float s, const float *x, int32_t d)
{
    for (int32_t i = 0; i < d; i++)
        y[i] += s * x[i];
}

/* ---- dq ---- */

/* A row's sum over the keys that it sees. */
struct dq {
    struct row row;
    float sum[K_HEAD_MAX];
    struct k_span seen;
};

static void dq_add(const struct k_attn *a, struct keys *keys, struct dq *to)
{
    int64_t lo = to->seen.lo > keys->lo ? to->seen.lo : keys->lo;
    int64_t hi = to->seen.hi < keys->hi ? to->seen.hi : keys->hi;
    float dot_k[K_CELL], dot_v[K_CELL], p, ds;
    if (lo >= hi)
        return;
    dots(to->row.q, keys->k_col, a->cache.d_head, dot_k);
    dots(to->row.dy, keys->v_col, a->cache.d_head, dot_v);
    for (int64_t j = lo - keys->lo; j < hi - keys->lo; j++) {
        pair(a, &to->row, dot_k[j], dot_v[j], &p, &ds);
        add_scaled(to->sum, attn_ref_round(a->cache.type, ds), keys->k[j], a->cache.d_head);
    }
}

/* Rows [lo, hi) of a head of query. */
static void dq_rows(const struct k_attn_bwd *a, const struct k_attn_unit *u, int64_t lo, int64_t hi,
                    int64_t head, void *scratch)
{
    const struct k_attn *f = &a->fwd;
    int64_t first = f->batch.q_start[u->seq];
    struct k_span all = {INT64_MAX, 0};
    struct keys *keys = scratch;
    struct dq *dq = (struct dq *)(keys + 1);
    int32_t d = f->cache.d_head;
    for (int64_t i = 0; i < hi - lo; i++) {
        memset(dq[i].sum, 0, sizeof dq[i].sum);
        row_read(a, first + lo + i, head, &dq[i].row);
        dq[i].seen = attn_seen(f, u->seq, lo + i);
        all.lo = dq[i].seen.lo < all.lo ? dq[i].seen.lo : all.lo;
        all.hi = dq[i].seen.hi > all.hi ? dq[i].seen.hi : all.hi;
    }
    for (int64_t j = all.lo; j < all.hi; j += K_CELL) {
        keys_read(f, u, j, all.hi, keys);
        for (int64_t i = 0; i < hi - lo; i++)
            dq_add(f, keys, &dq[i]);
    }
    for (int64_t i = 0; i < hi - lo; i++)
        for (int32_t n = 0; n < d; n++)
            a->dq[(first + lo + i) * a->ld_dq + head * d + n] = dq[i].sum[n] * f->scale;
}

void attn_bwd_q_ref(const void *args, const struct k_slice *s)
{
    enum { RUN = (K_SCRATCH_BYTES - sizeof(struct keys)) / sizeof(struct dq) };
    const struct k_attn_bwd *a = args;
    int64_t group = a->fwd.n_head / a->fwd.cache.n_kv_head;
    struct k_attn_iter it;
    attn_iter_init(&it, &a->fwd, K_CUT_ROWS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t row = u.row_lo; row < u.row_hi; row += RUN) {
            int64_t hi = row + RUN < u.row_hi ? row + RUN : u.row_hi;
            for (int64_t h = u.head * group; h < (u.head + 1) * group; h++)
                dq_rows(a, &u, row, hi, h, s->scratch);
        }
    }
}

/* ---- dk and dv ---- */

struct dkv {
    struct keys keys;
    struct k_span rows[K_CELL]; /* that see a key */
    float dk[K_CELL][K_HEAD_MAX], dv[K_CELL][K_HEAD_MAX];
};

static void dkv_add(const struct k_attn *a, const struct row *r, int64_t row, struct dkv *to)
{
    int32_t d = a->cache.d_head;
    float dot_k[K_CELL], dot_v[K_CELL], p, ds;
    dots(r->q, to->keys.k_col, d, dot_k);
    dots(r->dy, to->keys.v_col, d, dot_v);
    for (int64_t j = 0; j < to->keys.hi - to->keys.lo; j++) {
        if (row < to->rows[j].lo || row >= to->rows[j].hi)
            continue;
        pair(a, r, dot_k[j], dot_v[j], &p, &ds);
        add_scaled(to->dv[j], attn_ref_round(a->cache.type, p), r->dy, d);
        add_scaled(to->dk[j], attn_ref_round(a->cache.type, ds), r->q, d);
    }
}

/* Keys from lo on of a unit: as many as fit. */
static void dkv_keys(const struct k_attn_bwd *a, const struct k_attn_unit *u, int64_t lo,
                     struct dkv *to)
{
    const struct k_attn *f = &a->fwd;
    int32_t d = f->cache.d_head;
    int64_t group = f->n_head / f->cache.n_kv_head, first = f->batch.q_start[u->seq];
    struct k_span all = {INT64_MAX, 0};
    keys_read(f, u, lo, u->key_hi, &to->keys);
    for (int64_t j = 0; j < to->keys.hi - lo; j++) {
        struct k_span rows = to->rows[j] = attn_seen_by(f, u->seq, lo + j);
        all.lo = rows.lo < all.lo ? rows.lo : all.lo;
        all.hi = rows.hi > all.hi ? rows.hi : all.hi;
    }
    memset(to->dk, 0, sizeof to->dk);
    memset(to->dv, 0, sizeof to->dv);
    for (int64_t h = u->head * group; h < (u->head + 1) * group; h++) {
        for (int64_t row = all.lo; row < all.hi; row++) {
            struct row r;
            row_read(a, first + row, h, &r);
            dkv_add(f, &r, row, to);
        }
    }
    int64_t tok = first + lo - attn_first_pos(&f->batch, u->seq);
    for (int64_t j = 0; j < to->keys.hi - lo; j++, tok++) {
        for (int32_t i = 0; i < d; i++)
            a->dk[tok * a->ld_dk + u->head * d + i] = to->dk[j][i] * f->scale;
        memcpy(a->dv + tok * a->ld_dv + u->head * d, to->dv[j], (size_t)d * sizeof(float));
    }
}

void attn_bwd_kv_ref(const void *args, const struct k_slice *s)
{
    _Static_assert(sizeof(struct dkv) <= K_SCRATCH_BYTES, "the scratch of a thread");
    const struct k_attn_bwd *a = args;
    struct k_attn_iter it;
    attn_iter_init(&it, &a->fwd, a->part ? K_CUT_KEY_RUNS : K_CUT_KEYS, s->lo);
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_attn_unit u;
        attn_iter_next(&it, &u);
        for (int64_t key = u.key_lo; key < u.key_hi; key += K_CELL)
            dkv_keys(a, &u, key, s->scratch);
    }
}
