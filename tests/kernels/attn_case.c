/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds ragged attention calls and their truth in f64.
 */
#include "tests/kernels/attn_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cell_codes.h"
#include "kernels/float16.h"

enum { GAP = 3 }; /* floats between rows: nothing is aligned by luck */

void attn_round(enum k_type type, const float *x, int64_t n, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = attn_rows_type(type) == K_BF16 ? (double)bf16_to_f32(bf16_from_f32(x[i]))
                                              : (double)x[i];
}

/* What cells of codes make of a head's d numbers: the definition. */
static void round_codes(const float *x, int32_t d, double *y)
{
    float most = 0;
    for (int32_t i = 0; i < d; i++)
        most = isfinite(x[i]) ? fmaxf(most, fabsf(x[i])) : INFINITY;
    struct cell_scale s = cell_scale_of(most);
    for (int32_t i = 0; i < d; i++)
        y[i] = (double)bf16_to_f32(bf16_from_f32(s.scale * (float)cell_code_of(x[i], s)));
}

/* Keys or values as the cells hold them. */
static void round_cells(const struct attn_case *t, const float *x, double *y)
{
    const struct attn_spec *s = &t->spec;
    if (s->type != K_INT8) {
        attn_round(s->type, x, t->all.n_tok * t->ld_k, y);
        return;
    }
    for (int64_t tok = 0; tok < t->all.n_tok; tok++) {
        for (int64_t at = tok * t->ld_k, h = 0; h < s->n_kv_head; h++, at += s->d)
            round_codes(x + at, s->d, y + at);
    }
}

/* In four sums, which do not wait for each other. */
double attn_dot(const double *a, const double *b, int32_t d, double *size)
{
    double sum[4] = {0}, all[4] = {0};
    int32_t i = 0;
    for (; i + 4 <= d; i += 4) {
        for (int32_t j = 0; j < 4; j++) {
            double x = a[i + j] * b[i + j];
            sum[j] += x;
            all[j] += fabs(x);
        }
    }
    for (; i < d; i++) {
        sum[0] += a[i] * b[i];
        all[0] += fabs(a[i] * b[i]);
    }
    *size = all[0] + all[1] + all[2] + all[3];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static int64_t cells_of(int64_t n_key)
{
    return (n_key + K_CELL - 1) / K_CELL;
}

/* Arrays of a batch whose sequence s has n_row[s] rows and kv_len[s] keys. */
static struct k_ragged batch_make(struct check *c, int n_seq, const int32_t *n_row,
                                  const int32_t *kv_len)
{
    int32_t n_tok = 0;
    for (int s = 0; s < n_seq; s++)
        n_tok += n_row[s];
    int32_t *start = check_buf(c, (size_t)(n_seq + 1) * sizeof *start, 4);
    int32_t *len = check_buf(c, (size_t)n_seq * sizeof *len, 4);
    int32_t *seq_of = check_buf(c, (size_t)n_tok * sizeof *seq_of, 4);
    int32_t *pos = check_buf(c, (size_t)n_tok * sizeof *pos, 4);
    start[0] = 0;
    for (int s = 0; s < n_seq; s++) {
        start[s + 1] = start[s] + n_row[s];
        len[s] = kv_len[s];
        for (int32_t i = 0; i < n_row[s]; i++) {
            seq_of[start[s] + i] = s;
            pos[start[s] + i] = kv_len[s] - n_row[s] + i;
        }
    }
    return (struct k_ragged){.n_seq = n_seq,
                             .n_tok = n_tok,
                             .q_start = start,
                             .kv_len = len,
                             .seq_of = seq_of,
                             .pos = pos};
}

/* Places for every cell, in random order, among as many again that no one uses. */
static void cells_make(struct check *c, struct attn_case *t)
{
    const struct attn_spec *s = &t->spec;
    int64_t stride = 1, n_place = 0;
    for (int i = 0; i < s->n_seq; i++) {
        stride = cells_of(s->kv_len[i]) > stride ? cells_of(s->kv_len[i]) : stride;
        n_place += 2 * cells_of(s->kv_len[i]) + 1;
    }
    int32_t *place = check_buf(c, (size_t)n_place * sizeof *place, 4);
    for (int64_t i = 0; i < n_place; i++) {
        int64_t j = check_below(c, i + 1);
        place[i] = place[j];
        place[j] = (int32_t)i;
    }
    int32_t *cell = check_buf(c, (size_t)(s->n_seq * stride) * sizeof *cell, 4);
    for (int64_t i = 0, at = 0; i < s->n_seq; i++) {
        for (int64_t j = 0; j < cells_of(s->kv_len[i]); j++)
            cell[i * stride + j] = place[at++];
    }
    t->cache.n_cell = n_place;
    t->batch.cell = t->all.cell = cell;
    t->batch.cell_stride = t->all.cell_stride = stride;
    t->cache_bytes =
        (size_t)(n_place * s->n_kv_head) * k_kv_cell_bytes(t->cache.type, t->cache.d_head);
    t->cache.k = check_buf(c, t->cache_bytes, 64);
    t->cache.v = check_buf(c, t->cache_bytes, 64);
    memset(t->cache.k, 0xff, t->cache_bytes);
    memset(t->cache.v, 0xff, t->cache_bytes);
}

void attn_case_name(struct check *c, const struct attn_spec *s)
{
    check_case(c, "%s %s d %d heads %d/%d window %d cap %g%s, %d sequences, first %d of %d",
               k_format(s->type)->name, check_kind_name(s->kind), s->d, s->n_head, s->n_kv_head,
               s->window, (double)s->softcap, s->full ? " full" : "", s->n_seq, s->n_row[0],
               s->kv_len[0]);
}

/* A sum of the numbers of a spec, one by one: between them may lie anything. */
static uint64_t spec_sum(uint64_t sum, const struct attn_spec *s)
{
    int32_t n[] = {(int32_t)s->type, s->d,     s->n_head,        s->n_kv_head,
                   s->window,        s->n_seq, (int32_t)s->kind, s->full};
    sum = check_sum(sum, n, sizeof n);
    sum = check_sum(sum, &s->softcap, sizeof s->softcap);
    sum = check_sum(sum, s->n_row, (size_t)s->n_seq * sizeof *s->n_row);
    return check_sum(sum, s->kv_len, (size_t)s->n_seq * sizeof *s->kv_len);
}

void attn_case_make(struct check *c, struct attn_case *t, const struct attn_spec *spec)
{
    *t = (struct attn_case){.spec = *spec};
    const struct attn_spec *s = &t->spec;
    c->rng = spec_sum(c->seed, s);
    t->batch = batch_make(c, s->n_seq, s->n_row, s->kv_len);
    t->all = batch_make(c, s->n_seq, s->kv_len, s->kv_len);
    t->cache = (struct k_kv_cache){.type = s->type, .n_kv_head = s->n_kv_head, .d_head = s->d};
    cells_make(c, t);
    t->ld_q = s->n_head * s->d + GAP;
    t->ld_y = s->n_head * s->d + 2 * GAP;
    t->ld_k = s->n_kv_head * s->d + GAP;
    t->q = check_floats(c, t->batch.n_tok * t->ld_q, s->kind);
    t->k = check_floats(c, t->all.n_tok * t->ld_k, s->kind);
    t->v = check_floats(c, t->all.n_tok * t->ld_k, s->kind);
    t->y = check_floats(c, t->batch.n_tok * t->ld_y, CHECK_NAN);
    t->lse = check_floats(c, t->batch.n_tok * s->n_head, CHECK_NAN);
    struct k_kv_write w = {
        .batch = t->all, .cache = t->cache, .k = t->k, .v = t->v, .ld_k = t->ld_k, .ld_v = t->ld_k};
    check_run_row(c, K_kv_write, &w);
    t->args = (struct k_attn){.batch = t->batch,
                              .cache = t->cache,
                              .q = t->q,
                              .y = t->y,
                              .lse = t->lse,
                              .ld_q = t->ld_q,
                              .ld_y = t->ld_y,
                              .n_head = s->n_head,
                              .window = s->window,
                              .scale = 1 / sqrtf((float)s->d),
                              .softcap = s->softcap,
                              .causal = !s->full};
}

struct k_ragged attn_batch_of(struct check *c, const struct k_ragged *from, int64_t lo, int64_t hi,
                              int64_t row_lo, int64_t row_hi)
{
    int32_t n_row[ATTN_SEQ_MAX], kv_len[ATTN_SEQ_MAX];
    for (int64_t s = lo; s < hi; s++) {
        int64_t n = attn_row_count(from, s), end = row_hi < n ? row_hi : n;
        n_row[s - lo] = (int32_t)(end > row_lo ? end - row_lo : 0);
        kv_len[s - lo] = (int32_t)(attn_first_pos(from, s) + (end > row_lo ? end : 0));
    }
    struct k_ragged b = batch_make(c, (int)(hi - lo), n_row, kv_len);
    b.cell = from->cell + lo * from->cell_stride;
    b.cell_stride = from->cell_stride;
    return b;
}

double attn_score(const struct attn_spec *s, float scale, double dot, double *slope)
{
    double x = dot * (double)scale, t;
    *slope = (double)scale;
    if (s->softcap <= 0)
        return x;
    t = tanh(x / (double)s->softcap);
    *slope *= 1 - t * t;
    return (double)s->softcap * t;
}

bool attn_sees(const struct attn_spec *s, int64_t kv_len, int64_t n_row, int64_t row, int64_t key)
{
    int64_t away = kv_len - n_row + row - key;
    if (key >= kv_len || (!s->full && away < 0))
        return false;
    return s->window == 0 || llabs(away) < s->window;
}

/* Scores of a row over its sequence's keys, -inf where it sees none; their log-sum-exp. */
static double row_scores(const struct attn_case *t, const struct attn_truth *w, int64_t seq,
                         int64_t row, int64_t head, double *score)
{
    const struct attn_spec *s = &t->spec;
    int64_t kv_head = head / (s->n_head / s->n_kv_head), tok = t->batch.q_start[seq] + row;
    double most = -INFINITY, sum = 0, slope, size;
    for (int64_t j = 0; j < s->kv_len[seq]; j++) {
        const double *k = w->k + (t->all.q_start[seq] + j) * t->ld_k + kv_head * s->d;
        score[j] = -INFINITY;
        if (!attn_sees(s, s->kv_len[seq], s->n_row[seq], row, j))
            continue;
        double dot = attn_dot(w->q + tok * t->ld_q + head * s->d, k, s->d, &size);
        score[j] = attn_score(s, t->args.scale, dot, &slope);
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < s->kv_len[seq]; j++)
        sum += score[j] == -INFINITY ? 0 : exp(score[j] - most);
    return sum > 0 ? most + log(sum) : -INFINITY;
}

/* y += p v, size += p |v| */
static void take_value(double *restrict y, double *restrict size, double p, const double *v,
                       int32_t d)
{
    for (int32_t i = 0; i < d; i++) {
        y[i] += p * v[i];
        size[i] += p * fabs(v[i]);
    }
}

static void truth_row(const struct attn_case *t, struct attn_truth *w, int64_t seq, int64_t row,
                      int64_t head, double *score)
{
    const struct attn_spec *s = &t->spec;
    int64_t kv_head = head / (s->n_head / s->n_kv_head), tok = t->batch.q_start[seq] + row;
    int64_t at = tok * s->n_head + head;
    w->lse[at] = row_scores(t, w, seq, row, head, score);
    for (int64_t j = 0; j < s->kv_len[seq]; j++) {
        if (score[j] == -INFINITY)
            continue;
        double p = exp(score[j] - w->lse[at]);
        const double *v = w->v + (t->all.q_start[seq] + j) * t->ld_k + kv_head * s->d;
        take_value(w->y + at * s->d, w->size + at * s->d, p, v, s->d);
    }
}

static void truth_fill(const struct attn_case *t, struct attn_truth *w, double *score)
{
    attn_round(t->spec.type, t->q, t->batch.n_tok * t->ld_q, w->q);
    round_cells(t, t->k, w->k);
    round_cells(t, t->v, w->v);
    for (int64_t s = 0; s < t->spec.n_seq; s++) {
        for (int64_t i = 0; i < t->spec.n_row[s]; i++) {
            for (int64_t h = 0; h < t->spec.n_head; h++)
                truth_row(t, w, s, i, h, score);
        }
    }
}

struct attn_truth attn_truth_of(struct check *c, const struct attn_case *t)
{
    int64_t n = t->batch.n_tok * t->spec.n_head, n_score = t->batch.cell_stride * K_CELL;
    int64_t n_q = t->batch.n_tok * t->ld_q, n_kv = t->all.n_tok * t->ld_k;
    uint64_t sum = spec_sum(0, &t->spec);
    sum = check_sum(sum, t->q, (size_t)n_q * sizeof *t->q);
    sum = check_sum(sum, t->k, (size_t)n_kv * sizeof *t->k);
    sum = check_sum(sum, t->v, (size_t)n_kv * sizeof *t->v);
    bool is_new;
    double *x = check_kept_take(c, sum, n_score + 2 * n * t->spec.d + n + n_q + 2 * n_kv, &is_new);
    double *score = x;
    struct attn_truth w = {.sum = sum};
    w.y = score + n_score;
    w.size = w.y + n * t->spec.d;
    w.lse = w.size + n * t->spec.d;
    w.q = w.lse + n;
    w.k = w.q + n_q;
    w.v = w.k + n_kv;
    if (is_new)
        truth_fill(t, &w, score);
    return w;
}

float *attn_dense(struct check *c, const float *x, int64_t ld, int64_t n, int64_t width)
{
    float *y = check_buf(c, (size_t)(n * width) * sizeof *y, 4);
    for (int64_t i = 0; i < n; i++)
        memcpy(y + i * width, x + i * ld, (size_t)width * sizeof *y);
    return y;
}
