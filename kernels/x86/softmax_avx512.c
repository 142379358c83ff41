/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy at this level: kernels/x86/softmax.h has the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/softmax.h"

void softmax_avx512(const void *args, const struct k_slice *s)
{
    softmax_rows(args, s->lo, s->hi);
}

void log_softmax_avx512(const void *args, const struct k_slice *s)
{
    log_softmax_rows(args, s->lo, s->hi);
}

void ce_fwd_avx512(const void *args, const struct k_slice *s)
{
    ce_fwd_rows(args, s->lo, s->hi);
}

void ce_bwd_avx512(const void *args, const struct k_slice *s)
{
    ce_bwd_rows(args, s->lo, s->hi);
}

void ce_put_avx512(const void *args, const struct k_slice *s)
{
    ce_put_rows(args, s->lo, s->hi);
}
