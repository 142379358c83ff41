/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of packed weights and rows.
 */
#include "kernels/linear.h"

size_t k_weight_bytes(enum k_type type, int64_t n, int64_t k)
{
    int64_t panels = linear_panels(n);
    size_t bytes = (size_t)panels * linear_panel_bytes(type, k);
    if (type == K_INT8)
        bytes += (size_t)(panels * linear_groups(k)) * K_NR * sizeof(float);
    return bytes;
}

void k_weight_bind(struct k_weight *w, enum k_type type, int64_t n, int64_t k, void *data)
{
    *w = (struct k_weight){.type = type, .n = n, .k = k, .data = data};
    if (type == K_INT8) {
        char *scale = (char *)data + (size_t)linear_panels(n) * linear_panel_bytes(type, k);
        w->scale = (float *)(void *)scale;
    }
}

/* Room for either order: blocked rows pad m, and rows as they lie, which a GPU keeps, n. */
size_t k_cols_bytes(enum k_type type, int64_t m, int64_t n, bool is_panels)
{
    int64_t wide = is_panels ? linear_panels(n) * K_NR : linear_k_stored(type, n);
    size_t bytes = (size_t)(linear_k_stored(type, m) * wide) * linear_elem_bytes(type);
    return (bytes + 63) / 64 * 64;
}

size_t k_rows_bytes(enum k_type weight_type, int64_t m, int64_t k)
{
    size_t bytes = (size_t)m * linear_row_bytes(weight_type, k);
    return (bytes + 63) / 64 * 64;
}
