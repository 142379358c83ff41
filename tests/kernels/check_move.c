/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that move or add up. Faults they can catch: a panel's layout misread, equal indexes that
 * lose an addition or add in another order, sums that replace, a sequence without rows, a mean
 * that crosses into the next sequence.
 */
#include <math.h>
#include <string.h>

#include "kernels/float16.h"
#include "kernels/format.h"
#include "tests/kernels/check_linear.h"

static int32_t *indexes_new(struct check *c, int64_t m, int64_t n)
{
    int32_t *index = check_buf(c, (size_t)m * sizeof *index, 4);
    for (int64_t i = 0; i < m; i++)
        index[i] = (int32_t)check_below(c, i % 3 == 0 && n > 1 ? 2 : n); /* many are equal */
    return index;
}

/* ---- embedding ---- */

/* Made of codes alone: whatever they are, which become the source. */
static struct k_weight table_new(struct check *c, enum k_type type, float *src, int64_t n,
                                 int64_t k)
{
    struct k_weight w;
    if (k_format(type)->trained == FORMAT_CODED) {
        struct linear_weight own = linear_weight_make(c, type, n, k);
        memcpy(src, own.value, (size_t)(n * k) * sizeof *src);
        return own.w;
    }
    k_weight_bind(&w, type, n, k, check_buf(c, k_weight_bytes(type, n, k), 64));
    struct k_weight_pack pack = {.src = src, .src_type = K_F32, .ld_src = k, .w = w, .n_src = n};
    check_run_row(c, K_weight_pack, &pack);
    return w;
}

/* Rows 1 and 2 read a table of their own. Host memory has pointers, so not on a GPU. */
static void saved_run(struct check *c, const struct k_embed *from, enum k_type type, size_t bytes)
{
    const struct k_weight *w = &from->table;
    float *src = check_floats(c, w->n * w->k, CHECK_RANDOM);
    struct k_weight other = table_new(c, type, src, w->n, w->k);
    struct k_saved saved[] = {
        {0, 1, NULL, NULL}, {1, 3, other.data, other.scale}, {3, 5, NULL, NULL}};
    struct k_embed a = *from, mine = *from;
    if (c->is_gpu)
        return;
    a.y = check_floats(c, from->m * from->ld_y, CHECK_NAN);
    mine.y = check_floats(c, from->m * from->ld_y, CHECK_NAN);
    mine.table = other;
    a.saved = saved;
    a.n_saved = 3;
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_run_row(c, K_embed, &mine);
    for (int64_t i = 0; i < from->m; i++)
        check_bits(c, "its own table", a.y + i * a.ld_y,
                   (i == 1 || i == 2 ? mine.y : from->y) + i * a.ld_y, (size_t)w->k * sizeof *a.y);
}

static void embed_run(struct check *c, enum k_type type, int64_t n, int64_t k, int64_t pad)
{
    k = linear_inputs(type, k);
    int64_t m = 5, ld = k + pad;
    check_begin(c);
    check_case(c, "type %d n %lld k %lld", type, (long long)n, (long long)k);
    float *src = check_floats(c, n * k, CHECK_RANDOM), *all = check_floats(c, n * k, CHECK_NAN);
    struct k_weight w = table_new(c, type, src, n, k);
    struct k_weight_unpack unpack = {.w = w, .dst = all, .ld_dst = k};
    check_run_row(c, K_weight_unpack, &unpack);
    int32_t *token = indexes_new(c, m, n);
    token[0] = (int32_t)(n - 1);
    float *y = check_floats(c, m * ld, CHECK_NAN);
    struct k_embed a = {.token = token, .table = w, .y = y, .ld_y = ld, .m = m};
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld) * sizeof *y}}, 1);
    for (int64_t i = 0; i < m; i++) {
        const float *row = src + token[i] * k;
        check_bits(c, "as unpacked", y + i * ld, all + token[i] * k, (size_t)k * sizeof *y);
        double rel = type == K_BF16 ? 0x1p-8 : type == K_F16 ? 0x1p-11 : 0;
        check_near(c, "as packed", y + i * ld, row, k, rel,
                   type == K_INT8 || type == K_INT8G ? 0.015
                   : type == K_INT4                  ? 0.6
                   : type == K_F16                   ? 0x1p-25
                                                     : 0);
    }
    saved_run(c, &a, type, (size_t)(m * ld) * sizeof *y);
    a.lo = n / 2; /* a part of a table: zeros for the tokens before it */
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld) * sizeof *y}}, 1);
    memset(src, 0, (size_t)(n * k) * sizeof *src);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "of a part", y + i * ld, token[i] < a.lo ? src : all + (token[i] - a.lo) * k,
                   (size_t)k * sizeof *y);
    a.lo = 0, a.known = n / 2 + 1; /* tokens from there on are read as the first */
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld) * sizeof *y}}, 1);
    for (int64_t i = 0; i < m; i++)
        check_bits(c, "of a table that is short", y + i * ld,
                   all + (token[i] < a.known ? token[i] : 0) * k, (size_t)k * sizeof *y);
}

void check_embed(struct check *c)
{
    static const int64_t sizes[] = {1, 2, 31, 32, 33, 127, 128, 129, 300};
    for (int type = 0; type < K_TYPE_COUNT; type++) {
        enum k_type t = (enum k_type)type;
        for (int i = 0; i < 9; i++) {
            embed_run(c, t, 1 + i * 11, sizes[i], i % 2);
            embed_run(c, t, 64, sizes[i], 0);
        }
    }
}

static void embed_bwd_run(struct check *c, int64_t m, int64_t k, enum check_kind kind)
{
    int64_t n = 7, ld = k + 2;
    size_t bytes = (size_t)(n * k) * sizeof(float);
    check_begin(c);
    check_case(c, "%s m %lld k %lld", check_kind_name(kind), (long long)m, (long long)k);
    float *dy = check_floats(c, m * ld, kind), *dt = check_floats(c, n * k, kind);
    int32_t *token = indexes_new(c, m, n + 4); /* two before the table and two behind it */
    struct k_embed_bwd a = {
        .token = token, .dy = dy, .ld_dy = ld, .m = m, .n = n, .k = k, .lo = 2, .dtable = dt};
    struct k_embed_bwd ref = a;
    ref.dtable = check_dup(c, dt, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{dt, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "dtable", dt, ref.dtable, bytes); /* the order is specified, so are the bits */
}

void check_embed_bwd(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            embed_bwd_run(c, 3 * i, sizes[i], kind);
    }
    embed_bwd_run(c, 700, 33, CHECK_RANDOM); /* more rows than a GPU looks through at once */
}

/* ---- by index ---- */

static void index_run(struct check *c, int64_t m, int64_t d, int64_t pad, enum check_kind kind)
{
    bool is_gather = c->id == K_gather;
    int64_t n = 6, ld = d + pad, n_x = is_gather ? n : m, n_y = is_gather ? m : n;
    size_t bytes = (size_t)(n_y * ld) * sizeof(float);
    check_begin(c);
    check_case(c, "%s m %lld d %lld ld %lld", check_kind_name(kind), (long long)m, (long long)d,
               (long long)ld);
    struct k_gather a = {.x = check_floats(c, n_x * ld, kind),
                         .index = indexes_new(c, m, n),
                         .y = check_floats(c, n_y * ld, is_gather ? CHECK_NAN : kind),
                         .ld_x = ld,
                         .ld_y = ld,
                         .m = m,
                         .d = d};
    struct k_gather ref = a;
    ref.y = check_dup(c, a.y, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_run_ref(c, &ref);
    check_bits(c, "y", a.y, ref.y, bytes);
    for (int64_t i = 0; is_gather && i < m; i++)
        check_bits(c, "its row", a.y + i * ld, a.x + a.index[i] * ld, (size_t)d * sizeof *a.y);
}

static void index_check(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            index_run(c, 9, sizes[i], i % 4, kind);
    }
    index_run(c, 700, 33, 1, CHECK_RANDOM); /* more rows than a GPU looks through at once */
}

void check_gather(struct check *c)
{
    index_check(c);
}

void check_scatter_add(struct check *c)
{
    index_check(c);
}

/* ---- sums and means over rows ---- */

static void col_sum_run(struct check *c, int64_t m, int64_t d, enum check_kind kind)
{
    int64_t ld = d + 3;
    size_t bytes = (size_t)d * sizeof(float);
    check_begin(c);
    check_case(c, "%s m %lld d %lld", check_kind_name(kind), (long long)m, (long long)d);
    float *x = check_floats(c, m * ld, kind), *y = check_floats(c, d, kind);
    double *want = check_buf(c, (size_t)d * sizeof *want, 8);
    double *size = check_buf(c, (size_t)d * sizeof *size, 8);
    for (int64_t j = 0; j < d; j++) {
        want[j] = y[j];
        size[j] = fabsf(y[j]);
        for (int64_t i = 0; i < m; i++) {
            want[j] += x[i * ld + j];
            size[j] += fabsf(x[i * ld + j]);
        }
    }
    struct k_col_sum a = {.x = x, .ld_x = ld, .m = m, .d = d, .y = y};
    check_slices(c, &a, (struct check_out[]){{y, bytes}}, 1);
    check_near_scaled(c, "y", y, want, size, d, 1e-6, 1e-44);
}

void check_col_sum(struct check *c)
{
    static const int64_t rows[] = {0, 1, 31, 32, 33, 100};
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            col_sum_run(c, rows[i % 6], sizes[i], kind);
    }
    col_sum_run(c, 3000, 70, CHECK_RANDOM); /* a long sum keeps its digits */
}

static void pool_run(struct check *c, int64_t d, enum check_kind kind)
{
    static const int32_t starts[] = {2, 3, 3, 40, 75};
    bool bwd = c->id == K_mean_pool_bwd;
    int64_t n_seq = 4, m = 75, ld = d + 1, n_in = bwd ? n_seq : m, n_out = bwd ? m : n_seq;
    size_t bytes = (size_t)(n_out * ld) * sizeof(float);
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    struct k_pool a = {.x = check_floats(c, n_in * ld, kind),
                       .y = check_floats(c, n_out * ld, CHECK_NAN),
                       .start = check_dup(c, starts, sizeof starts, 4),
                       .ld_x = ld,
                       .ld_y = ld,
                       .n_seq = n_seq,
                       .d = d};
    struct k_pool ref = a;
    ref.y = check_dup(c, a.y, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{a.y, bytes}}, 1);
    check_run_ref(c, &ref);
    double abs = kind == CHECK_HUGE ? 2e11 : kind == CHECK_RANDOM ? 2e-6 : 1e-44;
    check_near(c, "y", a.y, ref.y, n_out * ld, 1e-6, bwd ? 0 : abs);
    for (int64_t s = 0; !bwd && s < n_seq; s++) { /* a sequence alone */
        float *y = check_floats(c, ld, CHECK_NAN);
        struct k_pool one = a;
        one.start += s;
        one.n_seq = 1;
        one.y = y;
        check_run(c, &one);
        check_bits(c, "a sequence alone", y, a.y + s * ld, (size_t)d * sizeof *y);
    }
}

static void pool_check(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            pool_run(c, sizes[i], kind);
    }
}

void check_mean_pool(struct check *c)
{
    pool_check(c);
}

void check_mean_pool_bwd(struct check *c)
{
    pool_check(c);
}
