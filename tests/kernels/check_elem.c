/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise rows. Faults they can catch: a tail that is skipped or written past, a stride
 * mistaken for a length, a broadcast row that moves, in-place runs that read what they wrote, a
 * conversion that does not round to even or flushes denormals.
 */
#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "kernels/float16.h"
#include "tests/kernels/check.h"

struct binary_case {
    int64_t m, d, pad;
    bool a_row, b_row; /* one row for all */
};

/* The same call into y, and into a copy of a in place; the variant against the reference. */
static void binary_run(struct check *c, const struct binary_case *k, enum check_kind kind)
{
    int64_t ld = k->d + k->pad, n = k->m * ld;
    check_begin(c);
    check_case(c, "%s m %lld d %lld ld %lld broadcast %d %d", check_kind_name(kind),
               (long long)k->m, (long long)k->d, (long long)ld, k->a_row, k->b_row);
    float *a = check_floats(c, n, kind), *b = check_floats(c, n, kind);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_binary args = {.a = a, .b = b, .y = y, .ld_y = ld, .m = k->m, .d = k->d};
    args.ld_a = k->a_row ? 0 : ld;
    args.ld_b = k->b_row ? 0 : ld;
    check_run(c, &args);
    struct k_binary ref = args;
    ref.y = want;
    check_run_ref(c, &ref);
    check_bits(c, "y", y, want, (size_t)n * sizeof *y);
    check_slices(c, &args, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    if (!k->a_row) {
        check_fill(c, want, n, CHECK_NAN);
        check_run_ref(c, &ref);
        struct k_binary in_place = args;
        in_place.y = a;
        check_run(c, &in_place);
        for (int64_t i = 0; i < k->m; i++)
            check_bits(c, "in place", a + i * ld, want + i * ld, (size_t)k->d * sizeof *y);
    }
}

static void binary_check(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++) {
            binary_run(c, &(struct binary_case){3, sizes[i], 0, false, false}, kind);
            binary_run(c, &(struct binary_case){4, sizes[i], 5, false, true}, kind);
            binary_run(c, &(struct binary_case){2, sizes[i], 1, true, false}, kind);
        }
    }
    binary_run(c, &(struct binary_case){0, 7, 0, false, false}, CHECK_RANDOM);
}

void check_add(struct check *c)
{
    binary_check(c);
}

void check_mul(struct check *c)
{
    binary_check(c);
}

void check_scale(struct check *c)
{
    static const int64_t sizes[] = {0, 1, 17, K_SUM_CHUNK - 1, K_SUM_CHUNK, 3 * K_SUM_CHUNK + 33};
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int64_t n = sizes[i];
            check_begin(c);
            check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
            float *x = check_floats(c, n, kind), *y = check_floats(c, n, CHECK_NAN);
            float *want = check_floats(c, n, CHECK_NAN);
            struct k_scale args = {.x = x, .y = y, .n = n, .s = 0.7f}, ref = args;
            ref.y = want;
            check_run(c, &args);
            check_run_ref(c, &ref);
            check_bits(c, "y", y, want, (size_t)n * sizeof *y);
            check_slices(c, &args, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
        }
    }
}

/* ---- conversions ---- */

/* Every pattern of 16 bits, through f32 and back. */
static void cast_patterns(struct check *c, enum k_type type)
{
    enum { N = 1 << 16 };
    check_begin(c);
    check_case(c, "all patterns of type %d", type);
    uint16_t *h = check_buf(c, N * sizeof *h, 2), *back = check_buf(c, N * sizeof *h, 2);
    float *x = check_floats(c, N, CHECK_NAN), *want = check_floats(c, N, CHECK_NAN);
    for (int i = 0; i < N; i++)
        h[i] = (uint16_t)i;
    struct k_cast up = {.x = h, .y = x, .from = type, .to = K_F32, .n = N}, ref = up;
    struct k_cast down = {.x = x, .y = back, .from = K_F32, .to = type, .n = N};
    ref.y = want;
    check_run(c, &up);
    check_run_ref(c, &ref);
    check_bits(c, "to f32", x, want, N * sizeof *x);
    check_run(c, &down);
    for (int i = 0; i < N; i++) {
        if (x[i] != x[i]) /* a NaN comes back quiet */
            h[i] |= type == K_BF16 ? 0x40 : 0x200;
    }
    check_bits(c, "and back", back, h, N * sizeof *h);
}

/* What bf16 rounding is: the nearer neighbour, and of two equally near ones the even. */
static bool bf16_is_nearest(float x, k_bf16 h)
{
    double at = bf16_to_f32(h), below = bf16_to_f32((k_bf16)(h - 1)), above = bf16_to_f32(h + 1);
    double off = fabs(x - at), least = fmin(fabs(x - below), fabs(x - above));
    return off < least || (off == least && h % 2 == 0);
}

static void cast_nearest(struct check *c)
{
    check_begin(c);
    check_case(c, "nearest bf16");
    enum { N = 3000 };
    float *x = check_floats(c, N, CHECK_NAN);
    k_bf16 *h = check_buf(c, N * sizeof *h, 2);
    for (int i = 0; i < N; i++) {
        x[i] = (float)(check_unit(c) * 2 - 1) * (i % 2 ? 1.0f : 1e-39f);
        if (i % 4 == 0) /* half-way */
            x[i] = f32_from_bits((f32_bits(x[i]) & 0xffff0000u) | 0x8000u);
    }
    struct k_cast a = {.x = x, .y = h, .from = K_F32, .to = K_BF16, .n = N};
    check_run(c, &a);
    for (int i = 0; i < N; i++)
        check_true(c, (h[i] & 0x7fff) == 0 || bf16_is_nearest(x[i], h[i]), "%a became %04x",
                   (double)x[i], h[i]);
}

/* Random bits of f32, and the numbers around each half-way point. */
static void cast_round(struct check *c, enum k_type type, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(uint16_t);
    check_begin(c);
    check_case(c, "to type %d, n %lld", type, (long long)n);
    uint32_t *bits = check_buf(c, (size_t)n * sizeof *bits, 4);
    for (int64_t i = 0; i < n; i++) {
        bits[i] = (uint32_t)check_u64(c);
        if (i % 3 == 0)
            bits[i] = (bits[i] & 0xffff8000u) + (uint32_t)(i % 5) - 2;
        if (i % 3 == 1)
            bits[i] = (bits[i] & 0x8fffffffu) | 0x30000000u | (i % 2 ? 0x1000u : 0);
    }
    struct k_cast a = {.x = bits, .y = check_buf(c, bytes, 2), .from = K_F32, .to = type, .n = n};
    struct k_cast ref = a;
    ref.y = check_buf(c, bytes, 2);
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "y", a.y, ref.y, bytes);
}

void check_cast(struct check *c)
{
    static const int64_t sizes[] = {0, 1, 15, 16, 17, K_SUM_CHUNK, 3 * K_SUM_CHUNK + 33};
    for (int i = 0; i < 7; i++) {
        cast_round(c, K_BF16, sizes[i]);
        cast_round(c, K_F16, sizes[i]);
    }
    cast_nearest(c);
    cast_patterns(c, K_BF16);
    cast_patterns(c, K_F16);
}

/* ---- copies and drops ---- */

static void copy_run(struct check *c, int64_t d, int64_t ld_x, bool zero)
{
    int64_t m = 3, ld = d + 2;
    size_t bytes = (size_t)(m * ld) * sizeof(float);
    check_begin(c);
    check_case(c, "d %lld ld %lld zero %d", (long long)d, (long long)ld_x, zero);
    float *x = check_floats(c, m * d, CHECK_RANDOM), *y = check_floats(c, m * ld, CHECK_NAN);
    struct k_copy a = {.x = zero ? NULL : x, .y = y, .ld_x = ld_x, .ld_y = ld, .m = m, .d = d};
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    if (zero)
        memset(x, 0, (size_t)(m * d) * sizeof *x);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "y", y + i * ld, x + i * ld_x, (size_t)d * sizeof *y);
}

void check_copy(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int i = 0; i < n; i++) {
        copy_run(c, sizes[i], sizes[i], false);
        copy_run(c, sizes[i], 0, false);
        copy_run(c, sizes[i], sizes[i], true);
    }
}

/* Numbers that say where they come from, there and back. */
static void regroup_run(struct check *c, int32_t n_head, int n_part, const int32_t *part)
{
    int64_t m = 5, run = 0;
    struct k_regroup a = {.m = m, .n_head = n_head, .n_part = n_part};
    check_begin(c);
    for (int p = 0; p < n_part; p++)
        run += a.part[p] = part[p];
    int64_t d = n_head * run, ld_x = d + 3, ld_y = d + 1;
    check_case(c, "%d heads of %d parts, %lld columns", n_head, n_part, (long long)d);
    float *x = check_floats(c, m * ld_x, CHECK_NAN), *back = check_floats(c, m * ld_x, CHECK_NAN);
    float *y = check_floats(c, m * ld_y, CHECK_NAN), *want = check_floats(c, m * ld_y, CHECK_NAN);
    for (int64_t i = 0; i < m; i++) {
        int64_t to = 0, first = 0;
        for (int64_t j = 0; j < d; j++)
            x[i * ld_x + j] = (float)(i * d + j);
        for (int p = 0; p < n_part; first += part[p++])
            for (int64_t h = 0; h < n_head; h++)
                for (int64_t j = 0; j < part[p]; j++)
                    want[i * ld_y + to++] = (float)(i * d + h * run + first + j);
    }
    a.x = x;
    a.y = y;
    a.ld_x = ld_x;
    a.ld_y = ld_y;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld_y) * sizeof *y}}, 1);
    check_bits(c, "y", y, want, (size_t)(m * ld_y) * sizeof *y);
    a.x = y;
    a.y = back;
    a.ld_x = ld_y;
    a.ld_y = ld_x;
    a.inverse = true;
    check_slices(c, &a, (struct check_out[]){{back, (size_t)(m * ld_x) * sizeof *y}}, 1);
    check_bits(c, "back", back, x, (size_t)(m * ld_x) * sizeof *y);
}

void check_regroup(struct check *c)
{
    regroup_run(c, 1, 1, (int32_t[]){7});
    regroup_run(c, 3, 2, (int32_t[]){64, 64});
    regroup_run(c, 16, 4, (int32_t[]){8, 8, 24, 24});
    regroup_run(c, 5, 3, (int32_t[]){1, 100, 3});
}

/* There by an order that is drawn, and back. */
static void reorder_run(struct check *c, int64_t d)
{
    int64_t m = 5, ld_x = d + 3, ld_y = d + 1;
    check_begin(c);
    check_case(c, "%lld columns", (long long)d);
    float *x = check_floats(c, m * ld_x, CHECK_NAN), *back = check_floats(c, m * ld_x, CHECK_NAN);
    float *y = check_floats(c, m * ld_y, CHECK_NAN), *want = check_floats(c, m * ld_y, CHECK_NAN);
    int32_t *at = check_buf(c, (size_t)d * sizeof *at, 4);
    struct k_reorder a = {.x = x, .y = y, .at = at, .ld_x = ld_x, .ld_y = ld_y, .m = m, .d = d};
    for (int64_t j = 0; j < d; j++) {
        int64_t k = check_below(c, j + 1);
        at[j] = at[k];
        at[k] = (int32_t)j;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < d; j++) {
            x[i * ld_x + j] = (float)(i * d + j);
            want[i * ld_y + j] = (float)(i * d + at[j]);
        }
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld_y) * sizeof *y}}, 1);
    check_bits(c, "y", y, want, (size_t)(m * ld_y) * sizeof *y);
    struct k_reorder b = {.x = y, .y = back, .at = at, .ld_x = ld_y, .ld_y = ld_x, .m = m, .d = d};
    b.inverse = true;
    check_slices(c, &b, (struct check_out[]){{back, (size_t)(m * ld_x) * sizeof *y}}, 1);
    check_bits(c, "back", back, x, (size_t)(m * ld_x) * sizeof *y);
}

void check_reorder(struct check *c)
{
    reorder_run(c, 1);
    reorder_run(c, 33);
    reorder_run(c, 384);
}

/* Positions that come again and that stand apart; in place too. */
void check_row_scale(struct check *c)
{
    enum { M = 6, N_POS = 40 };
    static const int64_t width[] = {1, 33, 384};
    for (size_t k = 0; k < sizeof width / sizeof *width; k++) {
        int64_t d = width[k], ld = d + 2;
        size_t bytes = (size_t)(M * ld) * sizeof(float);
        check_begin(c);
        check_case(c, "d %lld", (long long)d);
        struct k_row_scale a = {.x = check_floats(c, M * ld, CHECK_RANDOM),
                                .scale = check_floats(c, N_POS, CHECK_RANDOM),
                                .y = check_floats(c, M * ld, CHECK_NAN),
                                .ld_x = ld,
                                .ld_y = ld,
                                .m = M,
                                .d = d};
        int32_t *pos = check_buf(c, M * sizeof *pos, 4);
        for (int i = 0; i < M; i++)
            pos[i] = (int32_t)check_below(c, N_POS);
        a.pos = pos;
        check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < d; j++)
                check_true(c, a.y[i * ld + j] == a.scale[pos[i]] * a.x[i * ld + j],
                           "row %lld, column %lld", (long long)i, (long long)j);
        struct k_row_scale in_place = a;
        in_place.y = check_dup(c, a.x, bytes, 4);
        in_place.x = in_place.y;
        check_run(c, &in_place);
        for (int64_t i = 0; i < M; i++)
            check_bits(c, "in place", in_place.y + i * ld, a.y + i * ld, (size_t)d * sizeof(float));
    }
}

/* Rows of heads with room between them. */
static struct k_heads heads_new(struct check *c, struct k_heads a, bool has_tail)
{
    check_begin(c);
    check_case(c, "%d heads of %d, %d from %d and %d%s", a.n_head, a.d_head, a.n, a.lo, a.n_tail,
               has_tail ? " shared" : "");
    a.m = 5;
    a.ld_x = (int64_t)a.n_head * a.d_head + 3;
    a.ld_tail = a.n_tail + 2;
    a.ld_y = (int64_t)a.n_head * (a.n + a.n_tail) + 1;
    a.x = check_floats(c, a.m * a.ld_x, CHECK_RANDOM);
    a.tail = has_tail ? check_floats(c, a.m * a.ld_tail, CHECK_RANDOM) : NULL;
    a.y = check_floats(c, a.m * a.ld_y, CHECK_NAN);
    return a;
}

static void heads_run(struct check *c, const struct k_heads *size, bool has_tail)
{
    struct k_heads a = heads_new(c, *size, has_tail);
    int64_t d = a.n + a.n_tail;
    check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(a.m * a.ld_y) * sizeof(float)}}, 1);
    for (int64_t i = 0; i < a.m; i++)
        for (int64_t j = 0; j < a.n_head * d; j++) {
            float want = j % d < a.n ? a.x[i * a.ld_x + j / d * a.d_head + a.lo + j % d]
                         : has_tail  ? a.tail[i * a.ld_tail + j % d - a.n]
                                     : 0;
            check_true(c, a.y[i * a.ld_y + j] == want, "row %lld: y[%lld]", (long long)i,
                       (long long)j);
        }
}

/* The gradients of one row, with a sum of tails whose order is told. */
static void heads_want(const struct k_heads_bwd *b, int64_t row, float *dx, float *dtail)
{
    const struct k_heads *a = &b->fwd;
    const float *dy = a->y + row * a->ld_y;
    int64_t d = a->n + a->n_tail;
    for (int64_t j = 0; j < (int64_t)a->n_head * a->d_head; j++) {
        int64_t at = j % a->d_head - a->lo;
        dx[j] = (b->add ? dx[j] : 0) + (at >= 0 && at < a->n ? dy[j / a->d_head * d + at] : 0);
    }
    for (int64_t j = 0; j < a->n_tail && dtail; j++) {
        float sum = 0;
        for (int32_t h = 0; h < a->n_head; h++)
            sum += dy[h * d + a->n + j];
        dtail[j] = (b->add_tail ? dtail[j] : 0) + sum;
    }
}

static void heads_bwd_run(struct check *c, const struct k_heads *size, bool has_tail, bool add)
{
    struct k_heads a = heads_new(c, *size, has_tail);
    struct k_heads_bwd b = {.fwd = a, .ld_dx = a.ld_x, .ld_dtail = a.ld_tail, .m = a.m};
    size_t x_bytes = (size_t)(a.m * a.ld_x) * sizeof(float);
    size_t tail_bytes = has_tail ? (size_t)(a.m * a.ld_tail) * sizeof(float) : 0;
    b.fwd.y = check_floats(c, a.m * a.ld_y, CHECK_RANDOM);
    b.dx = check_floats(c, a.m * a.ld_x, CHECK_RANDOM);
    b.dtail = has_tail ? check_floats(c, a.m * a.ld_tail, CHECK_RANDOM) : NULL;
    b.add = b.add_tail = add;
    float *dx = check_dup(c, b.dx, x_bytes, 4);
    float *dtail = has_tail ? check_dup(c, b.dtail, tail_bytes, 4) : NULL;
    for (int64_t i = 0; i < a.m; i++)
        heads_want(&b, i, dx + i * a.ld_x, dtail ? dtail + i * a.ld_tail : NULL);
    check_slices(c, &b, (struct check_out[]){{b.dx, x_bytes}, {b.dtail, tail_bytes}},
                 has_tail ? 2 : 1);
    check_bits(c, "dx", b.dx, dx, x_bytes);
    if (has_tail)
        check_bits(c, "dtail", b.dtail, dtail, tail_bytes);
}

static const struct k_heads head_sizes[] = {
    {.n_head = 1, .d_head = 7, .lo = 0, .n = 7},
    {.n_head = 3, .d_head = 24, .lo = 14, .n = 10, .n_tail = 12},
    {.n_head = 16, .d_head = 256, .lo = 0, .n = 128, .n_tail = 64},
    {.n_head = 5, .d_head = 9, .lo = 2, .n = 1, .n_tail = 33},
};

void check_heads(struct check *c)
{
    for (size_t i = 0; i < 2 * sizeof head_sizes / sizeof *head_sizes; i++)
        heads_run(c, &head_sizes[i / 2], i % 2 && head_sizes[i / 2].n_tail);
}

void check_heads_bwd(struct check *c)
{
    for (size_t i = 0; i < 4 * sizeof head_sizes / sizeof *head_sizes; i++)
        heads_bwd_run(c, &head_sizes[i / 4], i % 2 && head_sizes[i / 4].n_tail, i / 2 % 2);
}

/* Against sums that are written down here, with numbers whose sum depends on the order. */
static void fold_run(struct check *c, int64_t n, int64_t n_x, int64_t own)
{
    int64_t ld = n + 3;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "n %lld of %lld, y %lld", (long long)n, (long long)n_x, (long long)own);
    float *x = check_floats(c, n_x * ld, CHECK_RANDOM), *want = check_floats(c, n, CHECK_NAN);
    float *y = own < 0 ? check_floats(c, n, CHECK_NAN) : x + own * ld;
    for (int64_t i = 0; i < n; i++) {
        want[i] = x[i];
        for (int64_t r = 1; r < n_x; r++)
            want[i] += x[r * ld + i];
    }
    struct k_fold a = {.x = x, .y = y, .ld_x = ld, .n_x = n_x, .n = n};
    if (own < 0)
        check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    else
        check_run(c, &a);
    check_bits(c, "y", y, want, bytes);
}

void check_fold(struct check *c)
{
    static const int64_t sizes[] = {0, 1, 15, 16, 17, K_SUM_CHUNK, 3 * K_SUM_CHUNK + 33};
    for (int i = 0; i < 7; i++)
        for (int64_t n_x = 1; n_x < 6; n_x++) {
            fold_run(c, sizes[i], n_x, -1);
            fold_run(c, sizes[i], n_x, n_x / 2);
        }
}

static void dropout_run(struct check *c, int64_t m, int64_t d, float p)
{
    int64_t ld = d + 1, n = m * ld, dropped = 0;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "m %lld d %lld p %g", (long long)m, (long long)d, (double)p);
    float *x = check_floats(c, n, CHECK_RANDOM), *y = check_floats(c, n, CHECK_NAN);
    uint64_t *key = check_buf(c, (size_t)m * sizeof *key, 8);
    for (int64_t i = 0; i < m; i++)
        key[i] = check_u64(c);
    struct k_dropout a = {.x = x, .y = y, .row_key = key, .ld_x = ld, .ld_y = ld, .m = m, .d = d};
    a.seed = check_u64(c);
    a.site = 77;
    a.p = p;
    struct k_dropout ref = a;
    ref.y = check_dup(c, y, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "y", y, ref.y, bytes);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < d; j++) {
            struct rng_block b =
                rng_at(a.seed, key[i], (uint64_t)a.site << 32 | (uint64_t)(j / 64 * 16 + j % 16));
            bool drop = b.v[j % 64 / 16] < (double)p * 0x1p32;
            dropped += drop;
            check_true(c, (y[i * ld + j] == 0) == (drop || x[i * ld + j] == 0), "draw of %lld %lld",
                       (long long)i, (long long)j);
        }
    }
    double share = (double)dropped / (double)(m * d + 1);
    check_true(c, m * d < 9000 || (share > p - 0.02 && share < p + 0.02), "%g dropped", share);
}

void check_dropout(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int i = 0; i < n; i++)
        dropout_run(c, 2, sizes[i], 0.1f * (float)(i % 10));
    dropout_run(c, 10, 1000, 0.3f);
}

static void noise_run(struct check *c, int64_t m, int64_t d, float alpha)
{
    int64_t ld = d + 1, n = m * ld, n_seq = (m + 2) / 3;
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "m %lld d %lld alpha %g", (long long)m, (long long)d, (double)alpha);
    float *x = check_floats(c, n, CHECK_RANDOM), *y = check_floats(c, n, CHECK_NAN);
    uint64_t *key = check_buf(c, (size_t)m * sizeof *key, 8);
    int32_t *seq = check_buf(c, (size_t)m * sizeof *seq, 4);
    int32_t *len = check_buf(c, (size_t)n_seq * sizeof *len, 4);
    for (int64_t i = 0; i < m; i++) {
        key[i] = check_u64(c);
        seq[i] = (int32_t)(i / 3);
    }
    for (int64_t i = 0; i < n_seq; i++)
        len[i] = (int32_t)(1 + i * i);
    struct k_noise a = {.x = x, .y = y, .row_key = key, .seq_of = seq, .seq_len = len, .ld_x = ld};
    a.ld_y = ld;
    a.m = m;
    a.d = d;
    a.seed = check_u64(c);
    a.site = 77;
    a.alpha = alpha;
    struct k_noise ref = a;
    ref.y = check_dup(c, y, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "y", y, ref.y, bytes);
    double sum = 0, square = 0;
    for (int64_t i = 0; i < m; i++) {
        double most = (double)alpha / sqrt((double)(len[seq[i]] * d));
        for (int64_t j = 0; j < d; j++) {
            struct rng_block b =
                rng_at(a.seed, key[i], (uint64_t)a.site << 32 | (uint64_t)(j / 64 * 16 + j % 16));
            double u = (double)(b.v[j % 64 / 16] >> 8) * 0x1p-23 - 1, at = (double)x[i * ld + j];
            double want = at + most * u, most_off = 1e-6 * (fabs(want) + most);
            check_true(c, fabs((double)y[i * ld + j] - want) <= most_off, "draw of %lld %lld",
                       (long long)i, (long long)j);
            sum += u;
            square += u * u;
        }
    }
    double all = (double)(m * d + 1);
    check_true(c, m * d < 9000 || (fabs(sum / all) < 0.02 && fabs(square / all - 1.0 / 3) < 0.01),
               "mean %g, of squares %g", sum / all, square / all);
}

void check_noise(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int i = 0; i < n; i++)
        noise_run(c, 2, sizes[i], 5);
    noise_run(c, 10, 1000, 0.1f);
}
