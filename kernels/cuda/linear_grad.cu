/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of a product. dx = dy w sums over outputs, dw = dy^T x over rows: in both the numbers
 * that an instruction sums over lie across what is stored, so ldmatrix turns blocks of 8 x 8 on
 * their way from shared memory to registers. A tile of 128 by 128 results; 64 outputs, or 32 rows,
 * at a time.
 *
 * dx: a result is one chain over ascending outputs, 16 at a time. A weight of codes is taken as
 * bf16(scale * code) when it comes into shared memory. dw: runs of GRAD_RUN rows are summed, each
 * sum is added. Where rows are f32 the same is done in plain chains.
 */
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/rows.cuh"

enum {
    GRAD_TILE = 128,
    GRAD_WARPS_A = 2, /* of the weight's side, 64 results each */
    GRAD_WARPS_B = 4, /* of the other, 32 */
    GRAD_THREADS = GRAD_WARPS_A * GRAD_WARPS_B * FULL_WARP,
    GRAD_A = GRAD_TILE / GRAD_WARPS_A / 16,
    GRAD_B = GRAD_TILE / GRAD_WARPS_B / 8,
    DX_SUM = 64, /* outputs of a stage */
    DX_STAGES = 3,
    DX_WEIGHT_BYTES = DX_SUM * GRAD_TILE * 2,
    DX_STAGE_BYTES = DX_WEIGHT_BYTES + GRAD_TILE * DX_SUM * 2,
    DW_SUM = 32, /* rows of a stage */
    DW_SIDE_BYTES = DW_SUM * GRAD_TILE * 2,
    GRAD_RUN = 512
};

/* A warp's place in the tile: the first of its results on either side. */
static __device__ __forceinline__ int side_a(void)
{
    return warp_id() / GRAD_WARPS_B * GRAD_A * 16;
}

static __device__ __forceinline__ int side_b(void)
{
    return warp_id() % GRAD_WARPS_B * GRAD_B * 8;
}

/* ---- dx ---- */

struct dx_args {
    struct k_linear_dx k;
    struct linear_args w; /* the weight, as the forward's loads want it */
    int64_t n, n_stored;  /* outputs that are summed over */
    int is_aligned;       /* rows of dy begin at multiples of 16 bytes */
};

/* Bytes of the stage: block (strip of 8 outputs, 8 inputs) of 128 bytes, a row for each output; the
 * piece of dy's row r that has outputs 8c to 8c + 7. */
static __device__ __forceinline__ int dx_weight_at(int o, int i)
{
    return (o / 8 * (GRAD_TILE / 8) + i / 8) * 128 + o % 8 * 16;
}

static __device__ __forceinline__ int dx_row_at(int r, int c)
{
    return DX_WEIGHT_BYTES + r * (DX_SUM * 2) + (c ^ r % 8) * 16;
}

/* 8 inputs of one output of a weight of codes, as bf16. */
static __device__ uint4 dx_dequantise(const struct linear_args &a, int64_t o, int64_t i)
{
    uint32_t word[4] = {0, 0, 0, 0};
    for (int j = 0; j < 8 && i + j < a.k.w.k; j++) {
        word[j / 2] |= bf16_bits(weight_get(a.k.w, a.stored, o, i + j)) << j % 2 * 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Outputs [o, o + DX_SUM) of the call, inputs from `i` on, rows from `r` on. */
template <int TYPE>
static __device__ __forceinline__ void dx_load(const struct dx_args &a, int64_t o, int64_t i,
                                               int64_t r, unsigned char *stage)
{
    for (int e = (int)threadIdx.x; e < DX_SUM * GRAD_TILE / 8; e += GRAD_THREADS) {
        int at = e % 8 + e / GRAD_TILE * 8, in = e / 8 % (GRAD_TILE / 8) * 8;
        int64_t out = a.w.strip * CUDA_STRIP + o + at, from = i + in;
        unsigned char *to = stage + dx_weight_at(at, in);
        bool is_here = o + at / 8 * 8 < a.n && from < a.w.stored;
        if (TYPE != K_BF16)
            *(uint4 *)to = is_here ? dx_dequantise(a.w, out, from) : make_uint4(0, 0, 0, 0);
        else if (is_here && from + 8 > a.w.stored)
            *(uint4 *)to = weight_tail<K_BF16>(a.w, out, from);
        else
            copy_async_16(to, is_here ? weight_at<K_BF16>(a.w, out, from) : a.k.w.data,
                          is_here ? 16 : 0);
    }
    for (int e = (int)threadIdx.x; e < GRAD_TILE * DX_SUM / 8; e += GRAD_THREADS) {
        int64_t row = r + e / (DX_SUM / 8), from = o + e % (DX_SUM / 8) * 8;
        unsigned char *to = stage + dx_row_at(e / (DX_SUM / 8), e % (DX_SUM / 8));
        bool is_here = row < a.k.m && from < a.n_stored;
        if (a.is_aligned)
            copy_async_16(to, (const k_bf16 *)a.k.rows + (is_here ? row * a.n_stored + from : 0),
                          is_here ? 16 : 0);
        else
            *(uint4 *)to = row_load(a.k.rows, a.n_stored, false, a.k.m, row, from);
    }
    copy_commit();
}

/* 16 outputs of a stage. */
static __device__ __forceinline__ void dx_step(const unsigned char *stage, int step,
                                               float acc[GRAD_A][GRAD_B][4])
{
    int lane = lane_id(), o = step * 16;
    uint32_t dy[GRAD_B][2];
#pragma unroll
    for (int b = 0; b < GRAD_B; b += 2) {
        uint32_t d[4];
        ldmatrix_x4(d, stage + dx_row_at(side_b() + b * 8 + lane / 16 * 8 + lane % 8,
                                         o / 8 + lane / 8 % 2));
        dy[b][0] = d[0], dy[b][1] = d[1], dy[b + 1][0] = d[2], dy[b + 1][1] = d[3];
    }
#pragma unroll
    for (int i = 0; i < GRAD_A; i++) {
        uint32_t w[4]; /* inputs 0-7 and 8-15 of outputs 0-7, then of outputs 8-15 */
        ldmatrix_x4_trans(w, stage + dx_weight_at(o + lane / 16 * 8 + lane % 8,
                                                  side_a() + i * 16 + lane / 8 % 2 * 8));
#pragma unroll
        for (int b = 0; b < GRAD_B; b++)
            mma_bf16(acc[i][b], w, dy[b]);
    }
}

static __device__ __forceinline__ void dx_store(const struct dx_args &a, int64_t i, int64_t r,
                                                float acc[GRAD_A][GRAD_B][4])
{
    int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
    for (int e = 0; e < GRAD_A * GRAD_B * 4; e++) {
        int b = e / 4 % GRAD_B, h = e % 4;
        int64_t in = i + side_a() + e / (4 * GRAD_B) * 16 + g + h / 2 * 8;
        int64_t row = r + side_b() + b * 8 + 2 * t + h % 2;
        if (in >= a.k.w.k || row >= a.k.m)
            continue;
        float *dx = a.k.dx + row * a.k.ld_dx + in, v = acc[e / (4 * GRAD_B)][b][h];
        *dx = a.k.add ? *dx + v : v;
    }
}

template <int TYPE>
static __global__ void __launch_bounds__(GRAD_THREADS) dx_kernel(struct dx_args a)
{
    unsigned char *ring = (unsigned char *)shared_memory();
    int64_t i = (int64_t)blockIdx.x * GRAD_TILE, r = (int64_t)blockIdx.y * GRAD_TILE;
    float acc[GRAD_A][GRAD_B][4] = {};
    for (int s = 0; s < DX_STAGES - 1; s++)
        dx_load<TYPE>(a, (int64_t)s * DX_SUM, i, r, ring + s * DX_STAGE_BYTES);
    int n = (int)ceil_div(a.n, DX_SUM);
    for (int at = 0; at < n; at++) {
        copy_wait<DX_STAGES - 2>();
        __syncthreads();
        int ahead = at + DX_STAGES - 1;
        dx_load<TYPE>(a, (int64_t)ahead * DX_SUM, i, r, ring + ahead % DX_STAGES * DX_STAGE_BYTES);
        for (int step = 0; step < DX_SUM / 16; step++)
            dx_step(ring + at % DX_STAGES * DX_STAGE_BYTES, step, acc);
    }
    copy_wait<0>();
    dx_store(a, i, r, acc);
}

static struct dx_args dx_args_of(const struct k_linear_dx *k)
{
    struct dx_args a = {};
    a.k = *k;
    a.w.k.w = k->w;
    a.w.stored = cuda_k_stored(k->w.type, k->w.k);
    a.w.strip = k->panel_lo * (K_NR / CUDA_STRIP);
    a.n = k->panel_hi > k->panel_lo ? least(k->w.n, k->panel_hi * K_NR) - k->panel_lo * K_NR : 0;
    a.n_stored = cuda_k_stored(k->w.type, a.n);
    a.is_aligned = a.n_stored % 8 == 0;
    return a;
}

template <int TYPE> static int dx_launch(const struct k_linear_dx *k, void *stream)
{
    return launch(dx_kernel<TYPE>,
                  dim3((unsigned)ceil_div(k->w.k, GRAD_TILE), (unsigned)ceil_div(k->m, GRAD_TILE)),
                  dim3(GRAD_THREADS), DX_STAGES * DX_STAGE_BYTES, stream, dx_args_of(k));
}

int linear_dx_bf16_cuda(const void *args, void *stream)
{
    return dx_launch<K_BF16>((const struct k_linear_dx *)args, stream);
}

int linear_dx_int8_cuda(const void *args, void *stream)
{
    return dx_launch<K_INT8>((const struct k_linear_dx *)args, stream);
}

int linear_dx_int8g_cuda(const void *args, void *stream)
{
    return dx_launch<K_INT8G>((const struct k_linear_dx *)args, stream);
}

int linear_dx_int8c_cuda(const void *args, void *stream)
{
    return dx_launch<K_INT8C>((const struct k_linear_dx *)args, stream);
}

int linear_dx_fp8_cuda(const void *args, void *stream)
{
    return dx_launch<K_FP8>((const struct k_linear_dx *)args, stream);
}

int linear_dx_int4_cuda(const void *args, void *stream)
{
    return dx_launch<K_INT4>((const struct k_linear_dx *)args, stream);
}

int linear_dx_mxfp4_cuda(const void *args, void *stream)
{
    return dx_launch<K_MXFP4>((const struct k_linear_dx *)args, stream);
}

/* A thread has an input and four rows; a panel's line of 32 outputs stays in the first cache. */
static __global__ void dx_plain_kernel(struct dx_args a)
{
    int64_t i = (int64_t)blockIdx.x * EACH_X + threadIdx.x;
    int64_t row = ((int64_t)blockIdx.y * EACH_Y + threadIdx.y) * 4;
    if (i >= a.k.w.k || row >= a.k.m)
        return;
    float sum[4] = {};
    for (int64_t o = 0; o < a.n; o++) {
        float w = weight_get(a.k.w, a.k.w.k, a.k.panel_lo * K_NR + o, i);
        for (int r = 0; r < 4; r++)
            sum[r] =
                fmaf(w, ((const float *)a.k.rows)[least(row + r, a.k.m - 1) * a.n + o], sum[r]);
    }
    for (int r = 0; r < 4 && row + r < a.k.m; r++) {
        float *dx = a.k.dx + (row + r) * a.k.ld_dx + i;
        *dx = a.k.add ? *dx + sum[r] : sum[r];
    }
}

static int dx_plain(const struct k_linear_dx *k, void *stream)
{
    return launch(dx_plain_kernel,
                  dim3((unsigned)ceil_div(k->w.k, EACH_X), (unsigned)ceil_div(k->m, EACH_Y * 4)),
                  dim3(EACH_X, EACH_Y), 0, stream, dx_args_of(k));
}

int linear_dx_f32_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_f16_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_nf4_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_int4k_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_int5k_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_int6k_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

int linear_dx_int8k_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

/* ---- dw ---- */

/* Byte of 8 columns of a stage's row, of either side. */
static __device__ __forceinline__ int dw_at(int row, int col)
{
    return row * (GRAD_TILE * 2) + (col / 8 ^ row % 8) * 16;
}

/* Rows [row, row + DW_SUM) of columns [col, col + GRAD_TILE); d of them are there, in rows of an
 * even number. */
static __device__ __forceinline__ void dw_load(const void *x, int64_t m, int64_t d, int64_t row,
                                               int64_t col, unsigned char *side)
{
    int64_t ld = cuda_k_stored(K_BF16, d);
    for (int e = (int)threadIdx.x; e < DW_SUM * GRAD_TILE / 2; e += GRAD_THREADS) {
        int r = e / (GRAD_TILE / 2), c = e % (GRAD_TILE / 2) * 2;
        const k_bf16 *from = (const k_bf16 *)x + (row + r) * ld + col + c;
        bool is_here = row + r < m && col + c < ld;
        *(uint32_t *)(side + dw_at(r, c) + c % 8 * 2) = is_here ? *(const uint32_t *)from : 0;
    }
}

/* 16 rows of a stage. */
static __device__ __forceinline__ void dw_step(const unsigned char *stage, int step,
                                               float acc[GRAD_A][GRAD_B][4])
{
    int lane = lane_id(), row = step * 16 + lane % 8;
    const unsigned char *other = stage + DW_SIDE_BYTES;
    uint32_t x[GRAD_B][2];
#pragma unroll
    for (int b = 0; b < GRAD_B; b += 2) {
        uint32_t d[4];
        ldmatrix_x4_trans(d,
                          other + dw_at(row + lane / 8 % 2 * 8, side_b() + b * 8 + lane / 16 * 8));
        x[b][0] = d[0], x[b][1] = d[1], x[b + 1][0] = d[2], x[b + 1][1] = d[3];
    }
#pragma unroll
    for (int i = 0; i < GRAD_A; i++) {
        uint32_t dy[4];
        ldmatrix_x4_trans(dy,
                          stage + dw_at(row + lane / 16 * 8, side_a() + i * 16 + lane / 8 % 2 * 8));
#pragma unroll
        for (int b = 0; b < GRAD_B; b++)
            mma_bf16(acc[i][b], dy, x[b]);
    }
}

static __device__ __forceinline__ void dw_put(const struct k_linear_dw &a, bool adds, int64_t o,
                                              int64_t i, float acc[GRAD_A][GRAD_B][4])
{
    int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
    for (int e = 0; e < GRAD_A * GRAD_B * 4; e++) {
        int b = e / 4 % GRAD_B, h = e % 4;
        int64_t out = o + side_a() + e / (4 * GRAD_B) * 16 + g + h / 2 * 8;
        int64_t in = i + side_b() + b * 8 + 2 * t + h % 2;
        if (out < a.n && in < a.k) {
            float *dw = a.dw + out * a.ld_dw + in, sum = acc[e / (4 * GRAD_B)][b][h];
            *dw = adds ? *dw + sum : sum;
        }
        acc[e / (4 * GRAD_B)][b][h] = 0;
    }
}

/* Two stages: while one is multiplied, the next one's numbers are on their way. */
static __global__ void __launch_bounds__(GRAD_THREADS) dw_kernel(struct k_linear_dw a)
{
    unsigned char *ring = (unsigned char *)shared_memory();
    int64_t o = (int64_t)blockIdx.y * GRAD_TILE, i = (int64_t)blockIdx.x * GRAD_TILE;
    float acc[GRAD_A][GRAD_B][4] = {};
    for (int64_t row = 0; row < a.m; row += DW_SUM) {
        unsigned char *stage = ring + row / DW_SUM % 2 * (2 * DW_SIDE_BYTES);
        dw_load(a.dy, a.m, a.n, row, o, stage);
        dw_load(a.x, a.m, a.k, row, i, stage + DW_SIDE_BYTES);
        __syncthreads(); /* and the stage before is read out, two steps back */
        for (int step = 0; step < DW_SUM / 16; step++)
            dw_step(stage, step, acc);
        if ((row + DW_SUM) % GRAD_RUN == 0 || row + DW_SUM >= a.m)
            dw_put(a, row >= GRAD_RUN || !a.fills, o, i, acc);
    }
}

int linear_dw_bf16_cuda(const void *args, void *stream)
{
    const struct k_linear_dw *a = (const struct k_linear_dw *)args;
    return launch(dw_kernel,
                  dim3((unsigned)ceil_div(a->k, GRAD_TILE), (unsigned)ceil_div(a->n, GRAD_TILE)),
                  dim3(GRAD_THREADS), 4 * DW_SIDE_BYTES, stream, *a);
}

static __global__ void dw_f32_kernel(struct k_linear_dw a)
{
    for (int64_t o = each_row(); o < a.n; o += each_rows()) {
        for (int64_t i = each_col(); i < each_end(a.k); i += EACH_X) {
            float dw = a.fills ? 0 : a.dw[o * a.ld_dw + i];
            for (int64_t lo = 0; lo < a.m; lo += GRAD_RUN) {
                float sum = 0;
                for (int64_t row = lo; row < least(a.m, lo + GRAD_RUN); row++)
                    sum = fmaf(((const float *)a.dy)[row * a.n + o],
                               ((const float *)a.x)[row * a.k + i], sum);
                dw += sum;
            }
            a.dw[o * a.ld_dw + i] = dw;
        }
    }
}

int linear_dw_f32_cuda(const void *args, void *stream)
{
    const struct k_linear_dw *a = (const struct k_linear_dw *)args;
    return launch_each(dw_f32_kernel, a->m > 0 ? a->n : 0, a->k, stream, *a);
}
