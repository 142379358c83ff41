/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_q8 and linear_q8 on a GPU: by the definition of kernels/q8.h, with its bits. A thread has an
 * output of a row. It is there so
 * that a model means the same on every device; a GPU is faster with rows of bf16.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/q8.h"

static __global__ void rows_q8_kernel(struct k_rows_pack a)
{
    struct q8_group *to = (struct q8_group *)a.rows;
    for (int64_t r = each_row(); r < a.m; r += each_rows())
        for (int64_t g = each_col(); g < each_end(q8_groups(a.k)); g += EACH_X)
            q8_round(a.x + r * a.ld_x + g * K_Q8_GROUP, least(a.k - g * K_Q8_GROUP, K_Q8_GROUP),
                     &to[g * a.m + r]);
}

int rows_q8_cuda(const void *args, void *stream)
{
    const struct k_rows_pack *a = (const struct k_rows_pack *)args;
    return launch_each(rows_q8_kernel, a->m, q8_groups(a->k), stream, *a);
}

/* Of those whose codes are multiplied. */
CODED_INLINE constexpr bool is_nested(int type)
{
    return type == K_INT4K || type == K_INT5K || type == K_INT6K;
}

template <int TYPE>
static __device__ __forceinline__ int code_of(const struct k_weight &w, const uint8_t *block,
                                              int64_t stored, int64_t o, int64_t i)
{
    if (is_nested(TYPE))
        return nested_code((enum k_type)TYPE, block, o % K_NR, i % K_NESTED);
    return (int)weight_stored(w, stored, o, i);
}

/* What an output has over the inputs of a sum, as f32. */
template <int TYPE>
static __device__ __forceinline__ float scale_of(const struct k_weight &w, const uint8_t *block,
                                                 int64_t o, int64_t i)
{
    if (is_nested(TYPE))
        return f16_get(nested_f16(block, nested_d_at((enum k_type)TYPE, 0), o % K_NR)) *
               (float)nested_scale((enum k_type)TYPE, block, o % K_NR, i % K_NESTED);
    return code_scale < TYPE == K_INT8C ? (int)K_INT8 : TYPE > (w, o, i);
}

template <int TYPE> static __device__ float output(const struct k_linear &a, int64_t r, int64_t o)
{
    const struct q8_group *x = (const struct q8_group *)a.rows + r;
    constexpr enum k_type type = (enum k_type)TYPE;
    constexpr int SPAN = TYPE == K_INT6K ? K_Q8_GROUP / 2 : K_Q8_GROUP;
    int64_t stored = cuda_k_stored(a.w.type, a.w.k);
    float total = 0;
    for (int64_t lo = 0; lo < a.w.k; lo += K_Q8_GROUP, x += a.m) {
        const uint8_t *block = is_nested(TYPE) ? nested_block(a.w, o / K_NR, lo) : NULL;
        for (int first = 0; first < K_Q8_GROUP && lo + first < a.w.k; first += SPAN) {
            int sum = 0;
            for (int i = first; i < first + SPAN && lo + i < a.w.k; i++)
                sum += x->code[i] * code_of<TYPE>(a.w, block, stored, o, lo + i);
            total = fmaf(scale_of<TYPE>(a.w, block, o, lo + first), x->scale * (float)sum, total);
        }
        if (is_nested(TYPE) && nested_has_mins(type)) {
            float min = f16_get(nested_dmin(type, block, o % K_NR, 0)) *
                        (float)nested_min(type, block, o % K_NR, lo % K_NESTED);
            total = fmaf(-min, x->weighed, total);
        }
    }
    return total;
}

template <int TYPE> static __global__ void linear_q8_kernel(struct k_linear a)
{
    int64_t first = a.panel_lo * K_NR, n = least(a.w.n, a.panel_hi * K_NR) - first;
    for (int64_t r = each_row(); r < a.m; r += each_rows()) {
        for (int64_t o = each_col(); o < each_end(n); o += EACH_X) {
            float v = output<TYPE>(a, r, first + o);
            if (a.bias)
                v += a.bias[first + o];
            float *y = a.y + r * a.ld_y + o;
            *y = a.add ? *y + v : v;
        }
    }
}

template <int TYPE> static int linear_q8(const struct k_linear *a, void *stream)
{
    int64_t n = least(a->w.n, a->panel_hi * K_NR) - a->panel_lo * K_NR;
    return n > 0 ? launch_each(linear_q8_kernel<TYPE>, a->m, n, stream, *a) : 0;
}

int linear_q8_cuda(const void *args, void *stream)
{
    const struct k_linear *a = (const struct k_linear *)args;
    switch (a->w.type) {
    case K_INT8:
        return linear_q8<K_INT8>(a, stream);
    case K_INT8G:
        return linear_q8<K_INT8G>(a, stream);
    case K_INT8C:
        return linear_q8<K_INT8C>(a, stream);
    case K_INT4:
        return linear_q8<K_INT4>(a, stream);
    case K_INT4K:
        return linear_q8<K_INT4K>(a, stream);
    case K_INT5K:
        return linear_q8<K_INT5K>(a, stream);
    default:
        return linear_q8<K_INT6K>(a, stream);
    }
}
