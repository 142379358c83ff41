/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed linear algebra on AVX2 with FMA.
 */
#include "kernels/variants.h"
#include "kernels/x86/block_avx2.h"

const struct linear_isa linear_isa_avx2 = {
    .f32 = block_f32_avx2,
    .bf16 = block_bf16_avx2,
    .int8 = block_int8_avx2,
    .panels = {1, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS, BLOCK_FEW_PANELS},
    .opening = &opening_avx2,
    .few = BLOCK_FEW,
    .some = linear_some_avx2,
    .some_max = BLOCK_SOME,
    .turn = turn_avx2,
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

void linear_int8_avx2(const void *args, const struct k_slice *s)
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

void linear_dx_int8_avx2(const void *args, const struct k_slice *s)
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
