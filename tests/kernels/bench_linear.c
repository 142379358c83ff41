/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed products at the shapes of real models, forward and both gradients, with OpenBLAS (f32) and
 * oneDNN (bf16) beside them, on one thread, where they are installed.
 */
#include <stdio.h>

#include "kernels/coded.h"
#include "kernels/linear.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/peer.h"

struct size {
    int64_t n, k;
};

static const struct size sizes[] = {{576, 576},   {1536, 576},   {576, 1536},  {4864, 896},
                                    {896, 4864},  {2048, 2048},  {8192, 2048}, {2048, 8192},
                                    {4096, 4096}, {14336, 4096}, {4096, 14336}};
static const int64_t row_counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

enum { N_SIZES = sizeof sizes / sizeof *sizes, N_ROWS = sizeof row_counts / sizeof *row_counts };

static struct k_weight weight_of(struct bench *b, enum k_type type, const struct size *s)
{
    struct k_weight w;
    void *data = bench_alloc(b, k_weight_bytes(type, s->n, s->k));
    k_weight_bind(&w, type, s->n, s->k, data);
    bool is_coded = k_format(type)->trained == FORMAT_CODED; /* zeros are codes, too */
    size_t coded = is_coded ? (size_t)coded_bytes(type, s->n * s->k) : 0;
    struct k_weight_pack a = {.src = is_coded ? bench_alloc(b, coded)
                                              : (void *)bench_floats(b, s->n * s->k),
                              .src_type = is_coded ? type : K_F32,
                              .ld_src = s->k,
                              .w = w,
                              .n_src = s->n};
    bench_prepare(b, K_weight_pack, &a);
    return w;
}

static enum limit_unit unit_of(enum k_type t)
{
    return format_rows(t) == K_F32 ? LIMIT_F32 : LIMIT_BF16;
}

static void peers(struct bench *b, const char *name, enum k_type type, const struct size *s,
                  int64_t m, const char *shape)
{
    struct peer *p = NULL;
    if (bench_threads(b) != 1) /* a library's own threads and our pinned ones hold each other up */
        return;
    if (type == K_F32)
        p = peer_openblas_new(m, s->n, s->k);
    else if (type == K_BF16)
        p = peer_onednn_new(m, s->n, s->k);
    if (!p)
        return;
    size_t elem = k_type_bytes(type);
    bench_run_peer(b,
                   &(struct bench_peer){.kernel = name,
                                        .variant = type == K_F32 ? "openblas" : "onednn",
                                        .shape = shape,
                                        .rows = m,
                                        .unit = unit_of(type),
                                        .bytes = (double)(s->n * s->k + m * s->k) * (double)elem +
                                                 4.0 * (double)(m * s->n),
                                        .flops = 2.0 * (double)m * (double)s->n * (double)s->k,
                                        .run = peer_run,
                                        .ctx = p,
                                        .n_thread = 1});
    peer_free(p);
}

/* Of rows of codes the shape says whose weight it is. */
static void forward(struct bench *b, enum kernel_id id, enum k_type type)
{
    bool is_q8 = id == K_linear_q8;
    enum k_type rows = is_q8 ? K_Q8 : type;
    enum limit_unit unit = is_q8 ? LIMIT_INT8 : unit_of(type);
    for (int i = 0; i < N_SIZES && bench_wants(b, id); i++) {
        const struct size *s = &sizes[i];
        if (s->k % format_stream(type, 0).inputs) /* no whole blocks */
            continue;
        char shape[32];
        snprintf(shape, sizeof shape, "%lldx%lld%s%s", (long long)s->n, (long long)s->k,
                 is_q8 ? " " : "", is_q8 ? k_format(type)->name : "");
        struct k_weight w = weight_of(b, type, s);
        for (int r = 0; r < N_ROWS; r++) {
            int64_t m = row_counts[r];
            if (!bench_wants_rows(b, m))
                continue;
            struct k_rows_pack pack = {.x = bench_floats(b, m * s->k),
                                       .ld_x = s->k,
                                       .m = m,
                                       .k = s->k,
                                       .type = rows,
                                       .rows = bench_alloc(b, k_rows_bytes(rows, m, s->k))};
            bench_prepare(b, is_q8 ? K_rows_q8 : K_rows_pack, &pack);
            struct k_linear a = {.rows = pack.rows,
                                 .w = w,
                                 .y = bench_floats(b, m * s->n),
                                 .ld_y = s->n,
                                 .m = m,
                                 .panel_hi = linear_panels(s->n)};
            bench_run(b, &(struct bench_case){id, shape, m, &a, unit, 0});
            if (!is_q8)
                peers(b, kernel_name(id), type, s, m, shape);
        }
        bench_release(b);
    }
}

void bench_linear(struct bench *b)
{
    for (int t = 0; t < K_TYPE_COUNT; t++)
        forward(b, k_formats[t].linear, (enum k_type)t);
    for (int t = 0; t < K_TYPE_COUNT; t++)
        if (q8_has((enum k_type)t))
            forward(b, K_linear_q8, (enum k_type)t);
}

static void input_gradient(struct bench *b, enum kernel_id id, enum k_type type)
{
    for (int i = 0; i < N_SIZES && bench_wants(b, id); i++) {
        const struct size *s = &sizes[i];
        if (s->k % format_stream(type, 0).inputs) /* no whole blocks */
            continue;
        char shape[32];
        snprintf(shape, sizeof shape, "%lldx%lld", (long long)s->n, (long long)s->k);
        for (int r = 0; r < N_ROWS; r++) {
            int64_t m = row_counts[r];
            if (m < 64 || !bench_wants_rows(b, m))
                continue;
            struct k_rows_pack pack = {.x = bench_floats(b, m * s->n),
                                       .ld_x = s->n,
                                       .m = m,
                                       .k = s->n,
                                       .type = type,
                                       .rows = bench_alloc(b, k_rows_bytes(type, m, s->n))};
            bench_prepare(b, K_rows_pack, &pack);
            struct k_linear_dx a = {.rows = pack.rows,
                                    .m = m,
                                    .w = weight_of(b, type, s),
                                    .panel_hi = linear_panels(s->n),
                                    .dx = bench_floats(b, m * s->k),
                                    .ld_dx = s->k};
            bench_run(b, &(struct bench_case){id, shape, m, &a, unit_of(type), 0});
            bench_release(b);
        }
    }
}

static const void *columns(struct bench *b, enum k_type type, int64_t m, int64_t n, bool is_panels)
{
    struct k_cols_pack pack = {.x = bench_floats(b, m * n),
                               .ld_x = n,
                               .m = m,
                               .n = n,
                               .type = type,
                               .is_panels = is_panels,
                               .cols = bench_alloc(b, k_cols_bytes(type, m, n, is_panels))};
    bench_prepare(b, K_cols_pack, &pack);
    return pack.cols;
}

static void weight_gradient(struct bench *b, enum kernel_id id, enum k_type type)
{
    for (int i = 0; i < N_SIZES && bench_wants(b, id); i++) {
        const struct size *s = &sizes[i];
        char shape[32];
        snprintf(shape, sizeof shape, "%lldx%lld", (long long)s->n, (long long)s->k);
        for (int r = 0; r < N_ROWS; r++) {
            int64_t m = row_counts[r];
            if (m < 256 || !bench_wants_rows(b, m))
                continue;
            struct k_linear_dw a = {.dy = columns(b, type, m, s->n, false),
                                    .x = columns(b, type, m, s->k, true),
                                    .m = m,
                                    .n = s->n,
                                    .k = s->k,
                                    .dw = bench_floats(b, s->n * s->k),
                                    .ld_dw = s->k};
            bench_run(b, &(struct bench_case){id, shape, m, &a, unit_of(type), 0});
            bench_release(b);
        }
    }
}

/* Rows of bf16 as a product reads them, and columns as a weight's gradient does. */
static void packing(struct bench *b, int64_t m, int64_t n)
{
    char shape[32];
    struct k_rows_pack rows = {.x = bench_floats(b, m * n), .ld_x = n, .m = m, .k = n};
    rows.type = K_BF16;
    rows.rows = bench_alloc(b, k_rows_bytes(K_BF16, m, n));
    snprintf(shape, sizeof shape, "%lld", (long long)n);
    if (bench_wants(b, K_rows_pack))
        bench_run(b, &(struct bench_case){K_rows_pack, shape, m, &rows, LIMIT_F32, 0});
    for (int is_panels = 0; is_panels < 2 && bench_wants(b, K_cols_pack); is_panels++) {
        struct k_cols_pack a = {.x = rows.x,
                                .ld_x = n,
                                .m = m,
                                .n = n,
                                .type = K_BF16,
                                .is_panels = is_panels,
                                .cols = bench_alloc(b, k_cols_bytes(K_BF16, m, n, is_panels))};
        snprintf(shape, sizeof shape, "%lld %s", (long long)n, is_panels ? "panels" : "rows");
        bench_run(b, &(struct bench_case){K_cols_pack, shape, m, &a, LIMIT_F32, 0});
    }
    bench_release(b);
}

void bench_linear_grad(struct bench *b)
{
    static const int64_t columns[] = {576, 1536, 2048, 4096, 49152};
    for (int i = 0; i < 5 && bench_wants_rows(b, 512); i++)
        packing(b, columns[i] == 49152 ? 128 : 512, columns[i]);

    for (int t = 0; t < K_TYPE_COUNT; t++)
        input_gradient(b, k_formats[t].dx, (enum k_type)t);
    weight_gradient(b, K_linear_dw_bf16, K_BF16);
    weight_gradient(b, K_linear_dw_f32, K_F32);
}
