/* SPDX-License-Identifier: Apache-2.0
 *
 * A question names rows of a tensor. From how parameters are cut and flat arrays are shared each
 * rank knows who has which of them, so nothing but the numbers is sent.
 */
#include "engine/train/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/linear.h"
#include "kernels/moments.h"

enum question_kind { ASK_GET, ASK_PUT, ASK_END };

struct question {
    int64_t kind, tensor, array, row, n_row;
};

void train_state_begin(struct train_state *s, struct train_tensors *on, struct stream *stream)
{
    size_t n = (size_t)on->model.size, n_data = (size_t)train_n_data(&on->ranks);
    *s = (struct train_state){.on = on, .stream = stream, .value = {.on = on, .stream = stream}};
    s->at = xcalloc(n * on->list.n + 1, sizeof *s->at);
    s->cut = xcalloc(n * (n_data + 1), sizeof *s->cut);
    for (size_t r = 0; r < n; r++) {
        int64_t *at = s->at + r * on->list.n, n_elem = train_tensors_place(on, (int)r, at);
        for (size_t d = 0; d <= n_data; d++)
            s->cut[r * (n_data + 1) + d] = train_tensors_cut(on, (int)r, at, n_elem, (int)d);
    }
}

void train_state_shape(const struct train_tensor *x, int64_t dim[2])
{
    dim[0] =
        x->side == TRAIN_SELF ? x->of->n : param_half_rows(x->of, x->side != TRAIN_HALF_A, x->rank);
    dim[1] = x->side == TRAIN_HALF_B ? x->rank : x->side == TRAIN_MAGNITUDE ? 1 : x->of->k;
}

/* ---- who has what -----------------------------------------------------------------------------
 */

/* A run of elements that one rank has one behind the other, all in rows that are asked for. */
struct run {
    int rank;        /* of all */
    int64_t at, n;   /* in the flat arrays of its rank of the model */
    int64_t element; /* the first's place in the rank's part */
    int64_t row;     /* that whole row which stands first in the part's run of rows */
    int64_t lo;      /* where that stands in the part, in rows */
    struct part_run col;
};

typedef int run_fn(struct train_state *s, const struct question *q, const struct run *r, float *x,
                   struct err *e);

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows of rank t of the model, cut by who of its data group has them: each its run, but of values
 * that are put, of which all have what products read. */
static int each_of_data(struct train_state *s, const struct question *q, int t, struct run r,
                        run_fn *fn, float *x, struct err *e)
{
    const struct train_tensors *on = s->on;
    int64_t first = s->at[(size_t)t * on->list.n + (size_t)q->tensor], lo = r.element, n = r.n;
    int n_data = train_n_data(&on->ranks);
    const int64_t *cut = s->cut + t * (n_data + 1);
    bool is_all = q->array == TRAIN_VALUE && q->kind == ASK_PUT;
    for (int d = 0; d < n_data; d++) {
        int64_t a = is_all ? lo : most(lo, cut[d] - first);
        int64_t b = is_all ? lo + n : least(lo + n, cut[d + 1] - first);
        if (a >= b)
            continue;
        r.rank = d * on->model.size + t;
        r.element = a;
        r.n = b - a;
        r.at = first + a;
        if (fn(s, q, &r, x, e))
            return -1;
    }
    return 0;
}

/* Runs fn over what is asked for, in one order at all ranks. */
static int each(struct train_state *s, const struct question *q, run_fn *fn, float *x,
                struct err *e)
{
    const struct train_tensors *on = s->on;
    const struct train_tensor *tensor = &on->list.at[q->tensor];
    for (int t = 0; t < on->model.size; t++) {
        struct part p = train_tensor_part(on, tensor, t);
        int64_t at = 0;
        if (p.is_zero || (tensor->is_shared && t > 0 && q->kind == ASK_GET))
            continue;
        for (int k = 0; k < p.n_output; at += p.output[k++].n) {
            int64_t a = most(p.output[k].lo, q->row);
            int64_t b = least(p.output[k].lo + p.output[k].n, q->row + q->n_row);
            struct run r = {.lo = at, .row = p.output[k].lo, .col = p.input};
            r.element = (at + a - r.row) * r.col.n;
            r.n = (b - a) * r.col.n;
            if (a < b && each_of_data(s, q, t, r, fn, x, e))
                return -1;
        }
    }
    return 0;
}

/* ---- moving it --------------------------------------------------------------------------------
 */

static int reserve(struct train_state *s, int64_t n, struct err *e)
{
    if (n > s->cap) {
        mem_free(s->piece);
        s->piece = try_alloc((size_t)n, sizeof *s->piece, "rows of other ranks", e);
        s->cap = s->piece ? n : 0;
    }
    return s->piece ? 0 : -1;
}

/* Room for n codes and their blocks' powers. */
static int reserve_codes(struct train_state *s, int64_t n, struct err *e)
{
    n += linear_ceil_div(n, K_MOMENT) + 1;
    if (n > s->cap_byte) {
        mem_free(s->byte);
        s->byte = try_alloc((size_t)n, 1, "codes of moments", e);
        s->cap_byte = s->byte ? n : 0;
    }
    return s->byte ? 0 : -1;
}

static int fetch_codes(struct train_state *s, const struct question *q, const struct run *r,
                       struct err *e)
{
    const struct train_tensors *on = s->on;
    int k = q->array == TRAIN_MOMENT2;
    int64_t lo = r->at - on->own_lo, first = lo / K_MOMENT;
    int64_t n_power = linear_ceil_div(lo + r->n, K_MOMENT) - first;
    if (reserve_codes(s, r->n + K_MOMENT, e))
        return -1;
    uint8_t *power = s->byte + r->n;
    stream_copy(s->stream, s->byte, on->code[k] + lo, (size_t)r->n, COPY_FROM_DEVICE);
    stream_copy(s->stream, power, on->power[k] + first, (size_t)n_power, COPY_FROM_DEVICE);
    if (stream_sync(s->stream, e))
        return -1;
    for (int64_t i = 0; i < r->n; i++)
        s->piece[i] = moment_value(s->byte[i], power[(lo + i) / K_MOMENT - first], k == 1);
    return 0;
}

/* Number i of those that began a block and the piece that goes on with it. */
static float begun_at(const struct train_state *s, int64_t i)
{
    return i < s->n_begun ? s->begun[i] : s->piece[i - s->n_begun];
}

/* What codes stand for, and so without draws. A tensor's rows come in their order: what ends in the
 * middle of a block waits for the rest of it. */
static int store_codes(struct train_state *s, const struct question *q, const struct run *r,
                       struct err *e)
{
    const struct train_tensors *on = s->on;
    const struct train_tensor *x = &on->list.at[q->tensor];
    int k = q->array == TRAIN_MOMENT2;
    int64_t end = linear_min(x->at + x->rows * x->cols, on->own_hi);
    int64_t lo = r->at - s->n_begun - on->own_lo, n = s->n_begun + r->n;
    int64_t n_now = r->at + r->n == end ? n : n / K_MOMENT * K_MOMENT;
    ASSERT(lo % K_MOMENT == 0);
    if (reserve_codes(s, n, e))
        return -1;
    uint8_t *power = s->byte + n;
    for (int64_t b = 0; b < n_now; b += K_MOMENT) {
        float most = 0;
        int64_t hi = linear_min(b + K_MOMENT, n_now);
        for (int64_t i = b; i < hi; i++)
            most = fabsf(begun_at(s, i)) > most ? fabsf(begun_at(s, i)) : most;
        power[b / K_MOMENT] = moment_power(most);
        for (int64_t i = b; i < hi; i++)
            s->byte[i] = moment_code(begun_at(s, i), power[b / K_MOMENT], k == 1, 0);
    }
    stream_copy(s->stream, on->code[k] + lo, s->byte, (size_t)n_now, COPY_TO_DEVICE);
    stream_copy(s->stream, on->power[k] + lo / K_MOMENT, power,
                (size_t)linear_ceil_div(n_now, K_MOMENT), COPY_TO_DEVICE);
    for (int64_t i = n_now; i < n; i++)
        s->begun[i - n_now] = begun_at(s, i);
    s->n_begun = n - n_now;
    return stream_sync(s->stream, e);
}

/* This rank's elements to the piece. */
static int fetch(struct train_state *s, const struct question *q, const struct run *r,
                 struct err *e)
{
    const struct train_tensors *on = s->on;
    if (q->array == TRAIN_VALUE)
        return train_value_get(&s->value, &on->list.at[q->tensor], r->element, r->n, s->piece, e);
    if (on->has_codes)
        return fetch_codes(s, q, r, e);
    const float *from = (q->array == TRAIN_MOMENT1 ? on->m : on->v) + (r->at - on->own_lo);
    stream_copy(s->stream, s->piece, from, (size_t)r->n * sizeof *from, COPY_FROM_DEVICE);
    return stream_sync(s->stream, e);
}

/* The piece becomes this rank's elements. */
static int store(struct train_state *s, const struct question *q, const struct run *r,
                 struct err *e)
{
    const struct train_tensors *on = s->on;
    if (q->array == TRAIN_VALUE)
        return train_value_put(&s->value, &on->list.at[q->tensor], r->element, r->n, s->piece, e);
    if (on->has_codes)
        return store_codes(s, q, r, e);
    float *to = (q->array == TRAIN_MOMENT1 ? on->m : on->v) + (r->at - on->own_lo);
    stream_copy(s->stream, to, s->piece, (size_t)r->n * sizeof *to, COPY_TO_DEVICE);
    return stream_sync(s->stream, e);
}

static int talk(struct train_state *s, enum comm_kind kind, int peer, int64_t n, struct err *e)
{
    struct comm_job j = {.kind = kind,
                         .peer = peer,
                         .in = s->piece,
                         .out = s->piece,
                         .n = (size_t)n * sizeof *s->piece,
                         .is_patient = true};
    return comm_run(s->on->ranks.all, &j, e);
}

/* Between the piece and the rows that were asked for, as far as rows of the part go. */
static void turn(const struct train_state *s, const struct question *q, const struct run *r,
                 float *x)
{
    int64_t dim[2];
    train_state_shape(&s->on->list.at[q->tensor], dim);
    for (int64_t i = 0; i < r->n;) {
        int64_t at = r->element + i, col = at % r->col.n, n = least(r->col.n - col, r->n - i);
        int64_t row = r->row + at / r->col.n - r->lo - q->row;
        float *rows = x + row * dim[1] + r->col.lo + col;
        if (q->kind == ASK_GET)
            memcpy(rows, s->piece + i, (size_t)n * sizeof *rows);
        else
            memcpy(s->piece + i, rows, (size_t)n * sizeof *rows);
        i += n;
    }
}

/* At rank 0, which asks. */
static int move_to_lead(struct train_state *s, const struct question *q, const struct run *r,
                        float *x, struct err *e)
{
    if (reserve(s, r->n, e) ||
        (r->rank == 0 ? fetch(s, q, r, e) : talk(s, COMM_RECEIVE, r->rank, r->n, e)))
        return -1;
    turn(s, q, r, x);
    return 0;
}

static int move_from_lead(struct train_state *s, const struct question *q, const struct run *r,
                          float *x, struct err *e)
{
    if (reserve(s, r->n, e))
        return -1;
    turn(s, q, r, x);
    return r->rank == 0 ? store(s, q, r, e) : talk(s, COMM_SEND, r->rank, r->n, e);
}

/* At the others. */
static int answer(struct train_state *s, const struct question *q, const struct run *r, float *x,
                  struct err *e)
{
    (void)x;
    if (r->rank != comm_rank(s->on->ranks.all))
        return 0;
    if (reserve(s, r->n, e))
        return -1;
    if (q->kind == ASK_GET)
        return fetch(s, q, r, e) || talk(s, COMM_SEND, 0, r->n, e) ? -1 : 0;
    return talk(s, COMM_RECEIVE, 0, r->n, e) || store(s, q, r, e) ? -1 : 0;
}

/* A rank that stops in the middle of a question leaves others waiting for it. */
static int give_up(const struct train_state *s, const struct err *e)
{
    if (s->on->ranks.all)
        comm_abort(s->on->ranks.all, e->msg);
    return -1;
}

static int ask(struct train_state *s, struct question *q, run_fn *fn, float *x, struct err *e)
{
    return train_broadcast(&s->on->ranks, q, sizeof *q, e) || each(s, q, fn, x, e) ? give_up(s, e)
                                                                                   : 0;
}

int train_state_get(struct train_state *s, size_t i, enum train_array which, int64_t row,
                    int64_t n_row, float *x, struct err *e)
{
    struct question q = {ASK_GET, (int64_t)i, (int64_t)which, row, n_row};
    return ask(s, &q, move_to_lead, x, e);
}

int train_state_put(struct train_state *s, size_t i, enum train_array which, int64_t row,
                    int64_t n_row, const float *x, struct err *e)
{
    struct question q = {ASK_PUT, (int64_t)i, (int64_t)which, row, n_row};
    return ask(s, &q, move_from_lead, (float *)(uintptr_t)x, e); /* read only */
}

int train_state_end(struct train_state *s, int rc, struct err *e)
{
    struct question q = {.kind = ASK_END};
    const struct train_ranks *r = &s->on->ranks;
    if (train_is_lead(r)) {
        struct err late = ERR_INIT; /* says nothing that *e does not say already */
        rc = train_broadcast(r, &q, sizeof q, rc ? &late : e) || train_broadcast_end(r, rc, e) ? -1
                                                                                               : 0;
    } else {
        do
            rc = train_broadcast(r, &q, sizeof q, e) ||
                         (q.kind != ASK_END && each(s, &q, answer, NULL, e))
                     ? -1
                     : 0;
        while (!rc && q.kind != ASK_END);
        rc = rc ? give_up(s, e) : train_broadcast_end(r, 0, e);
    }
    free(s->at);
    free(s->cut);
    train_value_release(&s->value);
    mem_free(s->piece);
    mem_free(s->byte);
    *s = (struct train_state){0};
    return rc;
}
