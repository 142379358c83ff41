/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes keys and values into cells: rounds a row eight numbers at a time, then scatters it. A unit
 * writes its own elements and reads none of its neighbours', so the stores are single numbers (of
 * V) or pairs (of K), never a line that another row's thread may be writing too.
 */
#include <immintrin.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/cell_codes.h"
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

/* Codes of d numbers, and their scale. `to` has room for d rounded up to 8. */
static float code_row(int8_t *to, const float *x, int d)
{
    const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i most = _mm256_setzero_si256(); /* of bits without the sign: NaN is more than infinity */
    for (int i = 0; i < d; i += 8) {
        __m256i in = _mm256_cmpgt_epi32(_mm256_set1_epi32(d - i), iota);
        __m256i u = _mm256_castps_si256(_mm256_maskload_ps(x + i, in));
        most = _mm256_max_epi32(most, _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff)));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    struct cell_scale s = cell_scale_of(_mm_cvtss_f32(_mm_castsi128_ps(m)));
    if (!(s.scale > 0)) {
        memset(to, 0, (size_t)d);
        return s.scale;
    }
    for (int i = 0; i < d; i += 8) {
        __m256i in = _mm256_cmpgt_epi32(_mm256_set1_epi32(d - i), iota);
        __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, in), _mm256_set1_ps(s.per));
        __m256i code = _mm256_cvtps_epi32(v);
        __m128i half =
            _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
        _mm_storel_epi64((__m128i *)(to + i), _mm_packs_epi16(half, half));
    }
    return s.scale;
}

static void write_int8(char *k_cell, char *v_cell, const float *k, const float *v, int d, int key)
{
    int8_t row[K_HEAD_MAX];
    size_t scale = cell_scales_at(d) + (size_t)key * sizeof(float);
    float s = code_row(row, k, d);
    memcpy(k_cell + scale, &s, sizeof s);
    int8_t *to = (int8_t *)k_cell + attn_k_at(K_INT8, key, 0);
    for (int i = 0; i < d; i += 2, to += 2 * K_CELL)
        memcpy(to, row + i, 2);
    s = code_row(row, v, d);
    memcpy(v_cell + scale, &s, sizeof s);
    for (int col = 0; col < d; col += K_NR) {
        to = (int8_t *)v_cell + attn_v_at(K_INT8, d, key, col);
        for (int i = col; i < d && i < col + K_NR; i++, to += 2)
            *to = row[i];
    }
}

static size_t cell_of(const struct k_kv_write *a, int64_t t, int64_t head)
{
    return attn_cell_at(&a->batch, &a->cache, a->batch.seq_of[t], head, a->batch.pos[t]);
}

/* Asks for the lines of a cell that a key's numbers go to: every line of K has one. */
static void fetch_cell(const struct k_kv_cache *c, size_t at, int key)
{
    const char *k = (const char *)c->k + at, *v = (const char *)c->v + at;
    size_t each = k_type_bytes(c->type), line = (size_t)attn_k_at(c->type, key, 0) * each;
    for (; line < k_kv_cell_bytes(c->type, c->d_head); line += K_CELL * 4)
        __builtin_prefetch(k + line, 1);
    for (int col = 0; col < c->d_head; col += 16)
        __builtin_prefetch(v + (size_t)attn_v_at(c->type, c->d_head, key, col) * each, 1);
}

/* Rows of decoding write to cells that nobody has touched for a whole step: each head's are asked
 * for while the row before is written. Rows of a prompt follow each other in a cell. */
static void fetch_next(const struct k_kv_write *a, const struct k_slice *s, int64_t t, int64_t head)
{
    const int32_t *seq = a->batch.seq_of, *pos = a->batch.pos;
    if (t + 1 < s->hi && seq[t + 1] != seq[t])
        fetch_cell(&a->cache, cell_of(a, t + 1, head), pos[t + 1] % K_CELL);
}

static void write_head(const struct k_kv_write *a, int64_t t, int64_t head)
{
    const struct k_kv_cache *c = &a->cache;
    size_t at = cell_of(a, t, head);
    void *k_cell = (char *)c->k + at, *v_cell = (char *)c->v + at;
    const float *k = a->k + t * a->ld_k + head * c->d_head;
    const float *v = a->v + t * a->ld_v + head * c->d_head;
    int key = a->batch.pos[t] % K_CELL;
    if (c->type == K_BF16)
        write_bf16(k_cell, v_cell, k, v, c->d_head, key);
    else if (c->type == K_INT8)
        write_int8(k_cell, v_cell, k, v, c->d_head, key);
    else
        write_f32(k_cell, v_cell, k, v, c->d_head, key);
}

void kv_write_avx2(const void *args, const struct k_slice *s)
{
    const struct k_kv_write *a = args;
    for (int64_t t = s->lo; t < s->hi; t++) {
        for (int64_t h = 0; h < a->cache.n_kv_head; h++) {
            fetch_next(a, s, t, h);
            write_head(a, t, h);
        }
    }
}
