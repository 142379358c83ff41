/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes keys and values into the cells of their sequences: a column of a K cell, a row of a V
 * cell. A unit writes its own elements only, so rows of one cell may be written by different
 * threads. rope_kv is this behind rope and rmsnorm.
 */
#include "kernels/attention.h"
#include "kernels/cell_codes.h"
#include "kernels/float16.h"
#include "kernels/rope_kv.h"
#include "kernels/variants.h"

static void put(enum k_type type, void *cell, int64_t at, float x)
{
    if (type == K_BF16)
        ((k_bf16 *)cell)[at] = bf16_from_f32(x);
    else
        ((float *)cell)[at] = x;
}

static struct cell_scale scale_of(const float *x, int32_t d)
{
    float most = 0;
    for (int32_t i = 0; i < d; i++)
        most = fabsf(x[i]) <= most ? most : isfinite(x[i]) ? fabsf(x[i]) : INFINITY;
    return cell_scale_of(most);
}

static void put_coded(const struct k_kv_cache *c, size_t cell, int64_t key, const float *k,
                      const float *v)
{
    char *k_cell = (char *)c->k + cell, *v_cell = (char *)c->v + cell;
    struct cell_scale of_k = scale_of(k, c->d_head), of_v = scale_of(v, c->d_head);
    for (int64_t i = 0; i < c->d_head; i++) {
        ((int8_t *)k_cell)[attn_k_at(c->type, key, i)] = cell_code_of(k[i], of_k);
        ((int8_t *)v_cell)[attn_v_at(c->type, c->d_head, key, i)] = cell_code_of(v[i], of_v);
    }
    size_t at = cell_scales_at(c->d_head) + (size_t)key * sizeof(float);
    memcpy(k_cell + at, &of_k.scale, sizeof of_k.scale);
    memcpy(v_cell + at, &of_v.scale, sizeof of_v.scale);
}

void kv_write_ref(const void *args, const struct k_slice *s)
{
    const struct k_kv_write *a = args;
    const struct k_kv_cache *c = &a->cache;
    for (int64_t t = s->lo; t < s->hi; t++) {
        int64_t pos = a->batch.pos[t];
        for (int64_t h = 0; h < c->n_kv_head; h++) {
            size_t cell = attn_cell_at(&a->batch, c, a->batch.seq_of[t], h, pos);
            const float *k = a->k + t * a->ld_k + h * c->d_head;
            const float *v = a->v + t * a->ld_v + h * c->d_head;
            if (c->type == K_INT8) {
                put_coded(c, cell, pos % K_CELL, k, v);
                continue;
            }
            for (int64_t i = 0; i < c->d_head; i++) {
                put(c->type, (char *)c->k + cell, attn_k_at(c->type, pos % K_CELL, i), k[i]);
                put(c->type, (char *)c->v + cell, attn_v_at(c->type, c->d_head, pos % K_CELL, i),
                    v[i]);
            }
        }
    }
}

void rope_kv_ref(const void *args, const struct k_slice *s)
{
    rope_kv_rows(args, s, &(struct rope_kv_by){rmsnorm_ref, rope_ref, kv_write_ref});
}
