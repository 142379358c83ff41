/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack from rows: 16 outputs by 16 steps at a time, loaded by outputs, turned over, stored
 * by steps past the caches, because a weight that is packed at load is not read until much later.
 * Transposed sources, which are rare, go to the reference. weight_unpack is the way back, but for
 * int8, which nobody unpacks in haste.
 *
 * Rounding to bf16 is in integers, not by the instruction that takes denormals for zero, and int8
 * divides as the reference does: a packed weight has the same bits whatever packed it.
 */
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx512.h"

enum { HALF = 16, AHEAD = 512 /* bytes of each row */ };

/* Where the rows of half a panel are, and how many inputs they have from here. */
struct source {
    const char *at; /* borrowed */
    int64_t stride; /* bytes */
    int64_t rows, left;
};

TILE_INLINE __m512 load16(enum k_type from, const char *at, int64_t left)
{
    __mmask16 m = tile_mask(left);
    if (from == K_F32)
        return _mm512_maskz_loadu_ps(m, at);
    __m256i half = _mm256_maskz_loadu_epi16(m, at);
    if (from == K_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

TILE_INLINE __m256i round_bf16(__m512 v)
{
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}

/* 16 steps of one row. */
TILE_INLINE __m512i load_steps(enum k_type from, enum k_type to, const char *at, int64_t left)
{
    if (to == K_F32)
        return _mm512_castps_si512(load16(from, at, left));
    if (from == K_BF16) {
        __mmask32 m = (__mmask32)(left >= 32 ? -1 : left <= 0 ? 0 : (1ll << left) - 1);
        return _mm512_maskz_loadu_epi16(m, at);
    }
    __m256i lo = round_bf16(load16(from, at, left));
    __m256i hi = round_bf16(load16(from, at + (from == K_F32 ? 64 : 32), left - 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
}

/* v[i] lane o: step i of output o. */
TILE_INLINE void load_tile(enum k_type from, enum k_type to, const struct source *s, __m512i v[16])
{
#pragma GCC unroll 16
    for (int r = 0; r < HALF; r++) {
        const char *at = s->at + r * s->stride;
        if (r >= s->rows || s->left <= 0) {
            v[r] = _mm512_setzero_si512();
            continue;
        }
        _mm_prefetch(at + AHEAD, _MM_HINT_T0);
        if (from == K_F32 && to != K_F32) /* 16 steps are two lines */
            _mm_prefetch(at + AHEAD + 64, _MM_HINT_T0);
        v[r] = load_steps(from, to, at, s->left);
    }
    transpose16(v);
}

static struct source source_at(const struct k_weight_pack *a, int64_t output, int64_t input)
{
    int64_t bytes = (int64_t)k_type_bytes(a->src_type);
    return (struct source){.at = (const char *)a->src + (output * a->ld_src + input) * bytes,
                           .stride = a->ld_src * bytes,
                           .rows = a->n_src - output,
                           .left = a->w.k - input};
}

TILE_INLINE void pack_plain(enum k_type from, enum k_type to, const struct k_weight_pack *a,
                            int64_t panel)
{
    int64_t per_step = to == K_F32 ? 1 : LINEAR_STEP, steps = linear_ceil_div(a->w.k, per_step);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_STEP_BYTES;
    for (int64_t s = 0; s < steps; s += 16) {
        for (int64_t half = 0; half < 2; half++) {
            __m512i v[16];
            struct source src = source_at(a, panel * K_NR + half * HALF, s * per_step);
            load_tile(from, to, &src, v);
            for (int64_t i = 0; i < linear_min(steps - s, 16); i++)
                _mm512_stream_si512((void *)(out + (s + i) * TILE_STEP_BYTES + half * 64), v[i]);
        }
    }
}

/* ---- int8 --------------------------------------------------------------------------------- */

/* Half a panel's group: inputs by outputs, and its scales. */
struct group {
    float v[K_INT8_GROUP][HALF] __attribute__((aligned(64)));
    __m512 scale;
};

TILE_INLINE void load_group(enum k_type from, struct source src, struct group *g)
{
    __m512 most = _mm512_setzero_ps();
    __mmask16 bad = 0;
    int64_t step = 16 * (int64_t)(from == K_F32 ? 4 : 2);
    for (int i = 0; i < K_INT8_GROUP; i += 16) {
        __m512i v[16];
        load_tile(from, K_F32, &src, v);
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) {
            __m512 size = _mm512_abs_ps(_mm512_castsi512_ps(v[j]));
            bad |= _mm512_cmp_ps_mask(size, _mm512_set1_ps(__builtin_inff()), _CMP_NLT_UQ);
            most = _mm512_max_ps(most, size);
            _mm512_store_si512(g->v[i + j], v[j]);
        }
        src.at += step;
        src.left -= 16;
    }
    __m512 scale = _mm512_div_ps(most, _mm512_set1_ps(127));
    g->scale = _mm512_mask_mov_ps(scale, bad, _mm512_set1_ps(__builtin_nanf("")));
}

/* 16 codes as sign and magnitude. */
TILE_INLINE __m512i codes(const float *v, __m512 scale)
{
    __mmask16 some = _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_GT_OQ);
    __m512 q = _mm512_maskz_div_ps(some, _mm512_load_ps(v), scale);
    q = _mm512_max_ps(_mm512_min_ps(q, _mm512_set1_ps(127)), _mm512_set1_ps(-127));
    __m512i code = _mm512_cvtps_epi32(q);
    __m512i sign = _mm512_slli_epi32(_mm512_srli_epi32(code, 31), 7);
    return _mm512_or_si512(_mm512_abs_epi32(code), sign);
}

/* A step of 16 outputs: 16 words of two codes each. */
TILE_INLINE __m512i code_step(const struct group *g, int64_t step)
{
    __m512i even = codes(g->v[step * 2], g->scale), odd = codes(g->v[step * 2 + 1], g->scale);
    __m256i words = _mm512_cvtepi32_epi16(_mm512_or_si512(even, _mm512_slli_epi32(odd, 8)));
    return _mm512_castsi256_si512(words);
}

TILE_INLINE void pack_int8(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    /* quarters of the two halves in turn: the order that linear_int8_at gives */
    const __m512i turn = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    int64_t steps = linear_ceil_div(a->w.k, 2), groups = linear_groups(a->w.k);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_INT8_STEP_BYTES;
    float *scale = a->w.scale + (a->panel_lo + panel) * groups * K_NR;
    struct group g[2];
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t half = 0; half < 2; half++) {
            load_group(from, source_at(a, panel * K_NR + half * HALF, i * K_INT8_GROUP), &g[half]);
            _mm512_store_ps(scale + i * K_NR + half * HALF, g[half].scale);
        }
        int64_t first = i * TILE_GROUP_STEPS;
        for (int64_t s = 0; s < linear_min(steps - first, TILE_GROUP_STEPS); s++) {
            __m512i step =
                _mm512_permutex2var_epi64(code_step(&g[0], s), turn, code_step(&g[1], s));
            _mm512_stream_si512((void *)(out + (first + s) * TILE_INT8_STEP_BYTES), step);
        }
    }
}

TILE_INLINE void pack_to(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    if (a->w.type == K_INT8)
        pack_int8(from, a, panel);
    else if (a->w.type == K_BF16)
        pack_plain(from, K_BF16, a, panel);
    else
        pack_plain(from, K_F32, a, panel);
}

/* A function for each: in one they would be compiled in the square of their number. */
#define PACK(from)                                                                                 \
    static void pack_##from(const struct k_weight_pack *a, int64_t panel)                          \
    {                                                                                              \
        pack_to(K_##from, a, panel);                                                               \
    }
PACK(F32)
PACK(BF16)
PACK(F16)

void weight_pack_avx512(const void *args, const struct k_slice *s)
{
    static void (*const pack[])(const struct k_weight_pack *, int64_t) = {
        [K_F32] = pack_F32,
        [K_BF16] = pack_BF16,
        [K_F16] = pack_F16,
    };
    const struct k_weight_pack *a = args;
    if (a->transposed) {
        weight_pack_ref(args, s);
        return;
    }
    for (int64_t panel = s->lo; panel < s->hi; panel++)
        pack[a->src_type](a, panel);
    _mm_sfence();
}

/* ---- unpacking ---------------------------------------------------------------------------- */

/* 16 steps of one output become so many numbers. */
TILE_INLINE void store_steps(enum k_type type, float *dst, __m512i v, int64_t left)
{
    if (type == K_F32) {
        _mm512_mask_storeu_ps(dst, tile_mask(left), _mm512_castsi512_ps(v));
        return;
    }
    __m512i lo = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v));
    __m512i hi = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1));
    _mm512_mask_storeu_epi32(dst, tile_mask(left), _mm512_slli_epi32(lo, 16));
    _mm512_mask_storeu_epi32(dst + 16, tile_mask(left - 16), _mm512_slli_epi32(hi, 16));
}

/* 16 outputs of so many steps, `left` inputs. */
TILE_INLINE void unpack_tile(enum k_type type, const char *in, int64_t steps, float *dst,
                             int64_t ld, int64_t rows, int64_t left)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        v[i] = i < steps ? _mm512_loadu_si512(in + i * TILE_STEP_BYTES) : _mm512_setzero_si512();
    transpose16(v);
#pragma GCC unroll 16
    for (int r = 0; r < HALF; r++)
        if (r < rows)
            store_steps(type, dst + r * ld, v[r], left);
}

TILE_INLINE void unpack_panel(enum k_type type, const struct k_weight_unpack *a, int64_t panel)
{
    int64_t per_step = type == K_F32 ? 1 : LINEAR_STEP, steps = linear_ceil_div(a->w.k, per_step);
    const char *in = (const char *)a->w.data + panel * steps * TILE_STEP_BYTES;
    for (int64_t s = 0; s < steps; s += 16)
        for (int64_t half = 0; half < 2; half++) {
            const char *at = in + s * TILE_STEP_BYTES + half * 64;
            int64_t o = panel * K_NR + half * HALF, i = s * per_step;
            float *dst = a->dst + o * a->ld_dst + i;
            if (steps - s >= 16 && a->w.n - o >= HALF && a->w.k - i >= 16 * per_step)
                unpack_tile(type, at, 16, dst, a->ld_dst, HALF, 32);
            else
                unpack_tile(type, at, steps - s, dst, a->ld_dst, a->w.n - o, a->w.k - i);
        }
}

void weight_unpack_avx512(const void *args, const struct k_slice *s)
{
    const struct k_weight_unpack *a = args;
    if (a->w.type == K_INT8) {
        weight_unpack_ref(args, s);
        return;
    }
    for (int64_t panel = s->lo; panel < s->hi; panel++) {
        if (a->w.type == K_F32)
            unpack_panel(K_F32, a, panel);
        else
            unpack_panel(K_BF16, a, panel);
    }
}
