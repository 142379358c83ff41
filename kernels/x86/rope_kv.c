/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel rope_kv at each level: by that level's kernels (kernels/rope_kv.h).
 */
#include "kernels/rope_kv.h"
#include "kernels/variants.h"

void rope_kv_avx2(const void *args, const struct k_slice *s)
{
    rope_kv_rows(args, s, &(struct rope_kv_by){rmsnorm_avx2, rope_avx2, kv_write_avx2});
}

void rope_kv_avx512(const void *args, const struct k_slice *s)
{
    rope_kv_rows(args, s, &(struct rope_kv_by){rmsnorm_avx512, rope_avx512, kv_write_avx2});
}
