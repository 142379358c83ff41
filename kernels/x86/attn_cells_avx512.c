/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells and left operands of attention, one into the other, with AVX-512. A K cell and 32 rows are
 * transposes of each other in dwords (pairs of bf16, or f32); a V cell interleaves rows two by two.
 */
#include "kernels/cell_codes.h"
#include "kernels/x86/attn_avx512.h"

/* Ones where the 16-bit numbers 2i, 2i+1 of a dword belong to slots 2i, 2i+1 of `slots`. */
static uint32_t pair_mask(struct k_span slots, int pair)
{
    uint32_t even = 2 * pair >= slots.lo && 2 * pair < slots.hi ? 0xffffu : 0;
    uint32_t odd = 2 * pair + 1 >= slots.lo && 2 * pair + 1 < slots.hi ? 0xffff0000u : 0;
    return even | odd;
}

/* dst = src & mask for n dwords; lanes whose exponent is all ones, of bf16 pairs or of f32. */
INLINE __mmask32 copy_masked(uint32_t *dst, const uint32_t *src, int n, uint32_t mask,
                             const enum k_type type)
{
    const __m512i keep = _mm512_set1_epi32((int)mask);
    const __m512i exp16 = _mm512_set1_epi16(0x7f80), exp32 = _mm512_set1_epi32(0x7f800000);
    __mmask32 bad = 0;
    for (int i = 0; i < n; i += 16) {
        __mmask16 in = lanes(n - i, 0);
        __m512i x = _mm512_and_si512(_mm512_maskz_loadu_epi32(in, src + i), keep);
        store_ps((float *)dst, i, n, _mm512_castsi512_ps(x));
        if (type == K_BF16)
            bad |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exp16), exp16);
        else
            bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(x, exp32), exp32);
    }
    return bad;
}

bool attn_copy_values_avx512(enum k_type type, void *dst, const void *src, int d,
                             struct k_span slots)
{
    uint32_t *to = dst;
    const uint32_t *from = src;
    __mmask32 bad = 0;
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        int n_row = type == K_BF16 ? K_CELL / 2 : K_CELL;
        for (int row = 0; row < n_row; row++, to += w, from += w) {
            if (type == K_BF16)
                bad |= copy_masked(to, from, w, pair_mask(slots, row), K_BF16);
            else
                bad |= copy_masked(to, from, w, row >= slots.lo && row < slots.hi ? ~0u : 0, K_F32);
        }
    }
    return bad == 0;
}

/* r[i] lane j becomes r[j] lane i. */
INLINE void transpose(__m512i r[16])
{
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* dst[j][i] = src[i][j] for n_i x n_j dwords, n_i and n_j up to 16; strides in bytes. */
static void transpose_block(char *dst, size_t ld_dst, const char *src, size_t ld_src, int n_i,
                            int n_j)
{
    __m512i r[16];
    const __mmask16 in_j = lanes(n_j, 0);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = i < n_i ? _mm512_maskz_loadu_epi32(in_j, src + (size_t)i * ld_src)
                       : _mm512_setzero_si512();
    transpose(r);
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++) {
        if (j < n_j)
            store_ps((float *)(dst + (size_t)j * ld_dst), 0, n_i, _mm512_castsi512_ps(r[j]));
    }
}

static size_t row_bytes(enum k_type type)
{
    return type == K_BF16 ? ROW_BF16 : ROW_F32;
}

/* Dwords of a row. */
static int row_dwords(enum k_type type, int d)
{
    return type == K_BF16 ? d / 2 : d;
}

void attn_rows_of_k_avx512(enum k_type type, void *rows, const void *cell, int d)
{
    int n = row_dwords(type, d);
    size_t ld = row_bytes(type);
    for (int i = 0; i < n; i += 16) {
        for (int key = 0; key < K_CELL; key += 16)
            transpose_block((char *)rows + (size_t)key * ld + i * 4, ld,
                            (const char *)cell + (i * K_CELL + key) * 4, K_CELL * 4,
                            n - i < 16 ? n - i : 16, 16);
    }
}

void attn_k_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d)
{
    int n = row_dwords(type, d);
    size_t ld = row_bytes(type);
    for (int i = 0; i < n; i += 16) {
        for (int key = 0; key < K_CELL; key += 16)
            transpose_block((char *)cell + (i * K_CELL + key) * 4, K_CELL * 4,
                            (const char *)rows + (size_t)key * ld + i * 4, ld, 16,
                            n - i < 16 ? n - i : 16);
    }
}

/* 16 bf16 of a row in the low halves of dwords; zeros for a row that is not valid. */
INLINE __m512i widen(const char *rows, int row, int col, __mmask16 in, struct k_span valid)
{
    if (row < valid.lo || row >= valid.hi)
        return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(
        _mm256_maskz_loadu_epi16(in, rows + (size_t)row * ROW_BF16 + col * 2));
}

/* 32 columns of two rows, both valid, as a pair of inputs of a V cell. */
INLINE void interleave(const char *rows, int row, int col, char *to)
{
    static const uint16_t order[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                       37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                       11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i low = _mm512_loadu_si512(order);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    __m512i even = _mm512_loadu_si512(rows + (size_t)row * ROW_BF16 + col * 2);
    __m512i odd = _mm512_loadu_si512(rows + (size_t)(row + 1) * ROW_BF16 + col * 2);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(even, low, odd));
    _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi16(even, high, odd));
}

void attn_v_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d,
                           struct k_span valid)
{
    char *to = cell;
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        for (int row = 0; row < K_CELL; row += type == K_BF16 ? 2 : 1, to += w * 4) {
            if (type == K_BF16 && w == K_NR && row >= valid.lo && row + 1 < valid.hi) {
                interleave(rows, row, col, to);
                continue;
            }
            for (int i = 0; i < w; i += 16) {
                __mmask16 in = lanes(w - i, 0);
                __m512i x;
                if (type == K_BF16) {
                    x = widen(rows, row + 1, col + i, in, valid);
                    x = _mm512_or_si512(_mm512_slli_epi32(x, 16),
                                        widen(rows, row, col + i, in, valid));
                } else {
                    if (row < valid.lo || row >= valid.hi)
                        in = 0;
                    x = _mm512_maskz_loadu_epi32(in, (const char *)rows + (size_t)row * ROW_F32 +
                                                         (col + i) * 4);
                }
                store_ps((float *)to, i, w, _mm512_castsi512_ps(x));
            }
        }
    }
}

/* Whole vectors are stored, past d if need be: there is room. */
void attn_rows_of_v_avx512(enum k_type type, void *rows, const void *cell, int d)
{
    const char *from = cell;
    for (int col = 0; col < d; col += K_NR) {
        int w = d - col < K_NR ? d - col : K_NR;
        for (int row = 0; row < K_CELL; row += type == K_BF16 ? 2 : 1, from += w * 4) {
            for (int i = 0; i < w; i += 16) {
                __mmask16 in = lanes(w - i, 0);
                __m512i x = _mm512_maskz_loadu_epi32(in, from + i * 4);
                if (type == K_F32) {
                    char *to = (char *)rows + (size_t)row * ROW_F32 + (col + i) * 4;
                    _mm512_storeu_si512(to, x);
                    continue;
                }
                char *to = (char *)rows + (size_t)row * ROW_BF16 + (col + i) * 2;
                _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(x));
                _mm256_storeu_si256((__m256i *)(to + ROW_BF16),
                                    _mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
            }
        }
    }
}

/* ---- cells of codes ---- */

/* 16 codes times what each has for a scale. What lies behind the codes of a cell are its scales. */
INLINE __m512 numbers_of(const int8_t *code, __m512 scale)
{
    __m512i x = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)code));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(x), scale);
}

/* Of 16 slots from the one that `at` counts from on. */
INLINE __m512 scales_at(const float *scale, int slot, __m512i at)
{
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(scale + slot));
}

void attn_widen_k_avx512(void *cell, const void *codes, int d, const char *ahead)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i next = _mm512_add_epi32(twice, _mm512_set1_epi32(8));
    const float *scale = (const float *)((const char *)codes + cell_scales_at(d));
    const __m512 s[4] = {scales_at(scale, 0, twice), scales_at(scale, 0, next),
                         scales_at(scale, 16, twice), scales_at(scale, 16, next)};
    const int8_t *from = codes;
    char *to = cell;
    for (int i = 0; i < d; i += 2, from += 64, to += 128, ahead += 64) {
        _mm_prefetch(ahead, _MM_HINT_T1);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            __m512 lo = numbers_of(from + v * 32, s[2 * v]);
            __m512 hi = numbers_of(from + v * 32 + 16, s[2 * v + 1]);
            _mm512_storeu_si512(to + v * 64, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
        }
    }
}

void attn_widen_v_avx512(void *cell, const void *codes, int d, const char *ahead)
{
    const __m512i by_turns = _mm512_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
    const float *scale = (const float *)((const char *)codes + cell_scales_at(d));
    const int8_t *from = codes;
    k_bf16 *to = cell;
    __m512 s[K_CELL / 2];
#pragma GCC unroll 16
    for (int row = 0; row < K_CELL / 2; row++)
        s[row] = scales_at(scale, row / 8 * 16,
                           _mm512_add_epi32(by_turns, _mm512_set1_epi32(row % 8 * 2)));
    for (int col = 0; col < d; col += K_NR) {
        int n = 2 * (d - col < K_NR ? d - col : K_NR);
        for (int row = 0; row < K_CELL / 2; row++, from += n, to += n, ahead += n) {
            _mm_prefetch(ahead, _MM_HINT_T1);
            int i = 0;
            for (; i + 32 <= n; i += 32) {
                __m512 lo = numbers_of(from + i, s[row]), hi = numbers_of(from + i + 16, s[row]);
                _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
            }
            for (; i < n; i += 16) {
                __m256i x = (__m256i)_mm512_cvtneps_pbh(numbers_of(from + i, s[row]));
                _mm256_mask_storeu_epi16(to + i, lanes(n - i, 0), x);
            }
        }
    }
}
