/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells and left operands of attention, one into the other, with AVX2. A column of a K cell is one
 * input of 8 keys; 8 columns and 8 rows are transposes of each other.
 */
#include <string.h>

#include "kernels/cell_codes.h"
#include "kernels/x86/attn_avx2.h"

/* Ones where the 16-bit numbers 2i, 2i+1 of a dword belong to slots 2i, 2i+1 of `slots`. */
static uint32_t pair_mask(struct k_span slots, int pair)
{
    uint32_t even = 2 * pair >= slots.lo && 2 * pair < slots.hi ? 0xffffu : 0;
    uint32_t odd = 2 * pair + 1 >= slots.lo && 2 * pair + 1 < slots.hi ? 0xffff0000u : 0;
    return even | odd;
}

/* dst = src & mask for n dwords; returns lanes in which some exponent is all ones. */
INLINE __m256i copy_masked(float *dst, const float *src, int n, uint32_t mask, const bool bf16)
{
    const __m256 keep = _mm256_castsi256_ps(_mm256_set1_epi32((int)mask));
    const __m256i exp16 = _mm256_set1_epi16(0x7f80), exp32 = _mm256_set1_epi32(0x7f800000);
    __m256i bad = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8) {
        __m256 x = _mm256_and_ps(load_ps(src, i, n), keep);
        __m256i u = _mm256_castps_si256(x);
        store_ps(dst, i, n, x);
        bad = _mm256_or_si256(bad, bf16 ? _mm256_cmpeq_epi16(_mm256_and_si256(u, exp16), exp16)
                                        : _mm256_cmpeq_epi32(_mm256_and_si256(u, exp32), exp32));
    }
    return bad;
}

bool attn_copy_values_avx2(enum k_type type, void *dst, const void *src, int d, struct k_span slots)
{
    float *to = dst;
    const float *from = src;
    __m256i bad = _mm256_setzero_si256();
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        int n_row = type == K_BF16 ? K_CELL / 2 : K_CELL;
        for (int row = 0; row < n_row; row++, to += w, from += w) {
            uint32_t whole = row >= slots.lo && row < slots.hi ? ~0u : 0;
            if (type == K_BF16)
                bad = _mm256_or_si256(bad, copy_masked(to, from, w, pair_mask(slots, row), true));
            else
                bad = _mm256_or_si256(bad, copy_masked(to, from, w, whole, false));
        }
    }
    return _mm256_testz_si256(bad, bad);
}

/* r[i] lane j becomes r[j] lane i. */
INLINE void transpose(__m256 r[8])
{
    __m256 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256 low = r[i], high = r[i + 4];
        r[i] = _mm256_permute2f128_ps(low, high, 0x20);
        r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

/* Inputs i .. i + 7 (those below d) of keys key .. key + 7; zeros for the others. Pairs are of an
 * even d, and a column past an odd one is the next cell's. */
INLINE void columns_load(const float *cell, int i, int d, int key, __m256 r[8], const bool bf16)
{
#pragma GCC unroll 4
    for (int c = 0; c < 8; c += 2) {
        r[c] = r[c + 1] = _mm256_setzero_ps();
        if (i + c >= d)
            continue;
        if (bf16) {
            __m256 pairs = _mm256_loadu_ps(cell + (i + c) / 2 * K_CELL + key);
            r[c] = even_ps(pairs);
            r[c + 1] = odd_ps(pairs);
        } else {
            r[c] = _mm256_loadu_ps(cell + (i + c) * K_CELL + key);
            if (i + c + 1 < d)
                r[c + 1] = _mm256_loadu_ps(cell + (i + c + 1) * K_CELL + key);
        }
    }
}

INLINE void columns_store(float *cell, int i, int d, int key, const __m256 r[8], const bool bf16)
{
#pragma GCC unroll 4
    for (int c = 0; c < 8; c += 2) {
        if (i + c >= d)
            continue;
        if (bf16) {
            _mm256_storeu_ps(cell + (i + c) / 2 * K_CELL + key, pair_ps(r[c], r[c + 1]));
        } else {
            _mm256_storeu_ps(cell + (i + c) * K_CELL + key, r[c]);
            if (i + c + 1 < d)
                _mm256_storeu_ps(cell + (i + c + 1) * K_CELL + key, r[c + 1]);
        }
    }
}

INLINE void rows_of_k(float *rows, const float *cell, int d, const bool bf16)
{
    for (int i = 0; i < d; i += 8) {
        for (int key = 0; key < K_CELL; key += 8) {
            __m256 r[8];
            columns_load(cell, i, d, key, r, bf16);
            transpose(r);
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++)
                _mm256_storeu_ps(rows + (key + j) * ROW_FLOATS + i, r[j]);
        }
    }
}

void attn_rows_of_k_avx2(enum k_type type, void *rows, const void *cell, int d)
{
    if (type == K_BF16)
        rows_of_k(rows, cell, d, true);
    else
        rows_of_k(rows, cell, d, false);
}

INLINE void k_of_rows(float *cell, const float *rows, int d, const bool bf16)
{
    for (int i = 0; i < d; i += 8) {
        for (int key = 0; key < K_CELL; key += 8) {
            __m256 r[8];
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++)
                r[j] = _mm256_loadu_ps(rows + (key + j) * ROW_FLOATS + i);
            transpose(r);
            columns_store(cell, i, d, key, r, bf16);
        }
    }
}

void attn_k_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d)
{
    if (type == K_BF16)
        k_of_rows(cell, rows, d, true);
    else
        k_of_rows(cell, rows, d, false);
}

/* Whole vectors are stored, past d if need be: there is room. */
void attn_rows_of_v_avx2(enum k_type type, void *rows, const void *cell, int d)
{
    const float *from = cell;
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        for (int row = 0; row < K_CELL; row += type == K_BF16 ? 2 : 1, from += w) {
            float *to = (float *)rows + row * ROW_FLOATS + col;
            for (int i = 0; i < w; i += 8) {
                __m256 x = load_ps(from, i, w);
                _mm256_storeu_ps(to + i, type == K_BF16 ? even_ps(x) : x);
                if (type == K_BF16)
                    _mm256_storeu_ps(to + ROW_FLOATS + i, odd_ps(x));
            }
        }
    }
}

INLINE __m256 row_load(const float *rows, int row, int i, struct k_span valid)
{
    return row >= valid.lo && row < valid.hi ? _mm256_loadu_ps(rows + row * ROW_FLOATS + i)
                                             : _mm256_setzero_ps();
}

void attn_v_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d, struct k_span valid)
{
    float *to = cell;
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        for (int row = 0; row < K_CELL; row += type == K_BF16 ? 2 : 1, to += w) {
            for (int i = 0; i < w; i += 8) {
                __m256 x = row_load(rows, row, col + i, valid);
                if (type == K_BF16)
                    x = pair_ps(x, row_load(rows, row + 1, col + i, valid));
                store_ps(to, i, w, x);
            }
        }
    }
}

/* ---- cells of codes ---- */

/* 8 codes times what each has for a scale, rounded, in the high halves of dwords. What lies behind
 * the codes of a cell are its scales. */
INLINE __m256i numbers_of(const int8_t *code, __m256 scale)
{
    __m256i x = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)code));
    return _mm256_castps_si256(round_bf16_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(x), scale)));
}

/* 16 numbers in their order. */
INLINE __m256i pack(__m256i lo, __m256i hi)
{
    __m256i x = _mm256_packus_epi32(_mm256_srli_epi32(lo, 16), _mm256_srli_epi32(hi, 16));
    return _mm256_permute4x64_epi64(x, 0xd8);
}

void attn_widen_k_avx2(void *cell, const void *codes, int d, const char *ahead)
{
    const float *scale = (const float *)((const char *)codes + cell_scales_at(d));
    const int8_t *from = codes;
    k_bf16 *to = cell;
    float twice[2 * K_CELL];
    for (int key = 0; key < K_CELL; key++)
        twice[2 * key] = twice[2 * key + 1] = scale[key];
    for (int i = 0; i < d; i += 2, ahead += 64) {
        _mm_prefetch(ahead, _MM_HINT_T0);
        for (int n = 0; n < 2 * K_CELL; n += 16, from += 16, to += 16) {
            __m256i lo = numbers_of(from, _mm256_loadu_ps(twice + n));
            __m256i hi = numbers_of(from + 8, _mm256_loadu_ps(twice + n + 8));
            _mm256_storeu_si256((__m256i *)to, pack(lo, hi));
        }
    }
}

void attn_widen_v_avx2(void *cell, const void *codes, int d, const char *ahead)
{
    const char *scale = (const char *)codes + cell_scales_at(d);
    const int8_t *from = codes;
    k_bf16 *to = cell;
    for (int col = 0; col < d; col += K_NR) {
        int n = 2 * (d - col < K_NR ? d - col : K_NR);
        for (int row = 0; row < K_CELL / 2; row++, from += n, to += n, ahead += n) {
            __m256 s = _mm256_castpd_ps(_mm256_broadcast_sd((const double *)(scale + row * 8)));
            int i = 0;
            _mm_prefetch(ahead, _MM_HINT_T0);
            for (; i + 16 <= n; i += 16)
                _mm256_storeu_si256((__m256i *)(to + i),
                                    pack(numbers_of(from + i, s), numbers_of(from + i + 8, s)));
            for (; i < n; i += 4) { /* an even number of columns: of two keys each */
                __m256i x = numbers_of(from + i, s);
                _mm_storel_epi64((__m128i *)(to + i), _mm256_castsi256_si128(pack(x, x)));
            }
        }
    }
}
