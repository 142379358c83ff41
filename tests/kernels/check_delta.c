/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule over ragged sequences. Faults they can catch: a head that reads another
 * head's keys or state, a row that decays after it reads, a state of the sequence before, a block
 * of columns that is not whole, a prompt whose rows or state depend on how it is cut, a slot that
 * is written in part or too early.
 */
#include <math.h>
#include <string.h>

#include "tests/kernels/delta_case.h"

static const struct delta_spec specs[] = {
    {1, 2, 16, 20, 3, {5, 1, 9}, false}, {2, 2, 128, 128, 1, {33}, false},
    {2, 6, 64, 32, 2, {70, 3}, false},   {1, 1, 7, 1, 1, {40}, false},
    {1, 3, 33, 45, 2, {8, 2}, false},    {1, 1, 256, 96, 1, {6}, false},
    {3, 3, 12, 256, 2, {2, 67}, false},  {1, 6, 24, 40, 2, {70, 3}, true},
};

typedef void spec_fn(struct check *c, const struct delta_spec *s, enum check_kind kind);

static void each_spec(struct check *c, spec_fn *f)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int kind = 0; kind < (i ? 1 : CHECK_KINDS); kind++) {
            check_begin(c);
            f(c, &specs[i], (enum check_kind)kind);
        }
    }
}

/* ---- rates ---- */

static void rates_one(struct check *c, const struct delta_spec *s, enum check_kind kind)
{
    struct delta_case v;
    if (s->is_scan)
        return;
    delta_case_make(c, &v, s, kind);
    struct k_delta_rates a = v.rates;
    int64_t cols = delta_rate_cols(s->n_k, s->n_v), n = a.m * cols;
    check_fill(c, (float *)(uintptr_t)a.q, a.m * v.ld_k, kind);
    check_fill(c, (float *)(uintptr_t)a.a, a.m * v.ld_h, kind);
    check_slices(c, &a, (struct check_out[]){{a.rate, (size_t)n * sizeof(float)}}, 1);
    for (int64_t t = 0; t < a.m; t++) {
        double want[64];
        for (int32_t h = 0; h < s->n_v; h++) {
            double x = (double)a.a[t * v.ld_h + h] + (double)a.dt_bias[h];
            want[h] = exp(-exp((double)a.a_log[h]) * (fmax(x, 0) + log1p(exp(-fabs(x)))));
            want[s->n_v + h] = 1 / (1 + exp(-(double)a.b[t * v.ld_h + h]));
        }
        for (int32_t h = 0; h < s->n_k; h++) {
            double q = 1e-6, k = 1e-6;
            for (int32_t i = 0; i < s->d_k; i++) {
                q += pow((double)a.q[t * v.ld_k + h * s->d_k + i], 2);
                k += pow((double)a.k[t * v.ld_k + h * s->d_k + i], 2);
            }
            want[2 * s->n_v + h] = 1 / sqrt(q * s->d_k);
            want[2 * s->n_v + s->n_k + h] = 1 / sqrt(k);
        }
        check_near_f64(c, "rates", a.rate + t * cols, want, cols, 3e-6, 1e-36);
    }
}

void check_delta_rates(struct check *c)
{
    each_spec(c, rates_one);
}

/* ---- forward ---- */

/* Slots: [0, n_seq) are begun from, [n_seq, 2 n_seq) written, the rest kept. */
struct slots {
    struct k_states s;
    int32_t *from, *to, *kept, *kept_len;
    size_t bytes;
};

static struct slots slots_make(struct check *c, const struct delta_case *v)
{
    int32_t n = v->spec.n_seq;
    size_t bytes = (size_t)n * sizeof(int32_t);
    struct slots x = {.from = check_buf(c, bytes, 4),
                      .to = check_buf(c, bytes, 4),
                      .kept = check_buf(c, bytes, 4),
                      .kept_len = check_buf(c, bytes, 4),
                      .bytes = (size_t)v->n_slot * v->slot_bytes};
    x.s = (struct k_states){check_buf(c, x.bytes, 64), x.from, x.to, x.kept, x.kept_len};
    memset(x.s.at, 0xff, x.bytes);
    for (int32_t i = 0; i < n; i++) {
        x.from[i] = i % 2 ? -1 : i;
        x.to[i] = n + i;
        x.kept[i] = i == 1 ? -1 : 2 * n + i;
        x.kept_len[i] = v->spec.len[i] / 2 + 1;
    }
    return x;
}

/* Numbers of a slot, head and place in [d_k, d_v]. */
static float *slot_number(const struct k_delta *a, float *at, int64_t slot, int64_t h, int32_t i,
                          int32_t j)
{
    int32_t col = j / DELTA_COLS * DELTA_COLS;
    int32_t width = a->d_v - col < DELTA_COLS ? a->d_v - col : DELTA_COLS;
    return at + delta_state_at(a, slot, h, col) + i * width + j - col;
}

/* Slots that sequences begin from: random; their states in f64, zeros where there is none. */
static double *states_begin(struct check *c, const struct delta_case *v, const struct slots *x)
{
    const struct delta_spec *s = &v->spec;
    int64_t head = (int64_t)s->d_k * s->d_v, n = s->n_seq * s->n_v * head;
    double *from = check_buf(c, (size_t)n * sizeof *from, 8);
    for (int64_t i = 0; i < n; i++) {
        int64_t seq = i / head / s->n_v, h = i / head % s->n_v, at = i % head;
        from[i] = 0;
        if (x->from[seq] < 0)
            continue;
        float *p = slot_number(&v->args, x->s.at, x->from[seq], h, (int32_t)(at / s->d_v),
                               (int32_t)(at % s->d_v));
        *p = (float)(check_unit(c) - 0.5);
        from[i] = (double)*p;
    }
    return from;
}

/* The largest number that a head's columns can come from. */
static double size_of(const struct delta_case *v)
{
    double most = 1e-30;
    for (int64_t i = 0; i < v->t.all.n_tok; i++)
        for (int64_t j = 0; j < v->ld_v - 3; j++)
            most = fmax(most, fabs((double)v->args.v[i * v->ld_v + j]));
    return most;
}

static void compare(struct check *c, const struct delta_case *v, const struct slots *x,
                    const double *from)
{
    const struct delta_spec *s = &v->spec;
    int64_t cols = (int64_t)s->n_v * s->d_v, head = (int64_t)s->d_k * s->d_v;
    double *y = check_buf(c, (size_t)(v->t.all.n_tok * cols) * sizeof *y, 8), size[2048];
    double *state = check_buf(c, (size_t)(s->n_seq * s->n_v * head) * sizeof *state, 8);
    struct delta_inputs in = delta_inputs_of(c, v);
    delta_define(v, &in, from, y, state);
    for (int64_t j = 0; j < cols; j++) /* a scan's q and k are as long as they come */
        size[j] = (size_of(v) + 1) * (s->is_scan ? 10.0 * s->d_k : 1);
    for (int64_t t = 0; t < v->t.all.n_tok; t++)
        check_near_scaled(c, "y", v->args.y + t * v->ld_v, y + t * cols, size, cols, 1e-6, 1e-37);
    for (int64_t i = 0; i < s->n_seq * s->n_v * head; i++) {
        int64_t seq = i / head / s->n_v, at = i % head;
        float *p = slot_number(&v->args, x->s.at, x->to[seq], i / head % s->n_v,
                               (int32_t)(at / s->d_v), (int32_t)(at % s->d_v));
        check_near_scaled(c, "state", p, state + i, size, 1, 1e-6, 1e-37);
    }
}

static char *slot_of(const struct delta_case *v, const struct slots *x, int64_t slot)
{
    return (char *)x->s.at + (size_t)slot * v->slot_bytes;
}

/* Rows [lo, hi) of sequence `seq` in a call of their own. */
static void run_rows(struct check *c, const struct delta_case *v, const struct k_states *state,
                     float *y, int64_t seq, int64_t lo, int64_t hi)
{
    struct k_delta a = v->args;
    int64_t at = v->t.all.q_start[seq] + lo;
    a.batch = attn_batch_of(c, &v->t.all, seq, seq + 1, lo, hi);
    a.state = *state;
    a.q = v->args.q + at * a.ld_q;
    a.k = v->args.k + at * a.ld_k;
    a.v = v->args.v + at * a.ld_v;
    a.rate = v->args.rate + at * delta_rate_cols(a.n_k, a.n_v);
    a.y = y + at * a.ld_y;
    check_run(c, &a);
}

/* Sequence `seq` in chunks, each a call that goes on from the slot of the one before; in place, or
 * with the last slot by turns: the bits of all at once. */
static void run_cut(struct check *c, const struct delta_case *v, const struct slots *x, int64_t seq,
                    int64_t chunk, bool in_place)
{
    int64_t start = v->t.all.q_start[seq], n = v->t.all.q_start[seq + 1] - start;
    int32_t other = (int32_t)v->n_slot - 1, to = x->to[seq], kept = x->kept[seq];
    int32_t *end = check_buf(c, 2 * sizeof *end, 4); /* from, to */
    struct k_states state = {x->s.at, end, end + 1, x->kept + seq, x->kept_len + seq};
    void *want = check_dup(c, slot_of(v, x, to), v->slot_bytes, 64);
    float *y = check_floats(c, v->t.all.n_tok * v->ld_v, CHECK_NAN);
    end[0] = x->from[seq];
    for (int64_t lo = 0; lo < n; lo += chunk) {
        int64_t hi = lo + chunk < n ? lo + chunk : n;
        end[1] = hi == n || in_place || end[0] == other ? to : other;
        run_rows(c, v, &state, y, seq, lo, hi);
        if (kept >= 0 && hi == x->kept_len[seq])
            check_bits(c, "kept state", slot_of(v, x, kept), slot_of(v, x, end[1]), v->slot_bytes);
        end[0] = end[1];
    }
    for (int64_t t = start; t < start + n; t++)
        check_bits(c, "y of parts", y + t * v->ld_v, v->args.y + t * v->ld_v,
                   (size_t)(v->spec.n_v * v->spec.d_v) * sizeof *y);
    check_bits(c, "state of parts", slot_of(v, x, to), want, v->slot_bytes);
}

static void forward_one(struct check *c, const struct delta_spec *s, enum check_kind kind)
{
    struct delta_case v;
    delta_case_make(c, &v, s, kind);
    struct slots x = slots_make(c, &v);
    double *from = states_begin(c, &v, &x);
    v.args.state = x.s;
    size_t bytes = (size_t)(v.t.all.n_tok * v.ld_v) * sizeof(float);
    check_slices(c, &v.args, (struct check_out[]){{v.args.y, bytes}, {x.s.at, x.bytes}}, 2);
    compare(c, &v, &x, from);
    void *all = check_dup(c, x.s.at, x.bytes, 64);
    for (int64_t seq = 0; seq < s->n_seq; seq++) {
        run_cut(c, &v, &x, seq, 1, true);
        run_cut(c, &v, &x, seq, 7, false);
        run_cut(c, &v, &x, seq, s->len[seq] / 2 + 1, true);
    }
    check_bits(c, "slots of parts", x.s.at, all, (size_t)(v.n_slot - 1) * v.slot_bytes);
}

void check_delta(struct check *c)
{
    each_spec(c, forward_one);
}
