/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of adapters beside a product of bf16: lora_bwd and lora_dw where k_lora_bwd.rounds,
 * by dot products of bf16, which are twice as many at a time. Without it they are those of f32.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_LORA_ROUNDED_H
#define KERNELS_X86_LORA_ROUNDED_H

#include "kernels/kernels.h"

kernel_fn lora_bwd_rounded_avx512, lora_dw_rounded_avx512;

#endif
