/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_pack from rows: half a panel by eight steps at a time, loaded by outputs, turned over,
 * stored by steps past the caches, a line each, because a weight that is packed at load is not read
 * until much later. Transposed sources, which are rare, go to the reference. weight_unpack is the
 * way back, but for codes, which nobody unpacks in haste.
 *
 * int8 divides as the reference does: a packed weight has the same bits whatever packed it.
 */
#include <math.h>

#include "kernels/int4.h"
#include "kernels/variants.h"
#include "kernels/x86/block.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/vec.h"
#include "kernels/x86/weight_coded.h"

enum { HALF = 16, STEPS = 8, AHEAD = 512 /* bytes of each row */ };

/* Where the rows of some outputs are, and how many inputs they have from here. */
struct source {
    const char *at; /* borrowed */
    int64_t stride; /* bytes */
    int64_t rows, left;
};

static struct source source_at(const struct k_weight_pack *a, int64_t output, int64_t input)
{
    int64_t bytes = (int64_t)k_type_bytes(a->src_type);
    return (struct source){.at = (const char *)a->src + (output * a->ld_src + input) * bytes,
                           .stride = a->ld_src * bytes,
                           .rows = a->n_src - output,
                           .left = a->w.k - input};
}

/* Eight numbers, `left` of which are there. */
TURN_INLINE vf load8(enum k_type from, const void *at, int64_t left)
{
    if (left <= 0)
        return vf_zero();
    int n = left < VF ? (int)left : VF;
    if (from == K_F32)
        return vf_load(at, n);
    if (from == K_F16)
        return vf_load_f16(at, n);
    return vf_from_bits(vi_shl(vi_load16(at, n), 16));
}

/* Sixteen of bf16 as they are, but for NaN, which becomes quiet as in kernels/float16.h. */
TURN_INLINE __m256i quiet16(const void *at, int64_t left)
{
    uint16_t tail[2 * VF] = {0};
    if (left < 2 * VF)
        at = memcpy(tail, at, (size_t)left * sizeof *tail);
    __m256i v = _mm256_loadu_si256(at), size = _mm256_and_si256(v, _mm256_set1_epi16(0x7fff));
    __m256i nan = _mm256_cmpgt_epi16(size, _mm256_set1_epi16(0x7f80));
    return _mm256_or_si256(v, _mm256_and_si256(nan, _mm256_set1_epi16(0x40)));
}

/* Eight steps of a row, in the order that step_at tells. */
TURN_INLINE __m256i row_steps(enum k_type from, enum k_type to, const char *at, int64_t left)
{
    if (to == K_F32)
        return vf_bits(load8(from, at, left));
    if (from == K_BF16)
        return quiet16(at, left);
    return bf16_row(load8(from, at, left), load8(from, at + (from == K_F32 ? 32 : 16), left - 8));
}

TURN_INLINE int step_at(enum k_type from, enum k_type to, int i)
{
    return to == K_BF16 && from != K_BF16 ? bf16_row_at(i) : i;
}

/* v[step_at(i)] lane o: step i of output o. */
TURN_INLINE void load_tile(enum k_type from, enum k_type to, const struct source *s, __m256i v[8])
{
#pragma GCC unroll 8
    for (int r = 0; r < VF; r++) {
        const char *at = s->at + r * s->stride;
        v[r] = _mm256_setzero_si256();
        if (r >= s->rows || s->left <= 0)
            continue;
        _mm_prefetch(at + AHEAD, _MM_HINT_T0);
        v[r] = row_steps(from, to, at, s->left);
    }
    transpose8(v);
}

TURN_INLINE void stream(char *to, __m256i v)
{
    _mm256_stream_si256((__m256i *)(void *)to, v);
}

/* Half a panel's n steps. */
TURN_INLINE void pack_tile(enum k_type from, enum k_type to, const struct source *s, int64_t n,
                           char *out)
{
    __m256i lo[STEPS], hi[STEPS];
    struct source upper = *s;
    upper.at += VF * s->stride;
    upper.rows -= VF;
    load_tile(from, to, s, lo);
    load_tile(from, to, &upper, hi);
#pragma GCC unroll 8
    for (int i = 0; i < STEPS; i++) {
        if (i >= n)
            return;
        stream(out + i * TILE_STEP_BYTES, lo[step_at(from, to, i)]);
        stream(out + i * TILE_STEP_BYTES + 32, hi[step_at(from, to, i)]);
    }
}

/* Each half takes all of the lines of its rows before the other one reads. */
TURN_INLINE void pack_plain(enum k_type from, enum k_type to, const struct k_weight_pack *a,
                            int64_t panel)
{
    int64_t per_step = to == K_F32 ? 1 : LINEAR_STEP, steps = linear_ceil_div(a->w.k, per_step);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_STEP_BYTES;
    for (int64_t lo = 0; lo < steps; lo += 2 * STEPS) {
        for (int64_t half = 0; half < 2; half++) {
            for (int64_t s = lo; s < linear_min(steps, lo + 2 * STEPS); s += STEPS) {
                struct source src = source_at(a, panel * K_NR + half * HALF, s * per_step);
                pack_tile(from, to, &src, steps - s, out + s * TILE_STEP_BYTES + half * 64);
            }
        }
    }
}

/* Half a panel's n steps of f16. */
TURN_INLINE void pack_f16_tile(enum k_type from, const struct source *s, int64_t n, char *out)
{
    __m256i lo[STEPS], hi[STEPS];
    struct source upper = *s;
    upper.at += VF * s->stride;
    upper.rows -= VF;
    load_tile(from, K_F32, s, lo);
    load_tile(from, K_F32, &upper, hi);
#pragma GCC unroll 8
    for (int i = 0; i < STEPS; i++) {
        if (i >= n)
            return;
        __m128i first = _mm256_cvtps_ph(_mm256_castsi256_ps(lo[i]), 0);
        __m128i second = _mm256_cvtps_ph(_mm256_castsi256_ps(hi[i]), 0);
        stream(out + i * TILE_F16_STEP_BYTES, _mm256_set_m128i(second, first));
    }
}

TURN_INLINE void pack_f16(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    char *out = (char *)a->w.data + (a->panel_lo + panel) * a->w.k * TILE_F16_STEP_BYTES;
    for (int64_t s = 0; s < a->w.k; s += STEPS) {
        for (int64_t half = 0; half < 2; half++) {
            struct source src = source_at(a, panel * K_NR + half * HALF, s);
            pack_f16_tile(from, &src, a->w.k - s, out + s * TILE_F16_STEP_BYTES + half * 32);
        }
    }
}

/* ---- int8 --------------------------------------------------------------------------------- */

/* A group of eight outputs: inputs by outputs, and the scales. */
struct group {
    float v[K_INT8_GROUP][VF] __attribute__((aligned(32)));
    vf scale;
};

TURN_INLINE void load_group(enum k_type from, enum k_type to, struct source src, struct group *g)
{
    vf most = vf_zero(), fine = vf_from_bits(vi_set(-1));
    int64_t bytes = STEPS * (int64_t)(from == K_F32 ? 4 : 2);
    for (int i = 0; i < format_group(to); i += STEPS) {
        __m256i v[STEPS];
        load_tile(from, K_F32, &src, v);
#pragma GCC unroll 8
        for (int j = 0; j < STEPS; j++) {
            vf size = vf_abs(vf_from_bits(v[j]));
            fine = vf_and(fine, vf_gt(vf_set(INFINITY), size));
            most = vf_max(most, size);
            vf_store(g->v[i + j], vf_from_bits(v[j]), VF);
        }
        src.at += bytes;
        src.left -= STEPS;
    }
    g->scale = vf_select(fine, vf_div(most, vf_set(127)), vf_set(NAN));
    if (to == K_INT8G)
        g->scale = _mm256_cvtph_ps(_mm256_cvtps_ph(g->scale, 0));
}

/* Eight codes as sign and magnitude. */
TURN_INLINE vi codes(const float *v, vf scale)
{
    vf q = vf_and(vf_div(vf_load(v, VF), scale), vf_gt(scale, vf_zero()));
    q = vf_max(vf_min(q, vf_set(127)), vf_set(-127));
    vi code = _mm256_cvtps_epi32(q);
    return _mm256_or_si256(_mm256_abs_epi32(code), vi_shl(vi_shr(code, 31), 7));
}

/* Two inputs of eight outputs: words of two codes. */
TURN_INLINE vi code_pairs(const struct group *g, int64_t step)
{
    vi odd = codes(g->v[step * 2 + 1], g->scale);
    return _mm256_or_si256(codes(g->v[step * 2], g->scale), vi_shl(odd, 8));
}

/* Quarters of the two halves in turn: the order that linear_int8_at gives. */
TURN_INLINE void pack_group(const struct group g[4], int64_t steps, char *out)
{
    for (int64_t s = 0; s < steps; s++, out += TILE_INT8_STEP_BYTES) {
        stream(out, _mm256_packus_epi32(code_pairs(&g[0], s), code_pairs(&g[2], s)));
        stream(out + 32, _mm256_packus_epi32(code_pairs(&g[1], s), code_pairs(&g[3], s)));
    }
}

/* Eight of a group's scales, f32 or f16. */
TURN_INLINE void store_scale(enum k_type to, char *scales, int64_t p, vf scale)
{
    if (to == K_INT8)
        vf_store((float *)(void *)scales + p * VF, scale, VF);
    else
        _mm_storeu_si128((__m128i *)(void *)scales + p, _mm256_cvtps_ph(scale, 0));
}

TURN_INLINE void pack_int8(enum k_type from, enum k_type to, const struct k_weight_pack *a,
                           int64_t panel)
{
    const int64_t each = tile_group_steps(to), scale_bytes = format_stream(to, 1).bytes;
    int64_t steps = linear_ceil_div(a->w.k, 2), groups = linear_groups(to, a->w.k);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_INT8_STEP_BYTES;
    char *scale = (char *)a->w.scale + (a->panel_lo + panel) * groups * scale_bytes;
    struct group g[K_NR / VF];
    for (int64_t i = 0; i < groups; i++, scale += scale_bytes) {
        for (int64_t p = 0; p < K_NR / VF; p++) {
            load_group(from, to, source_at(a, panel * K_NR + p * VF, i * format_group(to)), &g[p]);
            store_scale(to, scale, p, g[p].scale);
        }
        pack_group(g, linear_min(steps - i * each, each), out + i * each * TILE_INT8_STEP_BYTES);
    }
}

/* ---- int4 (kernels/int4.h) ---------------------------------------------------------------- */

/* A group of eight outputs: inputs by outputs, the scales, their reciprocals, and where those are
 * of any use. */
struct int4_group {
    float v[K_INT4_GROUP][VF] __attribute__((aligned(32)));
    vf scale, inverse, some;
};

/* Eight codes, from -8 on. */
TURN_INLINE vi int4_codes(const float *v, vf some, vf inverse)
{
    vf q = vf_and(vf_mul(vf_load(v, VF), inverse), some);
    return _mm256_cvtps_epi32(vf_max(vf_min(q, vf_set(7)), vf_set(-8)));
}

TURN_INLINE vf int4_some(vf scale)
{
    return vf_gt(vf_abs(scale), vf_zero());
}

TURN_INLINE vf int4_error(const struct int4_group *g, vf scale)
{
    vf some = int4_some(scale), inverse = vf_div(vf_set(1), scale), sum = vf_zero();
    for (int i = 0; i < K_INT4_GROUP; i++) {
        vf code = _mm256_cvtepi32_ps(int4_codes(g->v[i], some, inverse));
        vf d = _mm256_fnmadd_ps(scale, code, vf_load(g->v[i], VF));
        sum = _mm256_fmadd_ps(d, d, sum);
    }
    return sum;
}

TURN_INLINE void int4_scale(struct int4_group *g, vf most, vf fine)
{
    static const float reach[INT4_REACHES] = INT4_REACH;
    vf best = vf_zero(), least = vf_zero();
    for (int r = 0; r < INT4_REACHES; r++) {
        vf scale = _mm256_cvtph_ps(_mm256_cvtps_ph(vf_div(most, vf_set(reach[r])), 0));
        vf error = int4_error(g, scale);
        vf better = r == 0 ? vf_from_bits(vi_set(-1)) : vf_gt(least, error);
        best = vf_select(better, scale, best);
        least = vf_select(better, error, least);
    }
    g->scale = vf_select(fine, best, vf_set(NAN));
    g->some = int4_some(g->scale);
    g->inverse = vf_div(vf_set(1), g->scale);
}

TURN_INLINE void load_int4(enum k_type from, struct source src, struct int4_group *g)
{
    vf most = vf_zero(), fine = vf_from_bits(vi_set(-1));
    int64_t bytes = STEPS * (int64_t)(from == K_F32 ? 4 : 2);
    for (int i = 0; i < K_INT4_GROUP; i += STEPS) {
        __m256i v[STEPS];
        load_tile(from, K_F32, &src, v);
#pragma GCC unroll 8
        for (int j = 0; j < STEPS; j++) {
            vf one = vf_from_bits(v[j]), size = vf_abs(one);
            fine = vf_and(fine, vf_gt(vf_set(INFINITY), size));
            most = vf_select(vf_gt(size, vf_abs(most)), one, most);
            vf_store(g->v[i + j], one, VF);
        }
        src.at += bytes;
        src.left -= STEPS;
    }
    int4_scale(g, most, fine);
}

/* An input of the outputs of two groups that stand 16 apart: bytes of two codes. */
TURN_INLINE vi int4_bytes(const struct int4_group *lower, const struct int4_group *upper, int64_t i)
{
    const vi zero = _mm256_set1_epi32(INT4_ZERO);
    vi lo = _mm256_add_epi32(int4_codes(lower->v[i], lower->some, lower->inverse), zero);
    vi hi = _mm256_add_epi32(int4_codes(upper->v[i], upper->some, upper->inverse), zero);
    return _mm256_or_si256(lo, vi_shl(hi, 4));
}

/* A step of eight of them: words. */
TURN_INLINE vi int4_words(const struct int4_group *lower, const struct int4_group *upper, int64_t s)
{
    vi odd = int4_bytes(lower, upper, s * 2 + 1);
    return _mm256_or_si256(int4_bytes(lower, upper, s * 2), vi_shl(odd, 8));
}

TURN_INLINE void pack_int4(enum k_type from, const struct k_weight_pack *a, int64_t panel)
{
    const int64_t group = tile_group_steps(K_INT4);
    int64_t steps = linear_ceil_div(a->w.k, 2), groups = linear_groups(K_INT4, a->w.k);
    char *out = (char *)a->w.data + (a->panel_lo + panel) * steps * TILE_INT4_STEP_BYTES;
    __m128i *scale = (__m128i *)a->w.scale + (a->panel_lo + panel) * groups * (K_NR / VF);
    struct int4_group g[K_NR / VF];
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t p = 0; p < K_NR / VF; p++) {
            load_int4(from, source_at(a, panel * K_NR + p * VF, i * K_INT4_GROUP), &g[p]);
            scale[i * (K_NR / VF) + p] = _mm256_cvtps_ph(g[p].scale, 0);
        }
        for (int64_t s = 0; s < linear_min(steps - i * group, group); s++) {
            vi both = _mm256_packus_epi32(int4_words(&g[0], &g[2], s), int4_words(&g[1], &g[3], s));
            stream(out + (i * group + s) * TILE_INT4_STEP_BYTES,
                   _mm256_permute4x64_epi64(both, 0xd8));
        }
    }
}

TURN_INLINE void pack_to(enum k_type from, const struct k_weight_pack *a, int64_t panel)
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

void weight_pack_avx2(const void *args, const struct k_slice *s)
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

/* Eight steps of an output become so many numbers. */
TURN_INLINE void store_steps(enum k_type type, float *dst, __m256i v, int64_t left)
{
    if (type != K_BF16) {
        vf_store(dst, vf_from_bits(v), left < VF ? (int)left : VF);
        return;
    }
    vf lo = vf_from_bits(vi_shl(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)), 16));
    vf hi = vf_from_bits(vi_shl(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)), 16));
    vf_store(dst, lo, left < VF ? (int)left : VF);
    if (left > VF)
        vf_store(dst + VF, hi, left < 2 * VF ? (int)left - VF : VF);
}

/* Eight outputs' step, f16 as f32. */
TURN_INLINE __m256i load_step(enum k_type type, const char *in)
{
    if (type == K_F16)
        return vf_bits(_mm256_cvtph_ps(_mm_loadu_si128((const void *)in)));
    return _mm256_loadu_si256((const void *)in);
}

/* Eight outputs of so many steps, `left` inputs. */
TURN_INLINE void unpack_tile(enum k_type type, const char *in, int64_t steps, float *dst,
                             int64_t ld, int64_t rows, int64_t left)
{
    __m256i v[STEPS];
#pragma GCC unroll 8
    for (int i = 0; i < STEPS; i++)
        v[i] = i < steps ? load_step(type, in + i * format_stream(type, 0).bytes)
                         : _mm256_setzero_si256();
    transpose8(v);
#pragma GCC unroll 8
    for (int r = 0; r < VF; r++)
        if (r < rows)
            store_steps(type, dst + r * ld, v[r], left);
}

TURN_INLINE void unpack_panel(enum k_type type, const struct k_weight_unpack *a, int64_t panel)
{
    const struct k_stream step = format_stream(type, 0);
    int64_t per_step = step.inputs, steps = linear_ceil_div(a->w.k, per_step);
    const char *in = (const char *)a->w.data + panel * steps * step.bytes;
    for (int64_t s = 0; s < steps; s += STEPS)
        for (int64_t part = 0; part < K_NR; part += VF) {
            const char *at = in + s * step.bytes + part * (step.bytes / K_NR);
            int64_t o = panel * K_NR + part, i = s * per_step;
            float *dst = a->dst + o * a->ld_dst + i;
            if (a->w.n - o >= VF && a->w.k - i >= STEPS * per_step)
                unpack_tile(type, at, STEPS, dst, a->ld_dst, VF, STEPS * per_step);
            else
                unpack_tile(type, at, steps - s, dst, a->ld_dst, a->w.n - o, a->w.k - i);
        }
}

void weight_unpack_avx2(const void *args, const struct k_slice *s)
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
