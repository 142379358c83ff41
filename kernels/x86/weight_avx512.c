/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack from rows: 16 outputs by 16 steps at a time, loaded by outputs, turned over, stored
 * by steps past the caches, because a weight that is packed at load is not read until much later.
 * Transposed sources, which are rare, go to the reference. weight_unpack is the way back, but for
 * codes, which nobody unpacks in haste.
 *
 * Rounding to bf16 is in integers, not by the instruction that takes denormals for zero, and int8
 * divides as the reference does: a packed weight has the same bits whatever packed it.
 */
#include "kernels/int4.h"
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx512.h"
#include "kernels/x86/weight_coded.h"

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

/* A step of f16 is one line: both halves of it at once. */
TILE_INLINE void pack_f16(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    char *out = (char *)a->w.data + (a->panel_lo + panel) * a->w.k * TILE_F16_STEP_BYTES;
    for (int64_t s = 0; s < a->w.k; s += 16) {
        __m512i v[2][16];
        for (int64_t half = 0; half < 2; half++) {
            struct source src = source_at(a, panel * K_NR + half * HALF, s);
            load_tile(from, K_F32, &src, v[half]);
        }
        for (int64_t i = 0; i < linear_min(a->w.k - s, 16); i++) {
            __m256i lo = _mm512_cvtps_ph(_mm512_castsi512_ps(v[0][i]), 0);
            __m256i hi = _mm512_cvtps_ph(_mm512_castsi512_ps(v[1][i]), 0);
            __m512i step = _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
            _mm512_stream_si512((void *)(out + (s + i) * TILE_F16_STEP_BYTES), step);
        }
    }
}

/* ---- int8 --------------------------------------------------------------------------------- */

/* Half a panel's group: inputs by outputs, and its scales. */
struct group {
    float v[K_INT8_GROUP][HALF] __attribute__((aligned(64)));
    __m512 scale;
};

TILE_INLINE void load_group(enum k_type from, enum k_type to, struct source src, struct group *g)
{
    __m512 most = _mm512_setzero_ps();
    __mmask16 bad = 0;
    int64_t step = 16 * (int64_t)(from == K_F32 ? 4 : 2);
    for (int i = 0; i < format_group(to); i += 16) {
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
    if (to == K_INT8G)
        g->scale = _mm512_cvtph_ps(_mm512_cvtps_ph(g->scale, 0));
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

/* 16 of a group's scales, f32 or f16. */
TILE_INLINE void store_scale(enum k_type to, char *scales, int64_t half, __m512 scale)
{
    if (to == K_INT8)
        _mm512_store_ps((float *)(void *)scales + half * HALF, scale);
    else
        _mm256_storeu_si256((__m256i *)(void *)scales + half, _mm512_cvtps_ph(scale, 0));
}

TILE_INLINE void pack_int8(enum k_type from, enum k_type to, const struct k_weight_pack *a,
                           int64_t panel)
{
    const int64_t each = tile_group_steps(to), scale_bytes = format_stream(to, 1).bytes;
    /* quarters of the two halves in turn: the order that linear_int8_at gives */
    const __m512i turn = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    int64_t steps = linear_ceil_div(a->w.k, 2), groups = linear_groups(to, a->w.k);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_INT8_STEP_BYTES;
    char *scale = (char *)a->w.scale + (a->panel_lo + panel) * groups * scale_bytes;
    struct group g[2];
    for (int64_t i = 0; i < groups; i++, scale += scale_bytes) {
        for (int64_t half = 0; half < 2; half++) {
            int64_t o = panel * K_NR + half * HALF;
            load_group(from, to, source_at(a, o, i * format_group(to)), &g[half]);
            store_scale(to, scale, half, g[half].scale);
        }
        int64_t first = i * each;
        for (int64_t s = 0; s < linear_min(steps - first, each); s++) {
            __m512i step =
                _mm512_permutex2var_epi64(code_step(&g[0], s), turn, code_step(&g[1], s));
            _mm512_stream_si512((void *)(out + (first + s) * TILE_INT8_STEP_BYTES), step);
        }
    }
}

/* ---- int4 (kernels/int4.h) ---------------------------------------------------------------- */

/* Half a panel's group: inputs by outputs, its scales, and the scales' reciprocals where there is
 * something to divide. */
struct int4_group {
    float v[K_INT4_GROUP][HALF] __attribute__((aligned(64)));
    __m256i scale;
    __m512 inverse;
    __mmask16 some;
};

/* 16 codes, from -8 on. */
TILE_INLINE __m512i int4_codes(const float *v, __mmask16 some, __m512 inverse)
{
    __m512 q = _mm512_maskz_mov_ps(some, _mm512_mul_ps(_mm512_load_ps(v), inverse));
    q = _mm512_max_ps(_mm512_min_ps(q, _mm512_set1_ps(7)), _mm512_set1_ps(-8));
    return _mm512_cvtps_epi32(q);
}

TILE_INLINE __mmask16 int4_some(__m512 scale)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(scale), _mm512_setzero_ps(), _CMP_GT_OQ);
}

TILE_INLINE __m512 int4_error(const struct int4_group *g, __m512 scale)
{
    __mmask16 some = int4_some(scale);
    __m512 inverse = _mm512_div_ps(_mm512_set1_ps(1), scale), sum = _mm512_setzero_ps();
    for (int i = 0; i < K_INT4_GROUP; i++) {
        __m512 code = _mm512_cvtepi32_ps(int4_codes(g->v[i], some, inverse));
        __m512 d = _mm512_fnmadd_ps(scale, code, _mm512_load_ps(g->v[i]));
        sum = _mm512_fmadd_ps(d, d, sum);
    }
    return sum;
}

TILE_INLINE void int4_scale(struct int4_group *g, __m512 most, __mmask16 bad)
{
    static const float reach[INT4_REACHES] = INT4_REACH;
    __m512 best = _mm512_setzero_ps(), least = _mm512_set1_ps(__builtin_inff());
    for (int r = 0; r < INT4_REACHES; r++) {
        __m256i bits = _mm512_cvtps_ph(_mm512_div_ps(most, _mm512_set1_ps(reach[r])), 0);
        __m512 scale = _mm512_cvtph_ps(bits), error = int4_error(g, scale);
        __mmask16 better = r == 0 ? 0xffff : _mm512_cmp_ps_mask(error, least, _CMP_LT_OQ);
        best = _mm512_mask_mov_ps(best, better, scale);
        least = _mm512_mask_mov_ps(least, better, error);
    }
    best = _mm512_mask_mov_ps(best, bad, _mm512_set1_ps(__builtin_nanf("")));
    g->scale = _mm512_cvtps_ph(best, 0);
    g->some = int4_some(best);
    g->inverse = _mm512_div_ps(_mm512_set1_ps(1), best);
}

TILE_INLINE void load_int4(enum k_type from, struct source src, struct int4_group *g)
{
    __m512 most = _mm512_setzero_ps();
    __mmask16 bad = 0;
    int64_t step = 16 * (int64_t)(from == K_F32 ? 4 : 2);
    for (int i = 0; i < K_INT4_GROUP; i += 16) {
        __m512i v[16];
        load_tile(from, K_F32, &src, v);
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) {
            __m512 one = _mm512_castsi512_ps(v[j]), size = _mm512_abs_ps(one);
            bad |= _mm512_cmp_ps_mask(size, _mm512_set1_ps(__builtin_inff()), _CMP_NLT_UQ);
            __mmask16 further = _mm512_cmp_ps_mask(size, _mm512_abs_ps(most), _CMP_GT_OQ);
            most = _mm512_mask_mov_ps(most, further, one);
            _mm512_store_si512(g->v[i + j], v[j]);
        }
        src.at += step;
        src.left -= 16;
    }
    int4_scale(g, most, bad);
}

/* An input of all outputs: 16 bytes of two codes, in as many words. */
TILE_INLINE __m512i int4_bytes(const struct int4_group g[2], int64_t i)
{
    __m512i lo = int4_codes(g[0].v[i], g[0].some, g[0].inverse);
    __m512i hi = int4_codes(g[1].v[i], g[1].some, g[1].inverse);
    hi = _mm512_slli_epi32(_mm512_add_epi32(hi, _mm512_set1_epi32(INT4_ZERO)), 4);
    return _mm512_or_si512(_mm512_add_epi32(lo, _mm512_set1_epi32(INT4_ZERO)), hi);
}

TILE_INLINE void pack_int4(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    const int64_t group = tile_group_steps(K_INT4);
    int64_t steps = linear_ceil_div(a->w.k, 2), groups = linear_groups(K_INT4, a->w.k);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_INT4_STEP_BYTES;
    __m256i *scale = (__m256i *)a->w.scale + (a->panel_lo + panel) * groups * 2;
    struct int4_group g[2];
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t half = 0; half < 2; half++) {
            load_int4(from, source_at(a, panel * K_NR + half * HALF, i * K_INT4_GROUP), &g[half]);
            scale[i * 2 + half] = g[half].scale;
        }
        for (int64_t s = 0; s < linear_min(steps - i * group, group); s++) {
            __m512i words = _mm512_or_si512(int4_bytes(g, s * 2),
                                            _mm512_slli_epi32(int4_bytes(g, s * 2 + 1), 8));
            _mm256_stream_si256((void *)(out + (i * group + s) * TILE_INT4_STEP_BYTES),
                                _mm512_cvtepi32_epi16(words));
        }
    }
}

TILE_INLINE void pack_to(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    if (a->w.type == K_INT8)
        pack_int8(from, K_INT8, a, panel);
    else if (a->w.type == K_INT8G)
        pack_int8(from, K_INT8G, a, panel);
    else if (a->w.type == K_INT4)
        pack_int4(from, a, panel);
    else if (a->w.type == K_F16)
        pack_f16(from, a, panel);
    else if (a->w.type == K_BF16)
        pack_plain(from, K_BF16, a, panel);
    else if (a->w.type == K_F32)
        pack_plain(from, K_F32, a, panel);
    else
        weight_pack_ref(a, &(struct k_slice){.lo = panel, .hi = panel + 1});
}

/* A function for each: in one they would be compiled in the square of their number. */
#define PACK(from)                                                                                 \
    static void pack_from_##from(const struct k_weight_pack *a, int64_t panel)                     \
    {                                                                                              \
        pack_to(K_##from, a, panel);                                                               \
    }
PACK(F32)
PACK(BF16)
PACK(F16)

void weight_pack_avx512(const void *args, const struct k_slice *s)
{
    static void (*const pack[])(const struct k_weight_pack *, int64_t) = {
        [K_F32] = pack_from_F32,
        [K_BF16] = pack_from_BF16,
        [K_F16] = pack_from_F16,
    };
    const struct k_weight_pack *a = args;
    if (a->transposed) {
        weight_pack_ref(args, s);
        return;
    }
    for (int64_t panel = s->lo; panel < s->hi; panel++)
        (coded_has(a->src_type) ? weight_coded_panel : pack[a->src_type])(a, panel);
    _mm_sfence();
}

/* ---- unpacking ---------------------------------------------------------------------------- */

/* 16 steps of one output become so many numbers. */
TILE_INLINE void store_steps(enum k_type type, float *dst, __m512i v, int64_t left)
{
    if (type != K_BF16) {
        _mm512_mask_storeu_ps(dst, tile_mask(left), _mm512_castsi512_ps(v));
        return;
    }
    __m512i lo = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v));
    __m512i hi = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1));
    _mm512_mask_storeu_epi32(dst, tile_mask(left), _mm512_slli_epi32(lo, 16));
    _mm512_mask_storeu_epi32(dst + 16, tile_mask(left - 16), _mm512_slli_epi32(hi, 16));
}

/* 16 outputs' step, f16 as f32. */
TILE_INLINE __m512i load_step(enum k_type type, const char *in)
{
    if (type == K_F16)
        return _mm512_castps_si512(tile_f16(in));
    return _mm512_loadu_si512(in);
}

/* 16 outputs of so many steps, `left` inputs. */
TILE_INLINE void unpack_tile(enum k_type type, const char *in, int64_t steps, float *dst,
                             int64_t ld, int64_t rows, int64_t left)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        v[i] = i < steps ? load_step(type, in + i * format_stream(type, 0).bytes)
                         : _mm512_setzero_si512();
    transpose16(v);
#pragma GCC unroll 16
    for (int r = 0; r < HALF; r++)
        if (r < rows)
            store_steps(type, dst + r * ld, v[r], left);
}

TILE_INLINE void unpack_panel(enum k_type type, const struct k_weight_unpack *a, int64_t panel)
{
    const struct k_stream step = format_stream(type, 0);
    int64_t per_step = step.inputs, steps = linear_ceil_div(a->w.k, per_step);
    const char *in = (const char *)a->w.data + panel * steps * step.bytes;
    for (int64_t s = 0; s < steps; s += 16)
        for (int64_t half = 0; half < 2; half++) {
            const char *at = in + s * step.bytes + half * (step.bytes / 2);
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
    for (int64_t panel = s->lo; panel < s->hi; panel++) {
        if (a->w.type == K_F32)
            unpack_panel(K_F32, a, panel);
        else if (a->w.type == K_F16)
            unpack_panel(K_F16, a, panel);
        else if (a->w.type == K_BF16)
            unpack_panel(K_BF16, a, panel);
        else
            weight_unpack_ref(a, &(struct k_slice){.lo = panel, .hi = panel + 1});
    }
}
