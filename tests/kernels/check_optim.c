/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer. Faults they can catch: decay that goes through the moments, a correction on the
 * wrong side of the root, eps inside it, a fused product that changes bits between variants, a
 * partial sum that overflows or hides a NaN; a packed weight whose halves do not tell its value, a
 * tie that is told wrongly, a panel's numbers in the wrong row, padding that is stepped.
 */
#include <math.h>

#include "kernels/float16.h"
#include "kernels/halves.h"
#include "kernels/moments.h"
#include "tests/kernels/check.h"

static const int64_t lengths[] = {0,   1, 15, 17, K_SUM_CHUNK - 1, K_SUM_CHUNK, K_SUM_CHUNK + 1,
                                  9001};

/* One parameter over some steps, in f64, as the formula is published. */
static double adamw_f64(double p, const double *g, int n_step, const struct k_adamw *a)
{
    double m = 0, v = 0;
    for (int t = 1; t <= n_step; t++) {
        double grad = g[t - 1] * a->g_scale;
        p -= a->lr * a->decay * p;
        m = a->beta1 * m + (1 - a->beta1) * grad;
        v = a->beta2 * v + (1 - a->beta2) * grad * grad;
        double m_hat = m / (1 - pow(a->beta1, t)), v_hat = v / (1 - pow(a->beta2, t));
        p -= a->lr * m_hat / (sqrt(v_hat) + a->eps);
    }
    return p;
}

static void adamw_formula(struct check *c)
{
    enum { N = 37, STEPS = 10 };
    double g[N][STEPS], want[N];
    check_begin(c);
    check_case(c, "ten steps");
    float *p = check_floats(c, N, CHECK_RANDOM), *grad = check_floats(c, N, CHECK_NAN);
    float *m = check_floats(c, N, CHECK_ZERO), *v = check_buf(c, N * sizeof *v, 4);
    struct k_adamw a = {.p = p, .m = m, .v = v, .g = grad, .n = N, .lr = 1e-2, .beta1 = 0.9};
    a.beta2 = 0.999;
    a.eps = 1e-8;
    a.decay = 0.1;
    a.g_scale = 0.25;
    for (int i = 0; i < N; i++) {
        v[i] = 0;
        for (int t = 0; t < STEPS; t++)
            g[i][t] = (float)(check_unit(c) - 0.4);
        want[i] = adamw_f64(p[i], g[i], STEPS, &a);
    }
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            grad[i] = (float)g[i][t - 1];
        a.corr1 = 1 - pow(a.beta1, t);
        a.corr2 = 1 - pow(a.beta2, t);
        check_run(c, &a);
    }
    check_near_f64(c, "p", p, want, N, 1e-6, 1e-6);
}

/* A step of n numbers, which are not there yet. */
static struct k_adamw step_make(struct check *c, int64_t n, enum check_kind kind)
{
    struct k_adamw a = {.m = check_floats(c, n, kind),
                        .v = check_floats(c, n, CHECK_ZERO),
                        .g = check_floats(c, n, kind),
                        .n = n,
                        .lr = 3e-4,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-8,
                        .decay = 0.01,
                        .g_scale = 0.7,
                        .corr1 = 0.19,
                        .corr2 = 0.0975};
    for (int64_t i = 0; i < n; i++)
        a.v[i] = a.g[i] * a.g[i] * 0.5f;
    return a;
}

static void adamw_run(struct check *c, int64_t n, enum check_kind kind)
{
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
    struct k_adamw a = step_make(c, n, kind), ref = a;
    a.p = check_floats(c, n, CHECK_RANDOM);
    ref.p = check_dup(c, a.p, bytes, 4);
    ref.m = check_dup(c, a.m, bytes, 4);
    ref.v = check_dup(c, a.v, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{a.p, bytes}, {a.m, bytes}, {a.v, bytes}}, 3);
    check_run_ref(c, &ref);
    check_bits(c, "p", a.p, ref.p, bytes);
    check_bits(c, "m", a.m, ref.m, bytes);
    check_bits(c, "v", a.v, ref.v, bytes);
}

void check_adamw(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            adamw_run(c, lengths[i], kind);
    }
    adamw_formula(c);
}

/* ---- adamw_weight -------------------------------------------------------------------------- */

struct weight_case {
    enum k_type type;
    int64_t n, k;
    enum check_kind kind;
};

/* Numbers, packed by the level under test, with their low halves where the type is bf16. */
static struct k_adamw_weight weight_make(struct check *c, const struct weight_case *w, float *value)
{
    struct k_adamw_weight a = {0};
    int64_t n = w->n * w->k;
    k_weight_bind(&a.w, w->type, w->n, w->k, check_buf(c, k_weight_bytes(w->type, w->n, w->k), 64));
    struct k_weight_pack pack = {
        .src = value, .src_type = K_F32, .ld_src = w->k, .w = a.w, .n_src = w->n};
    if (w->type == K_BF16)
        a.low = check_buf(c, (size_t)n * sizeof *a.low, 2);
    for (int64_t i = 0; i < n && a.low; i++) {
        value[i] = f32_from_bits(halves_fit(f32_bits(value[i])));
        a.low[i] = (uint16_t)f32_bits(value[i]);
    }
    check_run_row(c, K_weight_pack, &pack);
    return a;
}

/* What a weight and its low halves stand for, read back. */
static float *weight_value(struct check *c, const struct k_adamw_weight *a)
{
    int64_t n = a->w.n * a->w.k;
    float *x = check_floats(c, n, CHECK_NAN);
    struct k_weight_unpack unpack = {.w = a->w, .dst = x, .ld_dst = a->w.k};
    check_run_row(c, K_weight_unpack, &unpack);
    for (int64_t i = 0; i < n && a->low; i++)
        x[i] = f32_from_bits(halves_join(f32_bits(x[i]) >> 16, a->low[i]));
    return x;
}

/* A step in place against the reference's step of flat numbers, which are then made to fit. */
static void weight_run(struct check *c, const struct weight_case *w, const struct k_adamw *step,
                       float *value)
{
    int64_t n = w->n * w->k;
    size_t bytes = (size_t)n * sizeof(float);
    struct k_adamw_weight a = weight_make(c, w, value);
    struct k_adamw flat = *step;
    a.a = *step;
    flat.p = check_dup(c, value, bytes, 4);
    flat.m = check_dup(c, step->m, bytes, 4);
    flat.v = check_dup(c, step->v, bytes, 4);
    kernel_run(c->ref, K_adamw, &flat, c->scratch);
    for (int64_t i = 0; i < n && a.low; i++)
        flat.p[i] = f32_from_bits(halves_fit(f32_bits(flat.p[i])));
    struct check_out out[] = {{a.w.data, k_weight_bytes(w->type, w->n, w->k)},
                              {a.a.m, bytes},
                              {a.a.v, bytes},
                              {a.low, (size_t)n * sizeof *a.low}};
    check_slices(c, &a, out, a.low ? 4 : 3);
    check_bits(c, "value", weight_value(c, &a), flat.p, bytes);
    check_bits(c, "m", a.a.m, flat.m, bytes);
    check_bits(c, "v", a.a.v, flat.v, bytes);
}

/* A step that lands where it is told to: p - g, with nothing else in its way. */
static void weight_lands(struct check *c)
{
    enum { N = 40, K = 66 };
    static const uint16_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const struct weight_case w = {K_BF16, N, K, CHECK_ZERO};
    check_begin(c);
    check_case(c, "lower halves around the middle");
    float *value = check_floats(c, (int64_t)N * K, CHECK_ZERO);
    struct k_adamw step = {.m = check_floats(c, (int64_t)N * K, CHECK_ZERO),
                           .v = check_floats(c, (int64_t)N * K, CHECK_ZERO),
                           .g = check_floats(c, (int64_t)N * K, CHECK_ZERO),
                           .n = (int64_t)N * K,
                           .lr = 1,
                           .beta2 = 1,
                           .eps = 1,
                           .g_scale = 1,
                           .corr1 = 1,
                           .corr2 = 1};
    float *g = check_floats(c, (int64_t)N * K, CHECK_ZERO);
    for (int i = 0; i < N * K; i++) { /* to numbers of both signs, with odd and even high halves */
        uint32_t high = (i % 2 ? 0xbf00u : 0x3f00u) + (uint32_t)check_below(c, 0x80);
        float to = f32_from_bits(high << 16 | low[i / 2 % 6]);
        value[i] = f32_from_bits(f32_bits(to) + 64); /* near: the difference is exact */
        value[i] = f32_from_bits(halves_fit(f32_bits(value[i])));
        g[i] = value[i] - to;
    }
    step.g = g;
    weight_run(c, &w, &step, value);
}

/* Every high half, and lower ones where rounding turns: parted and joined it is the same number,
 * but for a tie that is rounded up, which is moved; a NaN stays one. */
static void halves_tell_the_number(struct check *c)
{
    static const uint16_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    check_begin(c);
    check_case(c, "halves");
    for (uint32_t i = 0; i < 0x10000u * 8; i++) {
        uint32_t u = i >> 3 << 16 | (i % 8 < 6 ? low[i % 8] : (uint32_t)check_below(c, 0x10000));
        uint32_t fit = halves_fit(u), high = bf16_from_f32(f32_from_bits(u));
        uint32_t again = halves_join(bf16_from_f32(f32_from_bits(fit)), fit & 0xffff);
        bool is_moved = (u & 0x8000) && !(u & 0x7fff) && (high << 16) - u == 0x8000;
        if (isnan(f32_from_bits(u)))
            check_true(c, isnan(f32_from_bits(again)), "%08x becomes %08x", u, again);
        else
            check_true(c, again == u + is_moved && fit == again, "%08x becomes %08x", u, again);
        check_true(c, bf16_from_f32(f32_from_bits(fit)) == high, "%08x has another high half", u);
    }
}

void check_adamw_weight(struct check *c)
{
    static const int64_t outputs[] = {1, 15, 17, 31, 32, 33, 67};
    int n_size;
    const int64_t *inputs = check_sizes(&n_size);
    for (int t = 0; t < 2 * CHECK_KINDS * n_size; t++) {
        struct weight_case w = {t % 2 ? K_F32 : K_BF16, outputs[t % 7], inputs[t / 2 % n_size],
                                t / 2 % CHECK_KINDS};
        check_begin(c);
        check_case(c, "type %d n %d k %d %s", w.type, (int)w.n, (int)w.k, check_kind_name(w.kind));
        struct k_adamw step = step_make(c, w.n * w.k, w.kind);
        weight_run(c, &w, &step, check_floats(c, w.n * w.k, w.kind));
    }
    const struct weight_case wide = {K_BF16, 34, 2051, CHECK_SMALL};
    check_begin(c);
    check_case(c, "more inputs than are taken at a time");
    struct k_adamw step = step_make(c, wide.n * wide.k, CHECK_SMALL);
    weight_run(c, &wide, &step, check_floats(c, wide.n * wide.k, CHECK_SMALL));
    weight_lands(c);
    halves_tell_the_number(c);
}

static void sum_sq_run(struct check *c, int64_t n, enum check_kind kind)
{
    int64_t n_part = (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
    check_begin(c);
    check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
    float *x = check_floats(c, n, kind);
    size_t bytes = (size_t)n_part * sizeof(double);
    struct k_sum_sq a = {.x = x, .n = n, .part = check_buf(c, bytes, 8)}, ref = a;
    ref.part = check_buf(c, bytes, 8);
    check_slices(c, &a, (struct check_out[]){{a.part, bytes}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < n_part; i++)
        check_true(c, fabs(a.part[i] - ref.part[i]) <= 1e-13 * ref.part[i], "part %lld: %g, not %g",
                   (long long)i, a.part[i], ref.part[i]);
    for (int64_t i = 0; i < n; i += 1 + n / 7) { /* no place hides what is not finite */
        float kept = x[i];
        x[i] = i % 2 ? INFINITY : NAN;
        check_run(c, &a);
        check_true(c, !isfinite(a.part[i / K_SUM_CHUNK]), "%g at %lld is not seen", x[i],
                   (long long)i);
        x[i] = kept;
    }
}

void check_sum_sq(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            sum_sq_run(c, lengths[i], kind);
    }
}

/* ---- moments in 8 bits ------------------------------------------------------------------------
 */

/* Numbers over many binades, of which some are zero; second moments are not below it. */
static float *moments_make(struct check *c, int64_t n, enum check_kind kind, bool is_second)
{
    float *x = check_floats(c, n, kind);
    for (int64_t i = 0; i < n; i++) {
        x[i] *= ldexpf(1, -(int)check_below(c, 20));
        x[i] = is_second ? fabsf(x[i]) : x[i];
    }
    return x;
}

/* What codes stand for lies beside what they were made of, and is its own code. */
static void moments_compare(struct check *c, const struct k_moments *a)
{
    double bias = 0, spread = 0;
    for (int64_t i = 0; i < a->n; i++) {
        float x = a->x[i], unit = ldexpf(1, a->power[i / K_MOMENT] - 127);
        float got = moment_value(a->code[i], a->power[i / K_MOMENT], a->is_second);
        float least = unit * ldexpf(1, a->is_second ? -33 : -17);
        double step = fmax((double)fabsf(x) / 8, (double)least), off = (double)got - (double)x;
        check_true(c, fabs(off) <= step * 1.0001, "number %lld: %g for %g", (long long)i,
                   (double)got, (double)x);
        check_true(c, !a->is_second || (got > 0) == (x > 0), "number %lld: %g for %g", (long long)i,
                   (double)got, (double)x);
        for (uint32_t draw = 0; draw < 1u << MOMENT_CUT; draw += (1u << MOMENT_CUT) - 1)
            check_true(c,
                       moment_code(got, a->power[i / K_MOMENT], a->is_second, draw) == a->code[i],
                       "number %lld: code %d of %g is another again", (long long)i, a->code[i],
                       (double)got);
        bias += off / step;
        spread += 1;
    }
    check_true(c, spread < 4000 || fabs(bias) < 4 * sqrt(spread), "off by %g steps of %g", bias,
               spread);
}

static void moments_run(struct check *c, int64_t n, enum check_kind kind, bool is_second)
{
    check_begin(c);
    check_case(c, "%s %s n %lld", is_second ? "second" : "first", check_kind_name(kind),
               (long long)n);
    size_t powers = (size_t)((n + K_MOMENT - 1) / K_MOMENT);
    struct k_moments a = {.x = moments_make(c, n, kind, is_second),
                          .code = check_buf(c, (size_t)n, 1),
                          .power = check_buf(c, powers, 1),
                          .n = n,
                          .is_second = is_second,
                          .seed = moment_seed(9, is_second),
                          .first = (INT64_C(1) << 32) - 1000};
    struct k_moments ref = a;
    ref.code = check_dup(c, a.code, (size_t)n, 1);
    ref.power = check_dup(c, a.power, powers, 1);
    check_slices(c, &a, (struct check_out[]){{a.code, (size_t)n}, {a.power, powers}}, 2);
    check_run_ref(c, &ref);
    check_bits(c, "code", a.code, ref.code, (size_t)n);
    check_bits(c, "power", a.power, ref.power, powers);
    if (kind == CHECK_RANDOM)
        moments_compare(c, &a);
}

void check_moments_pack(struct check *c)
{
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        moments_run(c, lengths[i / 2], CHECK_RANDOM, i % 2);
        moments_run(c, lengths[i / 2], CHECK_ZERO, i % 2);
    }
}

void check_moments_unpack(struct check *c)
{
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i / 2];
        size_t powers = (size_t)((n + K_MOMENT - 1) / K_MOMENT), bytes = (size_t)n * sizeof(float);
        check_begin(c);
        check_case(c, "n %lld", (long long)n);
        struct k_moments a = {.x = check_floats(c, n, CHECK_NAN),
                              .code = check_buf(c, (size_t)n, 1),
                              .power = check_buf(c, powers, 1),
                              .n = n,
                              .is_second = i % 2};
        for (int64_t k = 0; k < n; k++)
            a.code[k] = (uint8_t)check_below(c, 256);
        for (size_t k = 0; k < powers; k++)
            a.power[k] = (uint8_t)check_below(c, MOMENT_POWER + 1);
        struct k_moments ref = a;
        ref.x = check_dup(c, a.x, bytes, 4);
        check_slices(c, &a, (struct check_out[]){{a.x, bytes}}, 1);
        check_run_ref(c, &ref);
        check_bits(c, "x", a.x, ref.x, bytes);
    }
}
