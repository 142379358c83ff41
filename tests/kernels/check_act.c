/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations. Faults they can catch: an exponential that overflows to NaN on huge gates, an
 * error function that loses its small or its large end, a derivative of the wrong branch, strides
 * of gate and up mixed up.
 */
#include <math.h>

#include "tests/kernels/check.h"

/* Numbers over the whole range where the functions bend, besides the usual kinds. */
static float *act_floats(struct check *c, int64_t n, enum check_kind kind)
{
    float *x = check_floats(c, n, kind);
    for (int64_t i = 0; kind == CHECK_RANDOM && i < n; i += 2)
        x[i] = (float)(check_unit(c) * 40 - 20);
    return x;
}

static void bits_by_place(struct check *c, const float *y, const float *y_shifted, int64_t d)
{
    check_bits(c, "same bits at another place", y, y_shifted, (size_t)d * sizeof *y);
}

static void gate_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 3, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    float *gate = act_floats(c, n, kind), *up = check_floats(c, n, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_swiglu a = {gate, up, y, ld, ld, ld, m, d}, ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++)
        check_near(c, "y", y + i * ld, want + i * ld, d, 1e-6, 1e-36);
    if (d > 1) { /* one number further on: every lane's neighbour, and the tail */
        struct k_swiglu moved = {gate + 1, up + 1, want, ld, ld, ld, 1, d - 1};
        check_run(c, &moved);
        bits_by_place(c, y + 1, want, d - 1);
    }
}

/* Both gates have one form; c->id says which. */
static void gate_sizes(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            gate_run(c, sizes[i], i % 3, kind);
    }
}

void check_swiglu(struct check *c)
{
    gate_sizes(c);
}

void check_glu(struct check *c)
{
    gate_sizes(c);
}

struct pair_loss {
    const float *other, *dy;
    int64_t d;
    bool is_gate; /* x is the gate, other is up; else the reverse */
    bool is_silu; /* of gates: times the gate */
    bool is_tanh;
};

static double gate_loss(const void *ctx, const double *x)
{
    const struct pair_loss *l = ctx;
    double sum = 0;
    for (int64_t j = 0; j < l->d; j++) {
        double g = l->is_gate ? x[j] : l->other[j], u = l->is_gate ? l->other[j] : x[j];
        sum += (l->is_silu ? g : 1) / (1 + exp(-g)) * u * l->dy[j];
    }
    return sum;
}

static void gate_bwd_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 2, n = m * ld;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    bool is_silu = c->id == K_swiglu_bwd;
    struct k_swiglu_bwd a = {.gate = act_floats(c, n, kind),
                             .up = check_floats(c, n, CHECK_RANDOM),
                             .dy = check_floats(c, n, CHECK_RANDOM),
                             .dgate = check_floats(c, n, CHECK_NAN),
                             .dup = check_floats(c, n, CHECK_NAN),
                             .ld_gate = ld,
                             .ld_up = ld,
                             .ld_dy = ld,
                             .ld_dgate = ld,
                             .ld_dup = ld,
                             .m = m,
                             .d = d};
    struct k_swiglu_bwd ref = a;
    ref.dgate = check_floats(c, n, CHECK_NAN);
    ref.dup = check_floats(c, n, CHECK_NAN);
    check_slices(c, &a, (struct check_out[]){{a.dgate, bytes}, {a.dup, bytes}}, 2);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++) {
        check_near(c, "dgate", a.dgate + i * ld, ref.dgate + i * ld, d, 2e-6, 2e-6);
        check_near(c, "dup", a.dup + i * ld, ref.dup + i * ld, d, 1e-6, 1e-36);
        struct pair_loss g = {a.up + i * ld, a.dy + i * ld, d, true, is_silu, false};
        struct pair_loss u = {a.gate + i * ld, a.dy + i * ld, d, false, is_silu, false};
        if (kind == CHECK_RANDOM && d < 70) {
            check_gradient(c, "dgate by differences", a.dgate + i * ld, a.gate + i * ld, d,
                           gate_loss, &g, 1e-5);
            check_gradient(c, "dup by differences", a.dup + i * ld, a.up + i * ld, d, gate_loss, &u,
                           1e-5);
        }
    }
}

static void gate_bwd_sizes(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            gate_bwd_run(c, sizes[i], i % 3, kind);
    }
}

void check_swiglu_bwd(struct check *c)
{
    gate_bwd_sizes(c);
}

void check_glu_bwd(struct check *c)
{
    gate_bwd_sizes(c);
}

/* The gate of every row, and what it weighs, side by side as ld says. */
static void row_gate_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 3, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    float *x = check_floats(c, n, kind), *gate = act_floats(c, m * 2, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_row_gate a = {x, gate, y, ld, 2, ld, m, d}, ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++)
        check_near(c, "y", y + i * ld, want + i * ld, d, 1e-6, 1e-36);
    a.y = x;
    a.ld_y = ld;
    check_run(c, &a);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "in place", x + i * ld, y + i * ld, (size_t)d * sizeof *y);
}

void check_row_gate(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++)
        for (int i = 0; i < n; i++)
            row_gate_run(c, sizes[i], i % 3, kind);
}

/* Of one row: x[0] is its gate. */
static double row_gate_loss(const void *ctx, const double *x)
{
    const struct pair_loss *l = ctx;
    double dot = 0;
    for (int64_t j = 0; j < l->d; j++)
        dot += (double)l->other[j] * l->dy[j];
    return dot / (1 + exp(-x[0]));
}

static void row_gate_bwd_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 2, n = m * ld;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    struct k_row_gate_bwd a = {.x = check_floats(c, n, CHECK_RANDOM),
                               .gate = act_floats(c, m, kind),
                               .dy = check_floats(c, n, CHECK_RANDOM),
                               .dx = check_floats(c, n, CHECK_NAN),
                               .dgate = check_floats(c, m, CHECK_NAN),
                               .ld_x = ld,
                               .ld_gate = 1,
                               .ld_dy = ld,
                               .ld_dx = ld,
                               .ld_dgate = 1,
                               .m = m,
                               .d = d};
    struct k_row_gate_bwd ref = a;
    ref.dx = check_floats(c, n, CHECK_NAN);
    ref.dgate = check_floats(c, m, CHECK_NAN);
    check_slices(c, &a, (struct check_out[]){{a.dx, bytes}, {a.dgate, (size_t)m * sizeof(float)}},
                 2);
    check_run_ref(c, &ref);
    check_near(c, "dgate", a.dgate, ref.dgate, m, 1e-5, 1e-5);
    for (int64_t i = 0; i < m; i++) {
        check_near(c, "dx", a.dx + i * ld, ref.dx + i * ld, d, 1e-6, 1e-36);
        struct pair_loss l = {.other = a.x + i * ld, .dy = a.dy + i * ld, .d = d};
        if (kind == CHECK_RANDOM && d < 70)
            check_gradient(c, "dgate by differences", a.dgate + i, a.gate + i, 1, row_gate_loss, &l,
                           1e-5);
    }
    float *dgate = ref.dgate;
    a.dx = NULL;
    check_run(c, &a);
    check_near(c, "dgate alone", a.dgate, dgate, m, 1e-5, 1e-5);
}

void check_row_gate_bwd(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++)
        for (int i = 0; i < n; i++)
            if (sizes[i] > 0)
                row_gate_bwd_run(c, sizes[i], i % 3, kind);
}

enum { LIMIT = 7 }; /* of the numbers here some are beyond */

static const double ALPHA = 1.702;

static struct k_swiglu_clamped clamped_new(struct check *c, int64_t m, int64_t d, int64_t ld,
                                           enum check_kind kind)
{
    int64_t n = m * ld;
    return (struct k_swiglu_clamped){.gate = act_floats(c, n, kind),
                                     .up = act_floats(c, n, CHECK_RANDOM),
                                     .dy = check_floats(c, n, CHECK_RANDOM),
                                     .y = check_floats(c, n, CHECK_NAN),
                                     .dgate = check_floats(c, n, CHECK_NAN),
                                     .dup = check_floats(c, n, CHECK_NAN),
                                     .ld_gate = ld,
                                     .ld_up = ld,
                                     .ld_dy = ld,
                                     .ld_y = ld,
                                     .ld_dgate = ld,
                                     .ld_dup = ld,
                                     .m = m,
                                     .d = d,
                                     .limit = LIMIT,
                                     .alpha = (float)ALPHA};
}

static void clamped_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 3, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    struct k_swiglu_clamped a = clamped_new(c, m, d, ld, kind), ref = a;
    ref.y = check_floats(c, n, CHECK_NAN);
    check_slices(c, &a, (struct check_out[]){{a.y, (size_t)n * sizeof *a.y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++)
        check_near(c, "y", a.y + i * ld, ref.y + i * ld, d, 2e-6, 2e-6);
    if (d > 1) {
        struct k_swiglu_clamped moved = a;
        moved.gate++, moved.up++, moved.y = ref.y;
        moved.m = 1, moved.d = d - 1;
        check_run(c, &moved);
        bits_by_place(c, a.y + 1, ref.y, d - 1);
    }
}

void check_swiglu_clamped(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            clamped_run(c, sizes[i], i % 3, kind);
    }
}

static double clamped_loss(const void *ctx, const double *x)
{
    const struct pair_loss *l = ctx;
    double sum = 0;
    for (int64_t j = 0; j < l->d; j++) {
        double g = l->is_gate ? x[j] : l->other[j], u = l->is_gate ? l->other[j] : x[j];
        g = fmin(g, LIMIT);
        u = fmax(-LIMIT, fmin(u, LIMIT));
        sum += g / (1 + exp(-ALPHA * g)) * (u + 1) * l->dy[j];
    }
    return sum;
}

static void clamped_bwd_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind)
{
    int64_t ld = d + pad, m = 2, n = m * ld;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    struct k_swiglu_clamped a = clamped_new(c, m, d, ld, kind), ref = a;
    ref.dgate = check_floats(c, n, CHECK_NAN);
    ref.dup = check_floats(c, n, CHECK_NAN);
    check_slices(c, &a, (struct check_out[]){{a.dgate, bytes}, {a.dup, bytes}}, 2);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++) {
        check_near(c, "dgate", a.dgate + i * ld, ref.dgate + i * ld, d, 2e-6, 2e-5);
        check_near(c, "dup", a.dup + i * ld, ref.dup + i * ld, d, 2e-6, 2e-6);
        struct pair_loss g = {.other = a.up + i * ld, .dy = a.dy + i * ld, .d = d, .is_gate = true};
        struct pair_loss u = {.other = a.gate + i * ld, .dy = a.dy + i * ld, .d = d};
        if (kind == CHECK_RANDOM && d < 70) {
            check_gradient(c, "dgate by differences", a.dgate + i * ld, a.gate + i * ld, d,
                           clamped_loss, &g, 1e-4);
            check_gradient(c, "dup by differences", a.dup + i * ld, a.up + i * ld, d, clamped_loss,
                           &u, 1e-4);
        }
    }
}

void check_swiglu_clamped_bwd(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            clamped_bwd_run(c, sizes[i], i % 3, kind);
    }
}

static double softcap_loss(const void *ctx, const double *x)
{
    const struct pair_loss *l = ctx;
    double sum = 0;
    for (int64_t j = 0; j < l->d; j++)
        sum += 3 * tanh(x[j] / 3) * l->dy[j];
    return sum;
}

static void softcap_run(struct check *c, int64_t d, bool bwd, enum check_kind kind)
{
    int64_t ld = d + 2, m = 2, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    float *x = act_floats(c, n, kind), *dy = check_floats(c, n, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    float *capped = check_floats(c, n, CHECK_ZERO);
    struct k_softcap fwd = {.x = x, .y = capped, .ld_x = ld, .ld_y = ld, .m = m, .d = d, .cap = 3};
    check_run_row(c, K_softcap, &fwd);
    struct k_softcap a = fwd;
    a.x = bwd ? capped : x;
    a.dy = bwd ? dy : NULL;
    a.ld_dy = ld;
    a.y = y;
    struct k_softcap ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++) {
        check_near(c, "y", y + i * ld, want + i * ld, d, 2e-6, bwd ? 1e-6 : 1e-36);
        struct pair_loss l = {.dy = dy + i * ld, .d = d};
        if (bwd && kind == CHECK_RANDOM && d < 70)
            check_gradient(c, "differences", y + i * ld, x + i * ld, d, softcap_loss, &l, 1e-5);
    }
    a.y = bwd ? dy : x;
    check_run(c, &a);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "in place", a.y + i * ld, y + i * ld, (size_t)d * sizeof *y);
}

static void softcap_check(struct check *c, bool bwd)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++)
        for (int i = 0; i < n; i++)
            softcap_run(c, sizes[i], bwd, kind);
}

void check_softcap(struct check *c)
{
    softcap_check(c, false);
}

void check_softcap_bwd(struct check *c)
{
    softcap_check(c, true);
}

static double gelu_f64(double x, bool is_tanh)
{
    double t = is_tanh ? tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)) : erf(x / sqrt(2));
    return 0.5 * x * (1 + t);
}

static double gelu_loss(const void *ctx, const double *x)
{
    const struct pair_loss *l = ctx;
    double sum = 0;
    for (int64_t j = 0; j < l->d; j++)
        sum += gelu_f64(x[j], l->is_tanh) * l->dy[j];
    return sum;
}

static void gelu_run(struct check *c, int64_t d, bool is_tanh, bool bwd, enum check_kind kind)
{
    int64_t ld = d + 2, m = 2, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld tanh %d", check_kind_name(kind), (long long)d, is_tanh);
    float *x = act_floats(c, n, kind), *dy = check_floats(c, n, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_gelu a = {x, bwd ? dy : NULL, y, ld, ld, ld, m, d, is_tanh}, ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++) {
        check_near(c, "y", y + i * ld, want + i * ld, d, 1e-6, kind == CHECK_RANDOM ? 2e-6 : 1e-36);
        struct pair_loss l = {NULL, dy + i * ld, d, false, false, is_tanh};
        if (bwd && kind == CHECK_RANDOM && d < 70)
            check_gradient(c, "differences", y + i * ld, x + i * ld, d, gelu_loss, &l, 1e-5);
    }
    if (d > 1) {
        struct k_gelu moved = {x + 1, bwd ? dy + 1 : NULL, want, ld, ld, ld, 1, d - 1, is_tanh};
        check_run(c, &moved);
        bits_by_place(c, y + 1, want, d - 1);
    }
}

static void gelu_check(struct check *c, bool bwd)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++) {
            gelu_run(c, sizes[i], false, bwd, kind);
            gelu_run(c, sizes[i], true, bwd, kind);
        }
    }
}

void check_gelu(struct check *c)
{
    gelu_check(c, false);
}

void check_gelu_bwd(struct check *c)
{
    gelu_check(c, true);
}
