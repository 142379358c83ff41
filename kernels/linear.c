/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of packed weights and rows.
 */
#include "kernels/linear.h"

size_t k_weight_stream_bytes(enum k_type type, int stream, int64_t n, int64_t k)
{
    struct k_stream s = format_stream(type, stream);
    return s.inputs ? (size_t)(linear_panels(n) * linear_ceil_div(k, s.inputs) * s.bytes) : 0;
}

void *k_weight_put_stream(struct k_weight *w, int stream, void *at)
{
    size_t bytes = k_weight_stream_bytes(w->type, stream, w->n, w->k);
    if (stream == 0)
        w->data = at;
    else if (format_stream(w->type, stream).inputs)
        w->scale = at;
    return (char *)at + bytes;
}

/* Where one stops; nowhere in particular if there is none. */
static void *stream_end(const struct k_weight *w, int stream)
{
    void *at = stream == 0 ? w->data : w->scale;
    return at ? (char *)at + k_weight_stream_bytes(w->type, stream, w->n, w->k) : NULL;
}

size_t k_weight_bytes(enum k_type type, int64_t n, int64_t k)
{
    size_t bytes = 0;
    for (int i = 0; i < FORMAT_STREAMS; i++)
        bytes += k_weight_stream_bytes(type, i, n, k);
    return bytes;
}

void k_weight_bind(struct k_weight *w, enum k_type type, int64_t n, int64_t k, void *data)
{
    *w = (struct k_weight){.type = type, .n = n, .k = k};
    for (int i = 0; i < FORMAT_STREAMS; i++)
        data = k_weight_put_stream(w, i, data);
}

bool k_weight_follows(const struct k_weight *w, const struct k_weight *next)
{
    if (w->type != next->type || w->k != next->k || w->n % K_NR)
        return false;
    struct k_weight behind = *w;
    for (int i = 0; i < FORMAT_STREAMS; i++)
        k_weight_put_stream(&behind, i, stream_end(w, i));
    return behind.data == next->data && behind.scale == next->scale;
}

/* Room for either order: blocked rows pad m, and rows as they lie, which a GPU keeps, n. */
size_t k_cols_bytes(enum k_type type, int64_t m, int64_t n, bool is_panels)
{
    int64_t wide = is_panels ? linear_panels(n) * K_NR : linear_k_stored(type, n);
    size_t bytes = (size_t)(linear_k_stored(type, m) * wide) *
                   (type == K_F32 ? sizeof(float) : sizeof(k_bf16));
    return (bytes + 63) / 64 * 64;
}

size_t k_rows_bytes(enum k_type weight_type, int64_t m, int64_t k)
{
    size_t bytes = (size_t)m * linear_row_bytes(weight_type, k);
    return (bytes + 63) / 64 * 64;
}
