/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX-512 files of packed linear algebra fill linear_isa_avx512 with (kernels/x86/block.h
 * says what each does). Also for attention, whose cells are panels.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_BLOCK_AVX512_H
#define KERNELS_X86_BLOCK_AVX512_H

#include "kernels/x86/block.h"

void block_f32_avx512(const struct block *b);
void block_bf16_avx512(const struct block *b);
void block_f16_avx512(const struct block *b);
void block_int4k_avx512(const struct block *b);
void block_int5k_avx512(const struct block *b);
void block_int6k_avx512(const struct block *b);
void block_int8k_avx512(const struct block *b);
void block_int8_avx512(const struct block_codes *b);
void block_int8g_avx512(const struct block_codes *b);
void block_int8c_avx512(const struct block_codes *b);
void block_fp8_avx512(const struct block_codes *b);
void block_int4_avx512(const struct block_codes *b);
void block_mxfp4_avx512(const struct block_codes *b);
void block_nf4_avx512(const struct block_codes *b);
void block_int8_widen_avx512(const struct block_widen *b);
void block_int8g_widen_avx512(const struct block_widen *b);
void block_int8c_widen_avx512(const struct block_widen *b);
void block_fp8_widen_avx512(const struct block_widen *b);
void block_int4_widen_avx512(const struct block_widen *b);
void block_mxfp4_widen_avx512(const struct block_widen *b);

void gate_avx512(const struct gating *g);

void linear_dx_tiles_avx512(const struct turn *t);

void lora_inner_avx512(const struct k_lora *a, const struct lora_rows *rows);
void lora_inner_bwd_avx512(const struct k_lora_bwd *a, const struct lora_rows *rows);
void lora_across_avx512(const float *w, int64_t rows, int64_t rank, float *to);
void lora_row_avx512(const k_bf16 *panels, const float *t, int64_t rank, float *y, int64_t cols);
void lora_widen_avx512(const k_bf16 *x, int64_t n, float *to);

#endif
