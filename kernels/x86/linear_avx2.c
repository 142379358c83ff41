/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed linear algebra on AVX2 with FMA.
 */
#include "kernels/variants.h"
#include "kernels/x86/block_avx2.h"

const struct linear_isa linear_isa_avx2 = {
    .block = {[K_F32] = block_f32_avx2,
              [K_BF16] = block_bf16_avx2,
              [K_F16] = block_f16_avx2,
              [K_INT4K] = block_int4k_avx2,
              [K_INT5K] = block_int5k_avx2,
              [K_INT6K] = block_int6k_avx2,
              [K_INT8K] = block_int8k_avx2},
    .codes = {[K_INT8] = block_int8_avx2,
              [K_INT8G] = block_int8g_avx2,
              [K_INT8C] = block_int8c_avx2,
              [K_FP8] = block_fp8_avx2,
              [K_INT4] = block_int4_avx2,
              [K_MXFP4] = block_mxfp4_avx2,
              [K_NF4] = block_nf4_avx2},
    .panels = {1, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS},
    .widening = &opening_avx2,
    .few_max = BLOCK_FEW,
    .mid = linear_rows5to24_avx2,
    .mid_max = BLOCK_SOME,
    .turn = linear_dx_tiles_avx2,
    .lora_inner = lora_inner_avx2,
    .lora_inner_bwd = lora_inner_bwd_avx2,
    .lora_outer = lora_outer_avx2,
    .lora_across = lora_across_avx2,
    .lora_row = lora_row_avx2,
    .lora_widen = lora_widen_avx2,
};

void linear_f32_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_bf16_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_f16_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int8_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int8g_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int4_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int4k_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int5k_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int6k_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int8k_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_int8c_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_fp8_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_mxfp4_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_nf4_avx2(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx2, args, s);
}

void linear_dx_f32_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_bf16_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_f16_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int8_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int8g_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int4_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int4k_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int5k_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int6k_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int8k_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_int8c_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_fp8_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_mxfp4_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dx_nf4_avx2(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx2, args, s);
}

void linear_dw_f32_avx2(const void *args, const struct k_slice *s)
{
    linear_dw_run(&linear_isa_avx2, K_F32, args, s);
}

void linear_dw_bf16_avx2(const void *args, const struct k_slice *s)
{
    linear_dw_run(&linear_isa_avx2, K_BF16, args, s);
}

void lora_avx2(const void *args, const struct k_slice *s)
{
    lora_run(&linear_isa_avx2, args, s);
}

void lora_bwd_avx2(const void *args, const struct k_slice *s)
{
    lora_bwd_run(&linear_isa_avx2, args, s);
}
