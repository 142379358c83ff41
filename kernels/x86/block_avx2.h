/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX2 files of packed linear algebra fill linear_isa_avx2 with (kernels/x86/block.h says
 * what each does).
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_BLOCK_AVX2_H
#define KERNELS_X86_BLOCK_AVX2_H

#include "kernels/x86/block.h"

/* Rows that are multiplied by four panels at most, as those are stored: no block has more that was
 * not widened. */
enum { BLOCK_FEW = 4, BLOCK_FEW_PANELS = 4 };

/* Rows up to which panels without groups are multiplied as they are stored: two blocks, of which
 * each unit of a call is a panel (kernels/linear_grid.h). */
enum { BLOCK_SOME = 2 * LINEAR_MR };

extern const struct widening opening_avx2;

void block_f32_avx2(const struct block *b);
void block_widened_avx2(const struct block_widened *o);
void block_finish_avx2(const struct tile_out *o, int64_t h, const float *sum);
void block_bf16_avx2(const struct block *b);
void block_f16_avx2(const struct block *b);
void block_int4k_avx2(const struct block *b);
void block_int5k_avx2(const struct block *b);
void block_int6k_avx2(const struct block *b);
void block_int8k_avx2(const struct block *b);
void block_int8_avx2(const struct block_codes *b);
void block_int8g_avx2(const struct block_codes *b);
void block_int8c_avx2(const struct block_codes *b);
void block_fp8_avx2(const struct block_codes *b);
void block_int4_avx2(const struct block_codes *b);
void block_mxfp4_avx2(const struct block_codes *b);
void block_nf4_avx2(const struct block_codes *b);
void linear_rows5to24_avx2(const struct k_linear *a, int64_t lo, int64_t hi, void *scratch);

void linear_dx_tiles_avx2(const struct turn *t);
/* Inputs [lo, lo + 32) of a block of nested scales as 32 steps of f32. */
void open_nested_tile_avx2(enum k_type type, const char *block, int64_t lo, float *to);

void lora_inner_avx2(const struct k_lora *a, const struct lora_rows *rows);
void lora_inner_bwd_avx2(const struct k_lora_bwd *a, const struct lora_rows *rows);
void lora_outer_avx2(const struct block *b);
void lora_row_avx2(const k_bf16 *panels, const float *t, int64_t rank, float *y, int64_t cols);
void lora_across_avx2(const float *w, int64_t rows, int64_t rank, float *to);
void lora_widen_avx2(const k_bf16 *x, int64_t n, float *to);

#endif
