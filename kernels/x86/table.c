/* SPDX-License-Identifier: Apache-2.0
 *
 * What x86 has of its own, per level. A row that is missing here runs the level below. Sections are
 * those of kernels.def.
 */
#include "kernels/variants.h"
#include "kernels/x86/lora_rounded.h"

kernel_fn *const kernel_rows_avx2[KERNEL_COUNT] = {
    /* packed linear algebra */
    [K_weight_pack] = weight_pack_avx2,
    [K_weight_unpack] = weight_unpack_avx2,
    [K_rows_pack] = rows_pack_avx2,
    [K_rows_q8] = rows_q8_avx2,
    [K_cols_pack] = cols_pack_avx2,
    [K_linear_f32] = linear_f32_avx2,
    [K_linear_bf16] = linear_bf16_avx2,
    [K_linear_f16] = linear_f16_avx2,
    [K_linear_int8] = linear_int8_avx2,
    [K_linear_int8g] = linear_int8g_avx2,
    [K_linear_int4] = linear_int4_avx2,
    [K_linear_int4k] = linear_int4k_avx2,
    [K_linear_int5k] = linear_int5k_avx2,
    [K_linear_int6k] = linear_int6k_avx2,
    [K_linear_int8k] = linear_int8k_avx2,
    [K_linear_int8c] = linear_int8c_avx2,
    [K_linear_fp8] = linear_fp8_avx2,
    [K_linear_mxfp4] = linear_mxfp4_avx2,
    [K_linear_nf4] = linear_nf4_avx2,
    [K_linear_q8] = linear_q8_avx2,
    [K_linear_dx_f32] = linear_dx_f32_avx2,
    [K_linear_dx_bf16] = linear_dx_bf16_avx2,
    [K_linear_dx_f16] = linear_dx_f16_avx2,
    [K_linear_dx_int8] = linear_dx_int8_avx2,
    [K_linear_dx_int8g] = linear_dx_int8g_avx2,
    [K_linear_dx_int4] = linear_dx_int4_avx2,
    [K_linear_dx_int4k] = linear_dx_int4k_avx2,
    [K_linear_dx_int5k] = linear_dx_int5k_avx2,
    [K_linear_dx_int6k] = linear_dx_int6k_avx2,
    [K_linear_dx_int8k] = linear_dx_int8k_avx2,
    [K_linear_dx_int8c] = linear_dx_int8c_avx2,
    [K_linear_dx_fp8] = linear_dx_fp8_avx2,
    [K_linear_dx_mxfp4] = linear_dx_mxfp4_avx2,
    [K_linear_dx_nf4] = linear_dx_nf4_avx2,
    [K_linear_dw_f32] = linear_dw_f32_avx2,
    [K_linear_dw_bf16] = linear_dw_bf16_avx2,
    [K_lora] = lora_avx2,
    [K_lora_bwd] = lora_bwd_avx2,
    [K_lora_dw] = lora_dw_avx2,
    [K_dora_gain] = dora_gain_avx2,
    [K_dora] = dora_avx2,
    [K_dora_dw] = dora_dw_avx2,

    /* mixtures of experts */
    [K_experts_pack] = experts_pack_avx2,
    [K_experts] = experts_avx2,
    [K_experts_dx] = experts_dx_avx2,
    [K_experts_dw] = experts_dw_avx2,
    [K_experts_sum] = experts_sum_avx2,

    /* rows and elements */
    [K_embed_bwd] = embed_bwd_avx2,
    [K_rmsnorm] = rmsnorm_avx2,
    [K_rmsnorm_bwd] = rmsnorm_bwd_avx2,
    [K_rmsnorm_dw] = rmsnorm_dw_avx2,
    [K_layernorm] = layernorm_avx2,
    [K_layernorm_bwd] = layernorm_bwd_avx2,
    [K_layernorm_dw] = layernorm_dw_avx2,
    [K_swiglu] = swiglu_avx2,
    [K_swiglu_bwd] = swiglu_bwd_avx2,
    [K_glu] = glu_avx2,
    [K_glu_bwd] = glu_bwd_avx2,
    [K_swiglu_clamped] = swiglu_clamped_avx2,
    [K_swiglu_clamped_bwd] = swiglu_clamped_bwd_avx2,
    [K_gelu] = gelu_avx2,
    [K_gelu_bwd] = gelu_bwd_avx2,
    [K_softcap] = softcap_avx2,
    [K_softcap_bwd] = softcap_bwd_avx2,
    [K_add] = add_avx2,
    [K_mul] = mul_avx2,
    [K_scale] = scale_avx2,
    [K_cast] = cast_avx2,
    [K_dropout] = dropout_avx2,
    [K_scatter_add] = scatter_add_avx2,
    [K_col_sum] = col_sum_avx2,
    [K_softmax] = softmax_avx2,
    [K_log_softmax] = log_softmax_avx2,

    /* rope */
    [K_rope] = rope_avx2,

    /* attention over a ragged batch */
    [K_kv_write] = kv_write_avx2,
    [K_rope_kv] = rope_kv_avx2,
    [K_attn] = attn_avx2,
    [K_attn_part] = attn_part_avx2,
    [K_attn_merge] = attn_merge_avx2,
    [K_attn_bwd_q] = attn_bwd_q_avx2,
    [K_attn_bwd_kv] = attn_bwd_kv_avx2,

    /* short convolution over a ragged batch */
    [K_conv] = conv_avx2,
    [K_conv_keep] = conv_keep_avx2,
    [K_conv_bwd] = conv_bwd_avx2,
    [K_conv_dw] = conv_dw_avx2,

    /* gated delta rule over a ragged batch */
    [K_delta_rates] = delta_rates_avx2,
    [K_delta] = delta_avx2,
    [K_delta_bwd] = delta_bwd_avx2,
    [K_delta_rates_bwd] = delta_rates_bwd_avx2,
    [K_scan_rates] = scan_rates_avx2,
    [K_scan_rates_bwd] = scan_rates_bwd_avx2,

    /* heads */
    [K_ce_fwd] = ce_fwd_avx2,
    [K_ce_bwd] = ce_bwd_avx2,
    [K_ce_put] = ce_put_avx2,
    [K_mean_pool] = mean_pool_avx2,
    [K_mean_pool_bwd] = mean_pool_bwd_avx2,
    [K_l2norm] = l2norm_avx2,
    [K_l2norm_bwd] = l2norm_bwd_avx2,
    [K_argmax] = argmax_avx2,
    [K_top_select] = top_select_avx2,

    /* optimizer */
    [K_adamw] = adamw_avx2,
    [K_adamw_weight] = adamw_weight_avx2,
    [K_moments_unpack] = moments_unpack_avx2,
    [K_moments_pack] = moments_pack_avx2,
    [K_sum_sq] = sum_sq_avx2,
};

kernel_fn *const kernel_rows_avx512[KERNEL_COUNT] = {
    /* packed linear algebra */
    [K_weight_pack] = weight_pack_avx512,
    [K_weight_unpack] = weight_unpack_avx512,
    [K_linear_f32] = linear_f32_avx512,
    [K_linear_f16] = linear_f16_avx512,
    [K_linear_int4k] = linear_int4k_avx512,
    [K_linear_int5k] = linear_int5k_avx512,
    [K_linear_int6k] = linear_int6k_avx512,
    [K_linear_int8k] = linear_int8k_avx512,
    [K_linear_dx_f32] = linear_dx_f32_avx512,
    [K_linear_dx_f16] = linear_dx_f16_avx512,
    [K_linear_dx_int4k] = linear_dx_int4k_avx512,
    [K_linear_dx_int5k] = linear_dx_int5k_avx512,
    [K_linear_dx_int6k] = linear_dx_int6k_avx512,
    [K_linear_dx_int8k] = linear_dx_int8k_avx512,
    [K_linear_dw_f32] = linear_dw_f32_avx512,
    [K_lora] = lora_avx512,
    [K_lora_bwd] = lora_bwd_avx512,
    [K_lora_dw] = lora_dw_avx512,
    [K_dora_gain] = dora_gain_avx512,
    [K_dora] = dora_avx512,
    [K_dora_dw] = dora_dw_avx512,

    /* rows and elements */
    [K_embed_bwd] = embed_bwd_avx512,
    [K_rmsnorm] = rmsnorm_avx512,
    [K_rmsnorm_bwd] = rmsnorm_bwd_avx512,
    [K_rmsnorm_dw] = rmsnorm_dw_avx512,
    [K_layernorm] = layernorm_avx512,
    [K_layernorm_bwd] = layernorm_bwd_avx512,
    [K_layernorm_dw] = layernorm_dw_avx512,
    [K_swiglu] = swiglu_avx512,
    [K_swiglu_bwd] = swiglu_bwd_avx512,
    [K_glu] = glu_avx512,
    [K_glu_bwd] = glu_bwd_avx512,
    [K_swiglu_clamped] = swiglu_clamped_avx512,
    [K_swiglu_clamped_bwd] = swiglu_clamped_bwd_avx512,
    [K_gelu] = gelu_avx512,
    [K_gelu_bwd] = gelu_bwd_avx512,
    [K_softcap] = softcap_avx512,
    [K_softcap_bwd] = softcap_bwd_avx512,
    [K_add] = add_avx512,
    [K_mul] = mul_avx512,
    [K_scale] = scale_avx512,
    [K_cast] = cast_avx512,
    [K_dropout] = dropout_avx512,
    [K_scatter_add] = scatter_add_avx512,
    [K_col_sum] = col_sum_avx512,
    [K_softmax] = softmax_avx512,
    [K_log_softmax] = log_softmax_avx512,

    /* rope */
    [K_rope] = rope_avx512,
    [K_rope_kv] = rope_kv_avx512,

    /* attention over a ragged batch */

    /* short convolution over a ragged batch */
    [K_conv] = conv_avx512,
    [K_conv_keep] = conv_keep_avx512,
    [K_conv_bwd] = conv_bwd_avx512,
    [K_conv_dw] = conv_dw_avx512,

    /* gated delta rule over a ragged batch */
    [K_delta_rates] = delta_rates_avx512,
    [K_delta] = delta_avx512,
    [K_delta_bwd] = delta_bwd_avx512,
    [K_delta_rates_bwd] = delta_rates_bwd_avx512,
    [K_scan_rates] = scan_rates_avx512,
    [K_scan_rates_bwd] = scan_rates_bwd_avx512,

    /* heads */
    [K_ce_fwd] = ce_fwd_avx512,
    [K_ce_bwd] = ce_bwd_avx512,
    [K_ce_put] = ce_put_avx512,
    [K_mean_pool] = mean_pool_avx512,
    [K_mean_pool_bwd] = mean_pool_bwd_avx512,
    [K_l2norm] = l2norm_avx512,
    [K_l2norm_bwd] = l2norm_bwd_avx512,
    [K_argmax] = argmax_avx512,
    [K_top_select] = top_select_avx512,

    /* optimizer */
    [K_adamw] = adamw_avx512,
    [K_adamw_weight] = adamw_weight_avx512,
    [K_moments_unpack] = moments_unpack_avx512,
    [K_moments_pack] = moments_pack_avx512,
    [K_sum_sq] = sum_sq_avx512,
};

kernel_fn *const kernel_rows_avx512_bf16[KERNEL_COUNT] = {
    /* packed linear algebra */
    [K_rows_pack] = rows_pack_avx512,
    [K_cols_pack] = cols_pack_avx512,
    [K_linear_bf16] = linear_bf16_avx512,
    [K_linear_int8] = linear_int8_avx512,
    [K_linear_int8g] = linear_int8g_avx512,
    [K_linear_int8c] = linear_int8c_avx512,
    [K_linear_fp8] = linear_fp8_avx512,
    [K_linear_mxfp4] = linear_mxfp4_avx512,
    [K_linear_nf4] = linear_nf4_avx512,
    [K_linear_int4] = linear_int4_avx512,
    [K_linear_q8] = linear_q8_avx512,
    [K_linear_dx_bf16] = linear_dx_bf16_avx512,
    [K_linear_dx_int8] = linear_dx_int8_avx512,
    [K_linear_dx_int8g] = linear_dx_int8g_avx512,
    [K_linear_dx_int8c] = linear_dx_int8c_avx512,
    [K_linear_dx_fp8] = linear_dx_fp8_avx512,
    [K_linear_dx_mxfp4] = linear_dx_mxfp4_avx512,
    [K_linear_dx_nf4] = linear_dx_nf4_avx512,
    [K_linear_dx_int4] = linear_dx_int4_avx512,
    [K_linear_dw_bf16] = linear_dw_bf16_avx512,
    [K_lora_bwd] = lora_bwd_rounded_avx512,
    [K_lora_dw] = lora_dw_rounded_avx512,

    /* mixtures of experts */
    [K_experts_pack] = experts_pack_avx512,
    [K_experts] = experts_avx512,
    [K_experts_dx] = experts_dx_avx512,

    /* attention over a ragged batch */
    [K_attn] = attn_avx512,
    [K_attn_part] = attn_part_avx512,
    [K_attn_merge] = attn_merge_avx512,
    [K_attn_bwd_q] = attn_bwd_q_avx512,
    [K_attn_bwd_kv] = attn_bwd_kv_avx512,
};
