/* SPDX-License-Identifier: Apache-2.0
 *
 * See group.h. Where a code's range reaches further below zero than above (int4), the number that
 * is furthest from zero takes the longer side, whatever its sign: scales may be negative.
 */
#include "engine/quant/group.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/float16.h"

enum { REACHES = 9 };

static const struct quant_target target[] = {
    {"int4", 4, -8, 7, false}, {"int8", 8, -127, 127, false}, {"fp8", 8, -448, 448, true}};
const char quant_target_choices[] = "int4|int8|fp8";

/* e4m3: bits of its mantissa, those that f32 has beside them, and what its exponents are less. */
enum { E4M3_BITS = 3, E4M3_REST = 23 - E4M3_BITS, E4M3_LESS = 127 - 7 };

static const float E4M3_NORMAL = 0x1p-6f, E4M3_STEP = 0x1p-9f; /* the least with a leading 1 */

/* What the furthest number is divided by, as a part of the longer side. */
static const float reach[REACHES] = {1,      0.9375f, 0.875f,   0.8125f, 1.0625f,
                                     1.125f, -0.875f, -0.9375f, -0.8125f};

static const float SCALE_MOST = 65280; /* that bf16 and f16 hold */

const struct quant_target *quant_target_find(const char *name)
{
    for (size_t i = 0; i < sizeof target / sizeof *target; i++)
        if (strcmp(name, target[i].name) == 0)
            return &target[i];
    return NULL;
}

/* To the nearest whole number, ties to even, of |x| < 2^22. */
static float nearest(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* To the nearest that codes count, of what lies between the least and the largest. */
static float counted(const struct quant_target *t, float x)
{
    if (!t->is_float)
        return nearest(x);
    if (fabsf(x) < E4M3_NORMAL)
        return nearest(x / E4M3_STEP) * E4M3_STEP;
    uint32_t u = bits_of(x), half = (1u << (E4M3_REST - 1)) - 1;
    u = (u + half + (u >> E4M3_REST & 1)) >> E4M3_REST << E4M3_REST;
    memcpy(&x, &u, sizeof x);
    return x;
}

static float held(const struct quant_target *t, float x)
{
    float lo = (float)t->lo, hi = (float)t->hi;
    return x < lo ? lo : x > hi ? hi : x;
}

int quant_code(const struct quant_target *t, float x, float scale)
{
    float q = scale == 0 ? 0 : counted(t, held(t, x / scale));
    if (!t->is_float)
        return (int)q;
    float size = fabsf(q);
    int code = size < E4M3_NORMAL ? (int)(size / E4M3_STEP)
                                  : (int)(bits_of(size) >> E4M3_REST) - (E4M3_LESS << E4M3_BITS);
    return q < 0 ? code - 128 : code;
}

float quant_value(const struct quant_target *t, int code)
{
    return t->is_float ? coded_wide_value(K_FP8, code) : (float)code;
}

static float stored(enum k_type type, float s)
{
    if (type == K_F32)
        return s;
    s = s > SCALE_MOST ? SCALE_MOST : s < -SCALE_MOST ? -SCALE_MOST : s;
    if (type == K_BF16)
        s = bf16_to_f32(bf16_from_f32(s));
    return f16_to_f32(f16_from_f32(s));
}

struct trial {
    float scale, error;
    float best; /* the scale of least squares for the codes that this one gave */
};

static struct trial try_scale(const struct quant_target *t, enum k_type type, const float *x,
                              const float *weight, int64_t n, float scale)
{
    struct trial r = {.scale = stored(type, scale)};
    float inverse = r.scale == 0 ? 0 : 1 / r.scale, xq = 0, qq = 0;
    for (int64_t i = 0; i < n; i++) {
        float w = weight ? weight[i] : 1, q = counted(t, held(t, x[i] * inverse));
        float e = x[i] - r.scale * q;
        r.error += w * e * e;
        xq += w * x[i] * q;
        qq += w * q * q;
    }
    r.best = qq > 0 ? xq / qq : r.scale;
    return r;
}

float quant_scale(const struct quant_target *t, enum k_type type, const float *x,
                  const float *weight, int64_t n)
{
    float most = 0;
    struct trial good = {.error = INFINITY};
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    if (most == 0)
        return 0;
    for (int i = 0; i < REACHES; i++) {
        if (t->is_float && reach[i] < 0)
            continue;
        float side = t->is_float ? copysignf((float)t->hi, most) : (float)t->lo;
        struct trial r = try_scale(t, type, x, weight, n, most / (reach[i] * side));
        good = r.error < good.error ? r : good;
        r = try_scale(t, type, x, weight, n, r.best);
        good = r.error < good.error ? r : good;
    }
    return good.scale;
}

void quant_pack(const struct quant_target *t, const int8_t *code, int64_t n, uint32_t *word)
{
    int per_word = QUANT_WORD_BITS / t->bits, mask = (1 << t->bits) - 1;
    int zero = t->is_float ? 0 : 1 << (t->bits - 1);
    for (int64_t i = 0; i < n; i += per_word, word++) {
        *word = 0;
        for (int k = 0; k < per_word; k++)
            *word |= (uint32_t)((code[i + k] + zero) & mask) << k * t->bits;
    }
}
