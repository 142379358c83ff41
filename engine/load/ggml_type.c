/* SPDX-License-Identifier: Apache-2.0
 *
 * See ggml_type.h. A block's scales come first to f32, then a scale of scales times its integer,
 * then that times the number's integer, and last the offset: each step rounds once, in this order.
 * Files are little-endian, and so is every machine that this is built for.
 */
#include "engine/load/ggml_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/coded.h"
#include "kernels/float16.h"

static float half_at(const uint8_t *p)
{
    return f16_to_f32((k_f16)(p[0] | p[1] << 8));
}

/* ---- blocks of 32: the first half in the low nibbles, the second in the high ones -------------
 */

static int nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

static int fifth_bit(const uint8_t *high, int i)
{
    return (high[i / 8] >> i % 8 & 1) << 4;
}

static void q4_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(nibble(b + 2, i) - 8);
}

static void q4_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)nibble(b + 4, i) + m;
}

static int q5_0_code(const uint8_t *b, int i)
{
    return (nibble(b + 6, i) | fifth_bit(b + 2, i)) - 16;
}

static void q5_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)q5_0_code(b, i);
}

static void q5_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(nibble(b + 8, i) | fifth_bit(b + 4, i)) + m;
}

static void q8_0(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

static const int8_t curve[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

static void iq4_nl(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)curve[nibble(b + 2, i)];
}

/* A scale and five bits, or a place on the curve, are the scale and eight bits of int8g. */
static void q5_0_recode(const uint8_t *b, uint8_t *out)
{
    memcpy(out, b, CODED_SCALE_BYTES);
    for (int i = 0; i < 32; i++)
        out[CODED_SCALE_BYTES + i] = (uint8_t)q5_0_code(b, i);
}

static void iq4_nl_recode(const uint8_t *b, uint8_t *out)
{
    memcpy(out, b, CODED_SCALE_BYTES);
    for (int i = 0; i < 32; i++)
        out[CODED_SCALE_BYTES + i] = (uint8_t)curve[nibble(b + 2, i)];
}

static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Numbers are doubled, so the scale is half of 2^(e - 127). */
static void mxfp4(const uint8_t *b, float *out)
{
    uint32_t e = b[0];
    float d = f32_from_bits(e < 2 ? UINT32_C(0x200000) << e : (e - 1) << 23);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)doubled[nibble(b + 1, i)];
}

/* The same halves of powers of two as f16: of one that f16 has not no number comes, unless all are
 * zero. */
static void mxfp4_recode(const uint8_t *b, uint8_t *out)
{
    int power = b[0] - 128;
    uint8_t any = 0;
    for (int i = 0; i < 16; i++)
        any |= b[1 + i] & 0x77;
    memcpy(out + CODED_SCALE_BYTES, b + 1, 16);
    bool is_held = power >= -24 && power <= 15;
    k_f16 scale = is_held ? f16_from_f32(f32_from_bits((uint32_t)(power + 127) << 23))
                  : any   ? 0x7e00
                          : 0;
    memcpy(out, &scale, sizeof scale);
}

/* ---- blocks of 256 with scales of scales ------------------------------------------------------
 */

/* Number i of two-bit ones: 32 bytes hold four rows of 32. */
static int two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* Of four-bit ones: 32 bytes hold two rows of 32. */
static int four_bits(const uint8_t *q, int i)
{
    return q[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

static void q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b, *q = b + 16;
    float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)(scale[i / 16] & 15), ml = dmin * (float)(scale[i / 16] >> 4);
        out[i] = dl * (float)two_bits(q, i) - ml;
    }
}

/* Scale k of 16, six bits each: four in the first eight bytes, two in the last four. */
static int q3_scale(const uint8_t *s, int k)
{
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4, high = s[8 + k % 4] >> k / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

static int q3_k_code(const uint8_t *b, int i)
{
    int less = b[i % 32] >> i / 32 & 1 ? 0 : 4;
    return two_bits(b + 32, i) - less;
}

static void q3_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b + 96;
    float d = half_at(b + 108);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)q3_scale(scale, i / 16);
        out[i] = dl * (float)q3_k_code(b, i);
    }
}

/* Scale and minimum k of 8, six bits each, in twelve bytes. */
static int k_scale(const uint8_t *s, int k)
{
    return k < 4 ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 2 & 48);
}

static int k_min(const uint8_t *s, int k)
{
    return k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | (s[k] >> 2 & 48);
}

static void q4_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b + 4, *q = b + 16;
    float d = half_at(b), dmin = half_at(b + 2);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)k_scale(scale, i / 32), ml = dmin * (float)k_min(scale, i / 32);
        out[i] = dl * (float)four_bits(q, i) - ml;
    }
}

static int q5_k_code(const uint8_t *b, int i)
{
    return four_bits(b + 48, i) | (b[16 + i % 32] >> i / 32 & 1) << 4;
}

static void q5_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b + 4;
    float d = half_at(b), dmin = half_at(b + 2);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)k_scale(scale, i / 32), ml = dmin * (float)k_min(scale, i / 32);
        out[i] = dl * (float)q5_k_code(b, i) - ml;
    }
}

static int q6_k_code(const uint8_t *b, int i)
{
    int four = b[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
    return (four | two_bits(b + 128, i) << 4) - 32;
}

static void q6_k(const uint8_t *b, float *out)
{
    const uint8_t *scale = b + 192;
    float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)(int8_t)scale[i / 16];
        out[i] = dl * (float)q6_k_code(b, i);
    }
}

/* ---- the same as blocks of codes (kernels/coded.h), two of 128 inputs of each -----------------
 */

/* d, dmin, four scales and mins of a half. */
static void put_dense_head(const uint8_t *b, int half, uint8_t *out)
{
    memcpy(out, b, 4);
    for (int k = 0; k < 4; k++) {
        out[4 + k] = (uint8_t)k_scale(b + 4, half * 4 + k);
        out[8 + k] = (uint8_t)k_min(b + 4, half * 4 + k);
    }
}

static void q4_k_recode(const uint8_t *b, uint8_t *out)
{
    for (int half = 0; half < 2; half++, out += CODED_INT4K_BYTES) {
        put_dense_head(b, half, out);
        memcpy(out + CODED_INT4K_HEAD, b + 16 + half * 64, 64);
    }
}

static void q5_k_recode(const uint8_t *b, uint8_t *out)
{
    for (int half = 0; half < 2; half++, out += CODED_INT5K_BYTES) {
        put_dense_head(b, half, out);
        for (int i = 0; i < K_NESTED; i++)
            out[CODED_INT5K_HEAD + i] = (uint8_t)q5_k_code(b, half * K_NESTED + i);
    }
}

/* One without mins: d, sixteen scales, and codes from -32 to 31. */
static void put_without_mins(const uint8_t *d, const int8_t scale[16], const int8_t code[256],
                             uint8_t *out)
{
    for (int half = 0; half < 2; half++, out += CODED_INT6K_BYTES) {
        memcpy(out, d, 2);
        memcpy(out + 2, scale + half * 8, 8);
        for (int i = 0; i < K_NESTED; i++)
            out[CODED_INT6K_HEAD + i] = (uint8_t)(code[half * K_NESTED + i] + 32);
    }
}

static void q6_k_recode(const uint8_t *b, uint8_t *out)
{
    int8_t scale[16], code[256];
    memcpy(scale, b + 192, sizeof scale);
    for (int i = 0; i < 256; i++)
        code[i] = (int8_t)q6_k_code(b, i);
    put_without_mins(b + 208, scale, code, out);
}

static void q3_k_recode(const uint8_t *b, uint8_t *out)
{
    int8_t scale[16], code[256];
    for (int k = 0; k < 16; k++)
        scale[k] = (int8_t)q3_scale(b + 96, k);
    for (int i = 0; i < 256; i++)
        code[i] = (int8_t)q3_k_code(b, i);
    put_without_mins(b + 108, scale, code, out);
}

/* Scale k of 8, six bits each: four in the last four bytes before the codes, two before them. */
static int iq4_scale(const uint8_t *b, int k)
{
    int high = b[2] | b[3] << 8;
    return ((b[4 + k / 2] >> k % 2 * 4 & 15) | (high >> 2 * k & 3) << 4) - 32;
}

static void iq4_xs(const uint8_t *b, float *out)
{
    float d = half_at(b);
    for (int i = 0; i < 256; i++) {
        int k = i / 32;
        float dl = d * (float)iq4_scale(b, k);
        out[i] = dl * (float)curve[nibble(b + 8 + k * 16, i % 32)];
    }
}

/* ---- and as those of int8k: of each 32 inputs d, dmin, two scales and mins, and a byte a code
 * -----
 */

static void put_32(const uint8_t d[2], const uint8_t dmin[2], const uint8_t scale[2],
                   const uint8_t min[2], uint8_t *out)
{
    memcpy(out, d, 2);
    memcpy(out + 2, dmin, 2);
    memcpy(out + 4, scale, 2);
    memcpy(out + 6, min, 2);
}

/* A scale and an offset for 32: what is taken away is the offset with another sign. */
static void put_offset(const uint8_t *b, uint8_t *out)
{
    const uint8_t one[2] = {1, 1}, less[2] = {b[2], b[3] ^ 0x80};
    put_32(b, less, one, one, out);
}

static void q4_1_recode(const uint8_t *b, uint8_t *out)
{
    put_offset(b, out);
    for (int i = 0; i < 32; i++)
        out[CODED_INT8K_HEAD + i] = (uint8_t)nibble(b + 4, i);
}

static void q5_1_recode(const uint8_t *b, uint8_t *out)
{
    put_offset(b, out);
    for (int i = 0; i < 32; i++)
        out[CODED_INT8K_HEAD + i] = (uint8_t)(nibble(b + 8, i) | fifth_bit(b + 4, i));
}

static void q2_k_recode(const uint8_t *b, uint8_t *out)
{
    for (int k = 0; k < 8; k++, out += CODED_INT8K_BYTES) {
        const uint8_t *both = b + 2 * k;
        const uint8_t scale[2] = {both[0] & 15, both[1] & 15},
                      min[2] = {both[0] >> 4, both[1] >> 4};
        put_32(b + 80, b + 82, scale, min, out);
        for (int i = 0; i < 32; i++)
            out[CODED_INT8K_HEAD + i] = (uint8_t)two_bits(b + 16, 32 * k + i);
    }
}

static void iq4_xs_recode(const uint8_t *b, uint8_t *out)
{
    static const uint8_t none[2];
    for (int k = 0; k < 8; k++, out += CODED_INT8K_BYTES) {
        const uint8_t one = (uint8_t)iq4_scale(b, k), scale[2] = {one, one};
        put_32(b, none, scale, none, out);
        for (int i = 0; i < 32; i++)
            out[CODED_INT8K_HEAD + i] = (uint8_t)curve[nibble(b + 8 + k * 16, i)];
    }
}

/* ---- the kinds, by their number in files ------------------------------------------------------
 */

/* Those without a function beyond F32, F16 and BF16 are known by name alone, for errors. */
static const struct ggml_type type[] = {
    [0] = {"F32", 1, 4, ST_F32, NULL},
    [1] = {"F16", 1, 2, ST_F16, NULL},
    [2] = {"Q4_0", 32, 18, ST_F32, q4_0, K_INT4},
    [3] = {"Q4_1", 32, 20, ST_F32, q4_1, K_INT8K, q4_1_recode},
    [6] = {"Q5_0", 32, 22, ST_F32, q5_0, K_INT8G, q5_0_recode},
    [7] = {"Q5_1", 32, 24, ST_F32, q5_1, K_INT8K, q5_1_recode},
    [8] = {"Q8_0", 32, 34, ST_F32, q8_0, K_INT8G},
    [9] = {"Q8_1", 32, 40, ST_F32, NULL},
    [10] = {"Q2_K", 256, 84, ST_F32, q2_k, K_INT8K, q2_k_recode},
    [11] = {"Q3_K", 256, 110, ST_F32, q3_k, K_INT6K, q3_k_recode},
    [12] = {"Q4_K", 256, 144, ST_F32, q4_k, K_INT4K, q4_k_recode},
    [13] = {"Q5_K", 256, 176, ST_F32, q5_k, K_INT5K, q5_k_recode},
    [14] = {"Q6_K", 256, 210, ST_F32, q6_k, K_INT6K, q6_k_recode},
    [15] = {"Q8_K", 256, 292, ST_F32, NULL},
    [16] = {"IQ2_XXS", 256, 66, ST_F32, NULL},
    [17] = {"IQ2_XS", 256, 74, ST_F32, NULL},
    [18] = {"IQ3_XXS", 256, 98, ST_F32, NULL},
    [19] = {"IQ1_S", 256, 50, ST_F32, NULL},
    [20] = {"IQ4_NL", 32, 18, ST_F32, iq4_nl, K_INT8G, iq4_nl_recode},
    [21] = {"IQ3_S", 256, 110, ST_F32, NULL},
    [22] = {"IQ2_S", 256, 82, ST_F32, NULL},
    [23] = {"IQ4_XS", 256, 136, ST_F32, iq4_xs, K_INT8K, iq4_xs_recode},
    [24] = {"I8", 1, 1, ST_I8, NULL},
    [25] = {"I16", 1, 2, ST_I16, NULL},
    [26] = {"I32", 1, 4, ST_I32, NULL},
    [27] = {"I64", 1, 8, ST_I64, NULL},
    [28] = {"F64", 1, 8, ST_F64, NULL},
    [29] = {"IQ1_M", 256, 56, ST_F32, NULL},
    [30] = {"BF16", 1, 2, ST_BF16, NULL},
    [34] = {"TQ1_0", 256, 54, ST_F32, NULL},
    [35] = {"TQ2_0", 256, 66, ST_F32, NULL},
    [39] = {"MXFP4", 32, 17, ST_BF16, mxfp4, K_MXFP4, mxfp4_recode},
};

const struct ggml_type *ggml_type_get(uint32_t number)
{
    if (number >= sizeof type / sizeof *type || !type[number].name)
        return NULL;
    return &type[number];
}

bool ggml_type_is_read(const struct ggml_type *t)
{
    return t->unpack || t->dtype == ST_F16 || t->dtype == ST_BF16 || t == &type[0];
}
