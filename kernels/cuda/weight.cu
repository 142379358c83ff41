/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack, weight_unpack, rows_pack, cols_pack: by the order of kernels/cuda/layout.h.
 *
 * int8: per output and group, scale = max |w| / 127 and code = round(w / scale) to nearest even. A
 * group that holds a number which is not finite gets a NaN for a scale: the damage shows. int8g
 * the same, of smaller groups, with the scale rounded to f16 first. int4: kernels/int4.h.
 */
#include "kernels/coded.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/int4.h"

enum { GROUP_LANES = FULL_WARP };

/* w[o, i] of the source; zero outside. */
static __device__ __forceinline__ float source_get(const struct k_weight_pack &a, int64_t o,
                                                   int64_t i)
{
    if (o >= a.n_src || i >= a.w.k)
        return 0;
    return number_get(a.src, a.src_type, a.transposed ? i * a.ld_src + o : o * a.ld_src + i);
}

/* Threads of x have outputs of a panel or inputs, whichever lie side by side in the source. */
static __global__ void pack_kernel(struct k_weight_pack a)
{
    int64_t stored = cuda_k_stored(a.w.type, a.w.k);
    int64_t panel = blockIdx.x, lo = (int64_t)blockIdx.y * FULL_WARP;
    for (int64_t turn = blockIdx.y; lo < stored; turn += gridDim.y, lo = turn * FULL_WARP) {
        int64_t o = panel * K_NR + (a.transposed ? threadIdx.x : threadIdx.y);
        int64_t i = lo + (a.transposed ? threadIdx.y : threadIdx.x);
        if (i >= stored)
            continue;
        float v = source_get(a, o, i);
        int64_t at = cuda_weight_at(a.w.type, stored, a.panel_lo * K_NR + o, i);
        if (cuda_has_plain_rows(a.w.type))
            weight_plain_put(a.w.type, a.w.data, at, v);
        else
            ((k_bf16 *)a.w.data)[at] = (k_bf16)bf16_bits(v);
    }
}

static __device__ __forceinline__ uint8_t sign_magnitude(int code)
{
    return (uint8_t)(code < 0 ? 0x80 | -code : code);
}

static __device__ __forceinline__ uint8_t quantise(float v, float scale)
{
    float q = scale > 0 ? rintf(v / scale) : 0;
    return sign_magnitude((int)fminf(fmaxf(q, -127.0f), 127.0f));
}

/* A warp has one group of one output; TYPE: K_INT8 or K_INT8G. */
template <int TYPE> static __global__ void pack_int8_kernel(struct k_weight_pack a)
{
    constexpr int GROUP = TYPE == K_INT8 ? (int)K_INT8_GROUP : (int)K_INT8G_GROUP;
    int64_t stored = cuda_k_stored(K_INT8, a.w.k), o = (int64_t)blockIdx.x * K_NR + threadIdx.y;
    int64_t lo = (int64_t)blockIdx.y * GROUP, hi = least(stored, lo + GROUP);
    int64_t out = a.panel_lo * K_NR + o;
    float scale = 0;
    bool is_finite = true;
    for (int64_t i = lo + threadIdx.x; i < hi; i += GROUP_LANES) {
        float v = fabsf(source_get(a, o, i));
        is_finite &= v <= 3.4028235e38f; /* false of a NaN */
        scale = fmaxf(scale, v);
    }
    scale = warp_max(scale) / 127;
    if (__any_sync(0xffffffffu, !is_finite))
        scale = __uint_as_float(0x7fc00000u);
    if (TYPE == K_INT8G)
        scale = f16_get(f16_bits(scale));
    for (int64_t i = lo + threadIdx.x; i < hi; i += GROUP_LANES)
        ((uint8_t *)a.w.data)[cuda_int8_at(stored, out, i)] = quantise(source_get(a, o, i), scale);
    int64_t to = cuda_scale_at(GROUP, a.w.k, out, lo);
    if (threadIdx.x == 0 && TYPE == K_INT8)
        ((float *)a.w.scale)[to] = scale;
    else if (threadIdx.x == 0)
        ((k_f16 *)a.w.scale)[to] = (k_f16)f16_bits(scale);
}

/* A thread has one group of one output. */
struct int4_group {
    float v[K_INT4_GROUP];
    int n;
};

static __device__ __forceinline__ int int4_code(float v, float scale)
{
    if (!(fabsf(scale) > 0))
        return 0;
    return (int)rintf(fmaxf(fminf(v * (1 / scale), 7.0f), -8.0f));
}

static __device__ float int4_error(const struct int4_group &g, float scale)
{
    float sum = 0;
    for (int i = 0; i < g.n; i++) {
        float d = fmaf(-scale, (float)int4_code(g.v[i], scale), g.v[i]);
        sum = fmaf(d, d, sum);
    }
    return sum;
}

static __device__ uint32_t int4_scale_of(const struct int4_group &g)
{
    const float reach[INT4_REACHES] = INT4_REACH;
    float most = 0, least_error = 0;
    uint32_t best = 0;
    for (int i = 0; i < g.n; i++) {
        if (!(fabsf(g.v[i]) <= 3.4028235e38f))
            return 0x7e00u;
        most = fabsf(g.v[i]) > fabsf(most) ? g.v[i] : most;
    }
    for (int r = 0; r < INT4_REACHES; r++) {
        uint32_t scale = f16_bits(most / reach[r]);
        float error = int4_error(g, f16_get(scale));
        if (r == 0 || error < least_error) {
            best = scale;
            least_error = error;
        }
    }
    return best;
}

/* Both codes of a byte are of one group. */
static __device__ __forceinline__ void four_put(const struct k_weight &w, int64_t stored, int64_t o,
                                                int64_t i, int nibble)
{
    int64_t to = cuda_int4_at(stored, o, i);
    uint8_t *byte = (uint8_t *)w.data + to / 2;
    int shift = (int)(to % 2 * 4);
    *byte = (uint8_t)((*byte & (0xf0 >> shift)) | nibble << shift);
}

static __global__ void pack_int4_kernel(struct k_weight_pack a)
{
    int64_t stored = cuda_k_stored(K_INT4, a.w.k), groups = ceil_div(stored, K_INT4_GROUP);
    int64_t o = (int64_t)blockIdx.x * K_NR + threadIdx.x, out = a.panel_lo * K_NR + o;
    for (int64_t at = (int64_t)blockIdx.y * K_NR + threadIdx.y; at < groups;
         at += (int64_t)gridDim.y * K_NR) {
        int64_t lo = at * K_INT4_GROUP;
        struct int4_group g;
        g.n = (int)least(stored - lo, K_INT4_GROUP);
        for (int i = 0; i < g.n; i++)
            g.v[i] = source_get(a, o, lo + i);
        uint32_t scale = int4_scale_of(g);
        for (int i = 0; i < g.n; i++)
            four_put(a.w, stored, out, lo + i, INT4_ZERO + int4_code(g.v[i], f16_get(scale)));
        ((k_f16 *)a.w.scale)[cuda_scale_at(K_INT4_GROUP, a.w.k, out, lo)] = (k_f16)scale;
    }
}

/* A group of nf4; outputs j and j + 16 of a panel share bytes, which the thread of the first has.
 */
static __device__ void nf4_put(const struct k_weight_pack &a, int64_t o, int64_t lo)
{
    const uint8_t *block[2];
    int64_t panel = (a.panel_lo + o / K_NR) * a.w.k;
    uint8_t *to = (uint8_t *)a.w.data + (panel + lo) * (K_NR / 2) + o % K_NR;
    for (int h = 0; h < 2; h++)
        block[h] = o + h * 16 < a.n_src ? coded_block(&a, o + h * 16, lo) : NULL;
    for (int64_t i = 0; i < K_NF4_GROUP; i++) {
        int low = block[0] ? coded_nf4_nibble(block[0], i) : CODED_NF4_ZERO;
        int high = block[1] ? coded_nf4_nibble(block[1], i) : CODED_NF4_ZERO;
        to[i * (K_NR / 2)] = (uint8_t)(low | high << 4);
    }
}

/* Codes that were codes before; a thread has one group of one output. */
static __global__ void pack_coded_kernel(struct k_weight_pack a)
{
    int64_t stored = cuda_k_stored(a.w.type, a.w.k);
    int64_t o = (int64_t)blockIdx.x * K_NR + threadIdx.x, out = a.panel_lo * K_NR + o;
    const int64_t size = coded_inputs(a.w.type);
    for (int64_t at = (int64_t)blockIdx.y * K_NR + threadIdx.y; at < a.w.k / size;
         at += (int64_t)gridDim.y * K_NR) {
        int64_t lo = at * size;
        const uint8_t *block = o < a.n_src ? coded_block(&a, o, lo) : NULL;
        int64_t scale = cuda_scale_at(size, a.w.k, out, lo);
        if (coded_is_wide(a.w.type)) {
            for (int i = 0; i < size; i++)
                ((uint8_t *)a.w.data)[cuda_int8_at(stored, out, lo + i)] =
                    block ? coded_wide_stored(a.w.type, block, i) : 0;
            ((float *)a.w.scale)[scale] = block ? coded_wide_scale(block) : 0;
            continue;
        }
        if (a.w.type == K_NF4) {
            if (threadIdx.x < K_NR / 2)
                nf4_put(a, o, lo);
            ((float *)a.w.scale)[scale] = block ? coded_wide_scale(block) : 0;
            continue;
        }
        for (int i = 0; i < CODED_INPUTS; i++) {
            int code = block ? coded_code(a.src_type, block, i) : 0;
            int none = a.w.type == K_INT4 ? INT4_ZERO : 0;
            if (coded_is_four(a.w.type))
                four_put(a.w, stored, out, lo + i, block ? coded_nibble(block, i) : none);
            else
                ((uint8_t *)a.w.data)[cuda_int8_at(stored, out, lo + i)] = sign_magnitude(code);
        }
        ((k_f16 *)a.w.scale)[scale] = block ? coded_scale(block) : 0;
    }
}

/* A thread has a lane of a block. */
static __global__ void pack_nested_kernel(struct k_weight_pack a)
{
    int64_t blocks = a.w.k / K_NESTED;
    for (int64_t b = (int64_t)blockIdx.y * K_NR + threadIdx.y; b < blocks;
         b += (int64_t)gridDim.y * K_NR)
        nested_pack(&a, blockIdx.x, b, threadIdx.x);
}

int weight_pack_cuda(const void *args, void *stream)
{
    const struct k_weight_pack *a = (const struct k_weight_pack *)args;
    int64_t panels = ceil_div(a->n_src, K_NR), stored = cuda_k_stored(a->w.type, a->w.k);
    dim3 block(FULL_WARP, K_NR);
    dim3 groups((unsigned)panels, /* of 32 inputs */
                (unsigned)least(ceil_div(stored, K_INT4_GROUP * K_NR), GRID_Y_MAX));
    if (a->w.type == K_INT4K || a->w.type == K_INT5K || a->w.type == K_INT6K ||
        a->w.type == K_INT8K)
        return launch(pack_nested_kernel, groups, dim3(NESTED_LANES, K_NR), 0, stream, *a);
    if (coded_has(a->src_type))
        return launch(pack_coded_kernel, groups, block, 0, stream, *a);
    if (a->w.type == K_INT8)
        return launch(pack_int8_kernel<K_INT8>,
                      dim3((unsigned)panels, (unsigned)ceil_div(stored, K_INT8_GROUP)), block, 0,
                      stream, *a);
    if (a->w.type == K_INT8G)
        return launch(pack_int8_kernel<K_INT8G>,
                      dim3((unsigned)panels, (unsigned)ceil_div(stored, K_INT8G_GROUP)), block, 0,
                      stream, *a);
    if (a->w.type == K_INT4)
        return launch(pack_int4_kernel, groups, block, 0, stream, *a);
    return launch(pack_kernel,
                  dim3((unsigned)panels, (unsigned)least(ceil_div(stored, FULL_WARP), GRID_Y_MAX)),
                  block, 0, stream, *a);
}

static __global__ void unpack_kernel(struct k_weight_unpack a)
{
    int64_t stored = cuda_k_stored(a.w.type, a.w.k);
    for (int64_t o = each_row(); o < a.w.n; o += each_rows()) {
        for (int64_t i = each_col(); i < each_end(a.w.k); i += EACH_X)
            a.dst[o * a.ld_dst + i] = weight_get(a.w, stored, o, i);
    }
}

int weight_unpack_cuda(const void *args, void *stream)
{
    const struct k_weight_unpack *a = (const struct k_weight_unpack *)args;
    return launch_each(unpack_kernel, a->w.n, a->w.k, stream, *a);
}

static __global__ void rows_pack_kernel(struct k_rows_pack a)
{
    int64_t stored = cuda_k_stored(a.type, a.k);
    for (int64_t r = each_row(); r < a.m; r += each_rows()) {
        for (int64_t i = each_col(); i < each_end(stored); i += EACH_X) {
            float v = i < a.k ? a.x[r * a.ld_x + i] : 0;
            if (cuda_has_plain_rows(a.type))
                ((float *)a.rows)[r * stored + i] = v;
            else
                ((k_bf16 *)a.rows)[r * stored + i] = (k_bf16)bf16_bits(v);
        }
    }
}

/* Columns stay as they lie: linear_dw turns them over on their way to registers. */
int cols_pack_cuda(const void *args, void *stream)
{
    const struct k_cols_pack *a = (const struct k_cols_pack *)args;
    struct k_rows_pack rows = {};
    rows.x = a->x, rows.ld_x = a->ld_x, rows.m = a->m, rows.k = a->n;
    rows.type = a->type, rows.rows = a->cols;
    return launch_each(rows_pack_kernel, a->m, cuda_k_stored(a->type, a->n), stream, rows);
}

int rows_pack_cuda(const void *args, void *stream)
{
    const struct k_rows_pack *a = (const struct k_rows_pack *)args;
    return launch_each(rows_pack_kernel, a->m, cuda_k_stored(a->type, a->k), stream, *a);
}
