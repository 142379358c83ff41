/* SPDX-License-Identifier: Apache-2.0
 *
 * The norms at this level: the bodies are in kernels/x86/norm.h, norm_bwd.h, l2norm.h and cols.h.
 */
#include "kernels/variants.h"
#include "kernels/x86/cols.h"
#include "kernels/x86/l2norm.h"
#include "kernels/x86/norm_bwd.h"

void rmsnorm_avx512(const void *args, const struct k_slice *s)
{
    rmsnorm_rows(args, s->lo, s->hi);
}

void rmsnorm_bwd_avx512(const void *args, const struct k_slice *s)
{
    rmsnorm_bwd_rows(args, s->lo, s->hi);
}

void rmsnorm_dw_avx512(const void *args, const struct k_slice *s)
{
    rmsnorm_dw_runs(args, s->lo, s->hi);
}

void layernorm_avx512(const void *args, const struct k_slice *s)
{
    layernorm_rows(args, s->lo, s->hi);
}

void layernorm_bwd_avx512(const void *args, const struct k_slice *s)
{
    layernorm_bwd_rows(args, s->lo, s->hi);
}

void layernorm_dw_avx512(const void *args, const struct k_slice *s)
{
    layernorm_dw_runs(args, s->lo, s->hi);
}

void l2norm_avx512(const void *args, const struct k_slice *s)
{
    l2norm_rows(args, s->lo, s->hi);
}

void l2norm_bwd_avx512(const void *args, const struct k_slice *s)
{
    l2norm_bwd_rows(args, s->lo, s->hi);
}
