/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes keys and values into cells: rounds a row eight numbers at a time, then scatters it. A unit
 * writes its own elements and reads none of its neighbours', so the stores are single numbers (of
 * V) or pairs (of K), never a line that another row's thread may be writing too.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/variants.h"

/* Eight numbers to bf16 as float16.h does it: denormals are kept, NaN becomes quiet. */
static __m128i bf16_of(__m256i u)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256 x = _mm256_castsi256_ps(u), nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    up = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan));
    up = _mm256_srli_epi32(up, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
}

/* to has room for d rounded up to 8. */
static void round_row(k_bf16 *to, const float *x, int d)
{
    const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int i = 0; i < d; i += 8) {
        __m256i in = _mm256_cmpgt_epi32(_mm256_set1_epi32(d - i), iota);
        __m256i u = _mm256_castps_si256(_mm256_maskload_ps(x + i, in));
        _mm_storeu_si128((__m128i *)(to + i), bf16_of(u));
    }
}

static void write_bf16(k_bf16 *k_cell, k_bf16 *v_cell, const float *k, const float *v, int d,
                       int key)
{
    k_bf16 row[K_HEAD_MAX];
    round_row(row, k, d);
    k_bf16 *to = k_cell + attn_k_at(K_BF16, key, 0);
    for (int i = 0; i < d; i += 2, to += 2 * K_CELL)
        memcpy(to, row + i, 2 * sizeof *row);
    round_row(row, v, d);
    for (int col = 0; col < d; col += K_NR) {
        to = v_cell + attn_v_at(K_BF16, d, key, col);
        for (int i = col; i < d && i < col + K_NR; i++, to += 2)
            *to = row[i];
    }
}

static void write_f32(float *k_cell, float *v_cell, const float *k, const float *v, int d, int key)
{
    float *to = k_cell + attn_k_at(K_F32, key, 0);
    for (int i = 0; i < d; i++, to += K_CELL)
        *to = k[i];
    for (int col = 0; col < d; col += K_NR)
        memcpy(v_cell + attn_v_at(K_F32, d, key, col), v + col,
               (size_t)(d - col < K_NR ? d - col : K_NR) * sizeof *v);
}

void kv_write_avx2(const void *args, const struct k_slice *s)
{
    const struct k_kv_write *a = args;
    const struct k_kv_cache *c = &a->cache;
    for (int64_t t = s->lo; t < s->hi; t++) {
        int64_t pos = a->batch.pos[t], seq = a->batch.seq_of[t];
        for (int64_t h = 0; h < c->n_kv_head; h++) {
            size_t at = attn_cell_at(&a->batch, c, seq, h, pos);
            void *k_cell = (char *)c->k + at, *v_cell = (char *)c->v + at;
            const float *k = a->k + t * a->ld_k + h * c->d_head;
            const float *v = a->v + t * a->ld_v + h * c->d_head;
            if (c->type == K_BF16)
                write_bf16(k_cell, v_cell, k, v, c->d_head, (int)(pos % K_CELL));
            else
                write_f32(k_cell, v_cell, k, v, c->d_head, (int)(pos % K_CELL));
        }
    }
}
