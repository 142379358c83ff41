/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of each kernel and its shape: the level that every other one overwrites. Sections
 * are those of kernels.def.
 */
#include "kernels/variants.h"

#define ROW(name) [K_##name] = {name##_ref, name##_shape}

const struct kernel_row_ref kernel_rows_ref[KERNEL_COUNT] = {
    /* packed linear algebra */
    ROW(weight_pack),
    ROW(weight_unpack),
    ROW(rows_pack),
    ROW(linear_f32),
    ROW(linear_bf16),
    ROW(linear_int8),
    ROW(linear_dx_f32),
    ROW(linear_dx_bf16),
    ROW(linear_dx_int8),
    ROW(linear_dw_f32),
    ROW(linear_dw_bf16),
    ROW(lora),
    ROW(lora_bwd),
    ROW(lora_dw),

    /* rows and elements */
    ROW(embed),
    ROW(embed_bwd),
    ROW(rmsnorm),
    ROW(rmsnorm_bwd),
    ROW(rmsnorm_dw),
    ROW(layernorm),
    ROW(layernorm_bwd),
    ROW(layernorm_dw),
    ROW(swiglu),
    ROW(swiglu_bwd),
    ROW(gelu),
    ROW(gelu_bwd),
    ROW(add),
    ROW(mul),
    ROW(scale),
    ROW(copy),
    ROW(cast),
    ROW(dropout),
    ROW(gather),
    ROW(scatter_add),
    ROW(col_sum),
    ROW(softmax),
    ROW(log_softmax),

    /* rope */
    ROW(rope),

    /* attention over a ragged batch */
    ROW(kv_write),
    ROW(attn),
    ROW(attn_part),
    ROW(attn_merge),
    ROW(attn_bwd_q),
    ROW(attn_bwd_kv),

    /* heads */
    ROW(ce_fwd),
    ROW(ce_bwd),
    ROW(mean_pool),
    ROW(mean_pool_bwd),
    ROW(l2norm),
    ROW(l2norm_bwd),
    ROW(top_select),

    /* optimizer */
    ROW(adamw),
    ROW(sum_sq),
};
