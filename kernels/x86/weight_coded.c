/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain C: a group of a panel is a kilobyte that moves by pairs of inputs, which are whole bytes of
 * the source, so that the compiler's vectors make them and what is left is as fast as the file is.
 */
#include "kernels/x86/weight_coded.h"

#include <string.h>

#include "kernels/x86/block.h"

enum { HALF = K_NR / 2, PAIR = 2 };

/* Blocks of zeros, for outputs that are not there. */
static const uint8_t wide_none[CODED_WIDE_BYTES];
static const uint8_t mxfp4_none[CODED_INT4_BYTES];
static const uint8_t nf4_none[CODED_NF4_BYTES] = {
    0,    0,    0,    0,    0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77,
    0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77,
    0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77};
static const uint8_t int8g_none[CODED_INT8G_BYTES];
static const uint8_t int4_none[CODED_INT4_BYTES] = {0,    0,    0x88, 0x88, 0x88, 0x88,
                                                    0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                                                    0x88, 0x88, 0x88, 0x88, 0x88, 0x88};

/* Outputs o and o + 16 share bytes, the first in the low nibbles. */
static void int4_pairs(const uint8_t *lower, const uint8_t *upper, uint8_t *to)
{
    uint8_t first[CODED_INPUTS];
    lower += CODED_SCALE_BYTES;
    upper += CODED_SCALE_BYTES;
    for (int i = 0; i < CODED_INPUTS / 2; i++) {
        first[i] = (uint8_t)((lower[i] & 15) | upper[i] << 4);
        first[i + CODED_INPUTS / 2] = (uint8_t)(lower[i] >> 4 | (upper[i] & 0xf0));
    }
    for (int s = 0; s < CODED_INPUTS / PAIR; s++)
        memcpy(to + s * TILE_INT4_STEP_BYTES, first + s * PAIR, PAIR);
}

static void int4_group(const uint8_t *const block[K_NR], uint8_t *to)
{
    for (int o = 0; o < HALF; o++)
        int4_pairs(block[o], block[o + HALF], to + o * PAIR);
}

/* A group of nf4. */
static void nf4_group(const uint8_t *const block[K_NR], uint8_t *to)
{
    for (int64_t i = 0; i < K_NF4_GROUP; i++, to += HALF)
        for (int o = 0; o < HALF; o++)
            to[o] = (uint8_t)(coded_nf4_nibble(block[o], i) | coded_nf4_nibble(block[o + HALF], i)
                                                                  << 4);
}

static void nf4_panel(const struct k_weight_pack *a, int64_t panel)
{
    int64_t at = a->panel_lo + panel, groups = linear_groups(K_NF4, a->w.k);
    uint8_t *to = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(K_NF4, a->w.k);
    float *scale = (float *)a->w.scale + at * groups * K_NR;
    for (int64_t g = 0; g < groups; g++, scale += K_NR, to += K_NF4_GROUP * HALF) {
        const uint8_t *block[K_NR];
        for (int64_t o = 0; o < K_NR; o++) {
            bool is_here = panel * K_NR + o < a->n_src;
            block[o] = is_here ? coded_block(a, panel * K_NR + o, g * K_NF4_GROUP) : nf4_none;
            scale[o] = coded_wide_scale(block[o]);
        }
        nf4_group(block, to);
    }
}

/* Sign and magnitude, in the order that linear_int8_at gives. */
static void int8g_group(const uint8_t *const block[K_NR], uint8_t *to)
{
    for (int64_t o = 0; o < K_NR; o++) {
        const uint8_t *code = block[o] + CODED_SCALE_BYTES;
        uint8_t all[CODED_INPUTS];
        for (int i = 0; i < CODED_INPUTS; i++) {
            int8_t v = (int8_t)code[i];
            all[i] = (uint8_t)((v < 0 ? -v : v) | (v & 0x80));
        }
        for (int s = 0; s < CODED_INPUTS / PAIR; s++)
            memcpy(to + linear_int8_at(o, s * PAIR), all + s * PAIR, PAIR);
    }
}

/* int8c, fp8: bytes in that order. */
static void wide_panel(const struct k_weight_pack *a, int64_t panel)
{
    int64_t at = a->panel_lo + panel, groups = linear_groups(a->w.type, a->w.k);
    uint8_t *to = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(a->w.type, a->w.k);
    float *scale = (float *)a->w.scale + at * groups * K_NR;
    for (int64_t g = 0; g < groups; g++, scale += K_NR, to += K_NESTED * K_NR) {
        for (int64_t o = 0; o < K_NR; o++) {
            bool is_here = panel * K_NR + o < a->n_src;
            const uint8_t *block =
                is_here ? coded_block(a, panel * K_NR + o, g * K_NESTED) : wide_none;
            uint8_t all[K_NESTED];
            scale[o] = coded_wide_scale(block);
            for (int i = 0; i < K_NESTED; i++)
                all[i] = coded_wide_stored(a->w.type, block, i);
            for (int s = 0; s < K_NESTED / PAIR; s++)
                memcpy(to + linear_int8_at(o, s * PAIR), all + s * PAIR, PAIR);
        }
    }
}

static void nested_panel(const struct k_weight_pack *a, int64_t panel)
{
    for (int64_t b = 0; b < a->w.k / K_NESTED; b++)
        for (int64_t lane = 0; lane < NESTED_LANES; lane++)
            nested_pack(a, panel, b, lane);
}

void weight_coded_panel(const struct k_weight_pack *a, int64_t panel)
{
    if (format_is_nested(a->w.type)) {
        nested_panel(a, panel);
        return;
    }
    if (coded_is_wide(a->w.type)) {
        wide_panel(a, panel);
        return;
    }
    if (a->w.type == K_NF4) {
        nf4_panel(a, panel);
        return;
    }
    const bool is_four = coded_is_four(a->w.type);
    const uint8_t *none = a->w.type == K_INT4    ? int4_none
                          : a->w.type == K_MXFP4 ? mxfp4_none
                                                 : int8g_none;
    int64_t at = a->panel_lo + panel, groups = linear_groups(a->w.type, a->w.k);
    uint8_t *code = (uint8_t *)a->w.data + (size_t)at * linear_panel_bytes(a->w.type, a->w.k);
    k_f16 *scale = (k_f16 *)a->w.scale + at * groups * K_NR;
    for (int64_t g = 0; g < groups; g++, scale += K_NR) {
        const uint8_t *block[K_NR];
        for (int64_t o = 0; o < K_NR; o++) {
            bool is_here = panel * K_NR + o < a->n_src;
            block[o] = is_here ? coded_block(a, panel * K_NR + o, g * CODED_INPUTS) : none;
            scale[o] = coded_scale(block[o]);
        }
        (is_four ? int4_group : int8g_group)(block, code);
        code += CODED_INPUTS / PAIR * format_stream(a->w.type, 0).bytes;
    }
}
