/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed linear algebra on AVX-512, with vdpbf16ps for what is not f32.
 */
#include "kernels/variants.h"
#include "kernels/x86/block_avx512.h"

const struct linear_isa linear_isa_avx512 = {
    .block = {[K_F32] = block_f32_avx512,
              [K_BF16] = block_bf16_avx512,
              [K_F16] = block_f16_avx512,
              [K_INT4K] = block_int4k_avx512,
              [K_INT5K] = block_int5k_avx512,
              [K_INT6K] = block_int6k_avx512,
              [K_INT8K] = block_int8k_avx512},
    .codes = {[K_INT8] = block_int8_avx512,
              [K_INT8G] = block_int8g_avx512,
              [K_INT8C] = block_int8c_avx512,
              [K_FP8] = block_fp8_avx512,
              [K_INT4] = block_int4_avx512,
              [K_MXFP4] = block_mxfp4_avx512,
              [K_NF4] = block_nf4_avx512},
    .codes_widen = {[K_INT8] = block_int8_widen_avx512,
                    [K_INT8G] = block_int8g_widen_avx512,
                    [K_INT8C] = block_int8c_widen_avx512,
                    [K_FP8] = block_fp8_widen_avx512,
                    [K_INT4] = block_int4_widen_avx512,
                    [K_MXFP4] = block_mxfp4_widen_avx512},
    .gate = gate_avx512,
    .panels = {1, 4, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    .turn = linear_dx_tiles_avx512,
    .lora_inner = lora_inner_avx512,
    .lora_inner_bwd = lora_inner_bwd_avx512,
    .lora_across = lora_across_avx512,
    .lora_row = lora_row_avx512,
    .lora_widen = lora_widen_avx512,
};

void linear_f32_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_bf16_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_f16_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int8_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int8g_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int4_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int4k_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int5k_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int6k_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int8k_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_int8c_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_fp8_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_mxfp4_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_nf4_avx512(const void *args, const struct k_slice *s)
{
    linear_run(&linear_isa_avx512, args, s);
}

void linear_dx_f32_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_bf16_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_f16_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int8_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int8g_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int4_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int4k_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int5k_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int6k_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int8k_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_int8c_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_fp8_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_mxfp4_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dx_nf4_avx512(const void *args, const struct k_slice *s)
{
    linear_dx_run(&linear_isa_avx512, args, s);
}

void linear_dw_f32_avx512(const void *args, const struct k_slice *s)
{
    linear_dw_run(&linear_isa_avx512, K_F32, args, s);
}

void linear_dw_bf16_avx512(const void *args, const struct k_slice *s)
{
    linear_dw_run(&linear_isa_avx512, K_BF16, args, s);
}

void lora_avx512(const void *args, const struct k_slice *s)
{
    lora_run(&linear_isa_avx512, args, s);
}

void lora_bwd_avx512(const void *args, const struct k_slice *s)
{
    lora_bwd_run(&linear_isa_avx512, args, s);
}
