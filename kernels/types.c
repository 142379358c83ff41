/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of numbers.
 */
#include "kernels/types.h"

size_t k_type_bytes(enum k_type t)
{
    static const size_t bytes[K_TYPE_COUNT] = {
        [K_F32] = 4, [K_BF16] = 2, [K_F16] = 2, [K_INT8] = 1};
    return bytes[t];
}
