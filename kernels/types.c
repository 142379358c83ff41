/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of numbers.
 */
#include "kernels/format.h"

size_t k_type_bytes(enum k_type t)
{
    struct k_stream numbers = format_stream(t, 0);
    return (size_t)(numbers.bytes / (numbers.inputs * K_NR));
}
