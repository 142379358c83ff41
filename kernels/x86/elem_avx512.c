/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise kernels at this level: kernels/x86/elem.h has the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/elem.h"

void add_avx512(const void *args, const struct k_slice *s)
{
    add_rows(args, s->lo, s->hi);
}

void mul_avx512(const void *args, const struct k_slice *s)
{
    mul_rows(args, s->lo, s->hi);
}

void scale_avx512(const void *args, const struct k_slice *s)
{
    scale_chunks(args, s->lo, s->hi);
}

void cast_avx512(const void *args, const struct k_slice *s)
{
    cast_chunks(args, s->lo, s->hi);
}

void dropout_avx512(const void *args, const struct k_slice *s)
{
    dropout_rows(args, s->lo, s->hi);
}
