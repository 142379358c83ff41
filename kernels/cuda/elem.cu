/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: add, multiply, copy, fold, scale, convert, drop; the activations. Each result
 * of the first seven is rounded in one given order, so they equal the reference bit for bit.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/philox.h"

static __global__ void add_kernel(struct k_binary a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = a.a[i * a.ld_a + j] + a.b[i * a.ld_b + j];
    }
}

static __global__ void mul_kernel(struct k_binary a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = a.a[i * a.ld_a + j] * a.b[i * a.ld_b + j];
    }
}

static __global__ void copy_kernel(struct k_copy a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = a.x ? a.x[i * a.ld_x + j] : 0;
    }
}

int add_cuda(const void *args, void *stream)
{
    const struct k_binary *a = (const struct k_binary *)args;
    return launch_each(add_kernel, a->m, a->d, stream, *a);
}

int mul_cuda(const void *args, void *stream)
{
    const struct k_binary *a = (const struct k_binary *)args;
    return launch_each(mul_kernel, a->m, a->d, stream, *a);
}

int copy_cuda(const void *args, void *stream)
{
    const struct k_copy *a = (const struct k_copy *)args;
    return launch_each(copy_kernel, a->m, a->d, stream, *a);
}

/* Where column j of those that stand together stands apart. */
static __device__ __forceinline__ int64_t regroup_from(const struct k_regroup &a, int64_t j)
{
    int64_t run = 0, first = 0;
    int32_t p = 0;
    for (int32_t i = 0; i < a.n_part; i++)
        run += a.part[i];
    for (; j >= (int64_t)a.n_head * a.part[p]; p++) {
        j -= (int64_t)a.n_head * a.part[p];
        first += a.part[p];
    }
    return j / a.part[p] * run + first + j % a.part[p];
}

static __host__ __device__ inline int64_t regroup_cols(const struct k_regroup &a)
{
    int64_t run = 0;
    for (int32_t i = 0; i < a.n_part; i++)
        run += a.part[i];
    return a.n_head * run;
}

static __global__ void regroup_kernel(struct k_regroup a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(regroup_cols(a)); j += EACH_X) {
            int64_t apart = regroup_from(a, j);
            a.y[i * a.ld_y + (a.inverse ? apart : j)] = a.x[i * a.ld_x + (a.inverse ? j : apart)];
        }
    }
}

int regroup_cuda(const void *args, void *stream)
{
    const struct k_regroup *a = (const struct k_regroup *)args;
    return launch_each(regroup_kernel, a->m, regroup_cols(*a), stream, *a);
}

static __global__ void reorder_kernel(struct k_reorder a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            int64_t at = a.at[j];
            a.y[i * a.ld_y + (a.inverse ? at : j)] = a.x[i * a.ld_x + (a.inverse ? j : at)];
        }
    }
}

int reorder_cuda(const void *args, void *stream)
{
    const struct k_reorder *a = (const struct k_reorder *)args;
    return launch_each(reorder_kernel, a->m, a->d, stream, *a);
}

static __global__ void row_scale_kernel(struct k_row_scale a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows())
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = a.scale[a.pos[i]] * a.x[i * a.ld_x + j];
}

int row_scale_cuda(const void *args, void *stream)
{
    const struct k_row_scale *a = (const struct k_row_scale *)args;
    return launch_each(row_scale_kernel, a->m, a->d, stream, *a);
}

static __global__ void heads_kernel(struct k_heads a)
{
    int64_t d = a.n + a.n_tail;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.n_head * d); j += EACH_X) {
            int64_t at = j % d, tail = at - a.n;
            float v = 0;
            if (tail < 0)
                v = a.x[i * a.ld_x + j / d * a.d_head + a.lo + at];
            else if (a.tail)
                v = a.tail[i * a.ld_tail + tail];
            a.y[i * a.ld_y + j] = v;
        }
    }
}

int heads_cuda(const void *args, void *stream)
{
    const struct k_heads *a = (const struct k_heads *)args;
    return launch_each(heads_kernel, a->m, (int64_t)a->n_head * (a->n + a->n_tail), stream, *a);
}

/* Columns: those of dx, then those of dtail. */
static __global__ void heads_bwd_kernel(struct k_heads_bwd a)
{
    const struct k_heads &f = a.fwd;
    int64_t d = f.n + f.n_tail, width = (int64_t)f.n_head * f.d_head;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const float *dy = f.y + i * f.ld_y;
        for (int64_t j = each_col(); j < each_end(width + f.n_tail); j += EACH_X) {
            int64_t at = j % f.d_head - f.lo, tail = j - width;
            if (tail < 0 && a.dx) {
                float *dx = a.dx + i * a.ld_dx + j;
                float part = at >= 0 && at < f.n ? dy[j / f.d_head * d + at] : 0;
                *dx = a.add ? *dx + part : part;
            }
            if (tail >= 0 && a.dtail) {
                float *dtail = a.dtail + i * a.ld_dtail + tail, sum = 0;
                for (int32_t h = 0; h < f.n_head; h++)
                    sum += dy[h * d + f.n + tail];
                *dtail = a.add_tail ? *dtail + sum : sum;
            }
        }
    }
}

int heads_bwd_cuda(const void *args, void *stream)
{
    const struct k_heads_bwd *a = (const struct k_heads_bwd *)args;
    return launch_each(heads_bwd_kernel, a->m,
                       (int64_t)a->fwd.n_head * a->fwd.d_head + a->fwd.n_tail, stream, *a);
}

/* ---- flat arrays: as many blocks as fill a GPU, then a loop ---- */

enum { FLAT_THREADS = 256, FLAT_BLOCKS = 4096 };

static dim3 flat_grid(int64_t n)
{
    return dim3((unsigned)least(ceil_div(n, FLAT_THREADS), FLAT_BLOCKS));
}

static __device__ __forceinline__ int64_t flat_at(void)
{
    return (int64_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
}

static __device__ __forceinline__ int64_t flat_step(void)
{
    return (int64_t)gridDim.x * FLAT_THREADS;
}

/* The sum is kept in a register, so y may be one of the vectors. */
static __global__ void fold_kernel(struct k_fold a)
{
    for (int64_t i = flat_at(); i < a.n; i += flat_step()) {
        float sum = a.x[i];
        for (int64_t r = 1; r < a.n_x; r++)
            sum += a.x[r * a.ld_x + i];
        a.y[i] = sum;
    }
}

static __global__ void scale_kernel(struct k_scale a)
{
    for (int64_t i = flat_at(); i < a.n; i += flat_step())
        a.y[i] = a.s * a.x[i];
}

int scale_cuda(const void *args, void *stream)
{
    const struct k_scale *a = (const struct k_scale *)args;
    return launch(scale_kernel, flat_grid(a->n), dim3(FLAT_THREADS), 0, stream, *a);
}

int fold_cuda(const void *args, void *stream)
{
    const struct k_fold *a = (const struct k_fold *)args;
    return launch(fold_kernel, flat_grid(a->n), dim3(FLAT_THREADS), 0, stream, *a);
}

static __global__ void cast_kernel(struct k_cast a)
{
    for (int64_t i = flat_at(); i < a.n; i += flat_step()) {
        float v = number_get(a.x, a.from, i);
        if (a.to == K_BF16)
            ((k_bf16 *)a.y)[i] = (k_bf16)bf16_bits(v);
        else if (a.to == K_F16)
            ((k_f16 *)a.y)[i] = (k_f16)f16_bits(v);
        else
            ((float *)a.y)[i] = v;
    }
}

int cast_cuda(const void *args, void *stream)
{
    const struct k_cast *a = (const struct k_cast *)args;
    return launch(cast_kernel, flat_grid(a->n), dim3(FLAT_THREADS), 0, stream, *a);
}

/* ---- dropout ---- */

/* Word `word` of the block whose counter is c. */
static __device__ uint32_t philox(uint4 c, uint64_t seed, int word)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        uint64_t a = (uint64_t)PHILOX_A * c.x, b = (uint64_t)PHILOX_B * c.z;
        c = make_uint4((uint32_t)(b >> 32) ^ c.y ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c.w ^ k1,
                       (uint32_t)a);
        k0 += PHILOX_K0;
        k1 += PHILOX_K1;
    }
    return word == 0 ? c.x : word == 1 ? c.y : word == 2 ? c.z : c.w;
}

struct dropout_args {
    struct k_dropout k;
    uint32_t threshold;
    float scale;
};

static __global__ void dropout_kernel(struct dropout_args p)
{
    const struct k_dropout &a = p.k;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        uint64_t key = a.row_key[i];
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            uint4 c = make_uint4((uint32_t)(j / 64 * 16 + j % 16), a.site, (uint32_t)key,
                                 (uint32_t)(key >> 32));
            uint32_t draw = philox(c, a.seed, (int)(j % 64 / 16));
            a.y[i * a.ld_y + j] = draw < p.threshold ? 0.0f : a.x[i * a.ld_x + j] * p.scale;
        }
    }
}

int dropout_cuda(const void *args, void *stream)
{
    const struct k_dropout *a = (const struct k_dropout *)args;
    struct dropout_args p = {*a, philox_threshold(a->p), 1.0f / (1.0f - a->p)};
    return launch_each(dropout_kernel, a->m, a->d, stream, p);
}

static __global__ void noise_kernel(struct k_noise a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        uint64_t key = a.row_key[i];
        float r = a.alpha / sqrtf((float)(a.seq_len[a.seq_of[i]] * a.d));
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            uint4 c = make_uint4((uint32_t)(j / 64 * 16 + j % 16), a.site, (uint32_t)key,
                                 (uint32_t)(key >> 32));
            uint32_t draw = philox(c, a.seed, (int)(j % 64 / 16));
            float u = (float)(draw >> 8) * 0x1p-23f - 1.0f;
            a.y[i * a.ld_y + j] = fmaf(r, u, a.x[i * a.ld_x + j]);
        }
    }
}

int noise_cuda(const void *args, void *stream)
{
    const struct k_noise *a = (const struct k_noise *)args;
    return launch_each(noise_kernel, a->m, a->d, stream, *a);
}

/* ---- activations ---- */

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __global__ void swiglu_kernel(struct k_swiglu a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float gate = a.gate[i * a.ld_gate + j];
            a.y[i * a.ld_y + j] = gate * sigmoid(gate) * a.up[i * a.ld_up + j];
        }
    }
}

int swiglu_cuda(const void *args, void *stream)
{
    const struct k_swiglu *a = (const struct k_swiglu *)args;
    return launch_each(swiglu_kernel, a->m, a->d, stream, *a);
}

/* dup = dy silu(g); dgate = dy up silu'(g), silu' = p + g p (1 - p), p = sigmoid(g) */
static __global__ void swiglu_bwd_kernel(struct k_swiglu_bwd a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float g = a.gate[i * a.ld_gate + j], up = a.up[i * a.ld_up + j];
            float dy = a.dy[i * a.ld_dy + j], p = sigmoid(g);
            float rest = 1 / (1 + expf(g)); /* 1 - p, which would cancel */
            a.dgate[i * a.ld_dgate + j] = dy * up * (p + g * p * rest);
            a.dup[i * a.ld_dup + j] = dy * (g * p);
        }
    }
}

int swiglu_bwd_cuda(const void *args, void *stream)
{
    const struct k_swiglu_bwd *a = (const struct k_swiglu_bwd *)args;
    return launch_each(swiglu_bwd_kernel, a->m, a->d, stream, *a);
}

static __global__ void glu_kernel(struct k_swiglu a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = sigmoid(a.gate[i * a.ld_gate + j]) * a.up[i * a.ld_up + j];
    }
}

int glu_cuda(const void *args, void *stream)
{
    const struct k_swiglu *a = (const struct k_swiglu *)args;
    return launch_each(glu_kernel, a->m, a->d, stream, *a);
}

static __global__ void glu_bwd_kernel(struct k_swiglu_bwd a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float g = a.gate[i * a.ld_gate + j], dup = a.dy[i * a.ld_dy + j] * sigmoid(g);
            float rest = 1 / (1 + expf(g)); /* 1 - p, which would cancel */
            a.dgate[i * a.ld_dgate + j] = dup * a.up[i * a.ld_up + j] * rest;
            a.dup[i * a.ld_dup + j] = dup;
        }
    }
}

int glu_bwd_cuda(const void *args, void *stream)
{
    const struct k_swiglu_bwd *a = (const struct k_swiglu_bwd *)args;
    return launch_each(glu_bwd_kernel, a->m, a->d, stream, *a);
}

static __global__ void row_gate_kernel(struct k_row_gate a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        float p = sigmoid(a.gate[i * a.ld_gate]);
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = p * a.x[i * a.ld_x + j];
    }
}

int row_gate_cuda(const void *args, void *stream)
{
    const struct k_row_gate *a = (const struct k_row_gate *)args;
    return launch_each(row_gate_kernel, a->m, a->d, stream, *a);
}

/* A block has a row: dgate is a sum over it. */
static __global__ void row_gate_bwd_kernel(struct k_row_gate_bwd a)
{
    int64_t i = blockIdx.x;
    const float *x = a.x + i * a.ld_x, *dy = a.dy + i * a.ld_dy;
    float g = a.gate[i * a.ld_gate], p = sigmoid(g), dot = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        dot = fmaf(dy[j], x[j], dot);
        if (a.dx)
            a.dx[i * a.ld_dx + j] = p * dy[j];
    }
    dot = block_sum(dot, (float *)shared_memory());
    if (a.dgate && threadIdx.x == 0) /* 1 - p would cancel */
        a.dgate[i * a.ld_dgate] = dot * p * (1 / (1 + expf(g)));
}

int row_gate_bwd_cuda(const void *args, void *stream)
{
    const struct k_row_gate_bwd *a = (const struct k_row_gate_bwd *)args;
    return a->d > 0 ? launch_rows(row_gate_bwd_kernel, a->m, stream, *a) : 0;
}

struct clamped {
    float gate, up;
};

static __device__ __forceinline__ struct clamped clamped_at(const struct k_swiglu_clamped &a,
                                                            int64_t i, int64_t j)
{
    float gate = a.gate[i * a.ld_gate + j], up = a.up[i * a.ld_up + j];
    up = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;
    return {gate > a.limit ? a.limit : gate, up};
}

static __global__ void swiglu_clamped_kernel(struct k_swiglu_clamped a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            struct clamped x = clamped_at(a, i, j);
            a.y[i * a.ld_y + j] = x.gate * sigmoid(a.alpha * x.gate) * (x.up + 1);
        }
    }
}

int swiglu_clamped_cuda(const void *args, void *stream)
{
    const struct k_swiglu_clamped *a = (const struct k_swiglu_clamped *)args;
    return launch_each(swiglu_clamped_kernel, a->m, a->d, stream, *a);
}

static __global__ void swiglu_clamped_bwd_kernel(struct k_swiglu_clamped a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            struct clamped x = clamped_at(a, i, j);
            float dy = a.dy[i * a.ld_dy + j], p = sigmoid(a.alpha * x.gate);
            float rest = 1 / (1 + expf(a.alpha * x.gate)); /* 1 - p, which would cancel */
            float dgate = dy * (x.up + 1) * (p + a.alpha * x.gate * p * rest);
            a.dgate[i * a.ld_dgate + j] = a.gate[i * a.ld_gate + j] > a.limit ? 0 : dgate;
            a.dup[i * a.ld_dup + j] =
                fabsf(a.up[i * a.ld_up + j]) > a.limit ? 0 : dy * (x.gate * p);
        }
    }
}

int swiglu_clamped_bwd_cuda(const void *args, void *stream)
{
    const struct k_swiglu_clamped *a = (const struct k_swiglu_clamped *)args;
    return launch_each(swiglu_clamped_bwd_kernel, a->m, a->d, stream, *a);
}

enum { GELU_FWD, GELU_BWD };

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static __device__ __forceinline__ float tanh_arg(float x)
{
    return 0.79788456f * (x + 0.044715f * x * x * x);
}

/* 1 + tanh(u), which has all its digits where tanh nears -1 */
static __device__ __forceinline__ float one_and_tanh(float u)
{
    return u < -0.5f ? 2 / (1 + expf(-2 * u)) : 1 + tanhf(u);
}

/* Twice the share of the normal distribution below x. */
static __device__ __forceinline__ float one_and_erf(float x)
{
    return erfcf(-0.70710678f * x);
}

static __device__ float gelu(float x, bool is_tanh)
{
    return 0.5f * x * (is_tanh ? one_and_tanh(tanh_arg(x)) : one_and_erf(x));
}

static __device__ float gelu_slope(float x, bool is_tanh)
{
    if (!is_tanh) /* the normal distribution, and x times its density */
        return 0.5f * one_and_erf(x) + x * 0.39894228f * expf(-0.5f * x * x);
    float u = tanh_arg(x), t = one_and_tanh(u), rest = one_and_tanh(-u);
    float inner = 0.79788456f * (1 + 3 * 0.044715f * x * x);
    float tail = t * rest; /* 1 - tanh^2; zero where inner has no bounds */
    return 0.5f * t + (tail > 0 ? 0.5f * x * tail * inner : 0);
}

template <int WAY> static __global__ void gelu_kernel(struct k_gelu a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float x = a.x[i * a.ld_x + j];
            a.y[i * a.ld_y + j] =
                WAY == GELU_FWD ? gelu(x, a.tanh) : a.dy[i * a.ld_dy + j] * gelu_slope(x, a.tanh);
        }
    }
}

static __global__ void softcap_kernel(struct k_softcap a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows())
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = a.cap * tanhf(a.x[i * a.ld_x + j] / a.cap);
}

static __global__ void softcap_bwd_kernel(struct k_softcap a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float t = a.x[i * a.ld_x + j] / a.cap;
            a.y[i * a.ld_y + j] = a.dy[i * a.ld_dy + j] * ((1 - t) * (1 + t));
        }
    }
}

int softcap_cuda(const void *args, void *stream)
{
    const struct k_softcap *a = (const struct k_softcap *)args;
    return launch_each(softcap_kernel, a->m, a->d, stream, *a);
}

int softcap_bwd_cuda(const void *args, void *stream)
{
    const struct k_softcap *a = (const struct k_softcap *)args;
    return launch_each(softcap_bwd_kernel, a->m, a->d, stream, *a);
}

int gelu_cuda(const void *args, void *stream)
{
    const struct k_gelu *a = (const struct k_gelu *)args;
    return launch_each(gelu_kernel<GELU_FWD>, a->m, a->d, stream, *a);
}

int gelu_bwd_cuda(const void *args, void *stream)
{
    const struct k_gelu *a = (const struct k_gelu *)args;
    return launch_each(gelu_kernel<GELU_BWD>, a->m, a->d, stream, *a);
}
