/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: add, multiply, copy, fold, scale, convert, drop, noise. Each result is one
 * rounding (of a fold: roundings in a given order; of noise behind those of its size), so every
 * variant equals these bit for bit.
 */
#include <math.h>
#include <string.h>

#include "kernels/float16.h"
#include "kernels/philox.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

void add_ref(const void *args, const struct k_slice *s)
{
    const struct k_binary *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = a->a[i * a->ld_a + j] + a->b[i * a->ld_b + j];
    }
}

void mul_ref(const void *args, const struct k_slice *s)
{
    const struct k_binary *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = a->a[i * a->ld_a + j] * a->b[i * a->ld_b + j];
    }
}

void copy_ref(const void *args, const struct k_slice *s)
{
    const struct k_copy *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        if (a->x)
            memmove(a->y + i * a->ld_y, a->x + i * a->ld_x, (size_t)a->d * sizeof(float));
        else
            memset(a->y + i * a->ld_y, 0, (size_t)a->d * sizeof(float));
    }
}

/* Parts of a row: each stands at `apart` in the one, side by side in the other. */
static void regroup_row(const struct k_regroup *a, const float *x, float *y)
{
    int64_t run = 0, together = 0, first = 0;
    for (int32_t p = 0; p < a->n_part; p++)
        run += a->part[p];
    for (int32_t p = 0; p < a->n_part; p++) {
        for (int32_t h = 0; h < a->n_head; h++) {
            int64_t apart = h * run + first;
            memcpy(y + (a->inverse ? apart : together), x + (a->inverse ? together : apart),
                   (size_t)a->part[p] * sizeof *y);
            together += a->part[p];
        }
        first += a->part[p];
    }
}

void regroup_ref(const void *args, const struct k_slice *s)
{
    const struct k_regroup *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        regroup_row(a, a->x + i * a->ld_x, a->y + i * a->ld_y);
}

void reorder_ref(const void *args, const struct k_slice *s)
{
    const struct k_reorder *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float *y = a->y + i * a->ld_y;
        for (int64_t j = 0; j < a->d && !a->inverse; j++)
            y[j] = x[a->at[j]];
        for (int64_t j = 0; j < a->d && a->inverse; j++)
            y[a->at[j]] = x[j];
    }
}

void row_scale_ref(const void *args, const struct k_slice *s)
{
    const struct k_row_scale *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float by = a->scale[a->pos[i]];
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = by * a->x[i * a->ld_x + j];
    }
}

void heads_ref(const void *args, const struct k_slice *s)
{
    const struct k_heads *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float *y = a->y + i * a->ld_y;
        for (int32_t h = 0; h < a->n_head; h++, y += a->n + a->n_tail) {
            memcpy(y, a->x + i * a->ld_x + (int64_t)h * a->d_head + a->lo,
                   (size_t)a->n * sizeof *y);
            if (a->tail)
                memcpy(y + a->n, a->tail + i * a->ld_tail, (size_t)a->n_tail * sizeof *y);
            else
                memset(y + a->n, 0, (size_t)a->n_tail * sizeof *y);
        }
    }
}

/* dy of one row: the runs of heads go where they came from, the tails are summed. */
static void heads_row_bwd(const struct k_heads_bwd *a, const float *dy, float *dx, float *dtail)
{
    const struct k_heads *f = &a->fwd;
    int64_t d = f->n + f->n_tail;
    for (int64_t j = 0; dx && j < (int64_t)f->n_head * f->d_head; j++) {
        int64_t h = j / f->d_head, at = j % f->d_head - f->lo;
        float part = at >= 0 && at < f->n ? dy[h * d + at] : 0;
        dx[j] = a->add ? dx[j] + part : part;
    }
    for (int32_t j = 0; dtail && j < f->n_tail; j++) {
        float sum = 0;
        for (int32_t h = 0; h < f->n_head; h++)
            sum += dy[h * d + f->n + j];
        dtail[j] = a->add_tail ? dtail[j] + sum : sum;
    }
}

void heads_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_heads_bwd *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        heads_row_bwd(a, a->fwd.y + i * a->fwd.ld_y, a->dx ? a->dx + i * a->ld_dx : NULL,
                      a->dtail ? a->dtail + i * a->ld_dtail : NULL);
}

void fold_ref(const void *args, const struct k_slice *s)
{
    const struct k_fold *a = args;
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++) {
        float sum = a->x[i];
        for (int64_t r = 1; r < a->n_x; r++)
            sum += a->x[r * a->ld_x + i];
        a->y[i] = sum;
    }
}

void scale_ref(const void *args, const struct k_slice *s)
{
    const struct k_scale *a = args;
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++)
        a->y[i] = a->s * a->x[i];
}

static float number_get(const void *x, enum k_type type, int64_t i)
{
    switch (type) {
    case K_BF16:
        return bf16_to_f32(((const k_bf16 *)x)[i]);
    case K_F16:
        return f16_to_f32(((const k_f16 *)x)[i]);
    default:
        return ((const float *)x)[i];
    }
}

static void number_put(void *y, enum k_type type, int64_t i, float v)
{
    switch (type) {
    case K_BF16:
        ((k_bf16 *)y)[i] = bf16_from_f32(v);
        break;
    case K_F16:
        ((k_f16 *)y)[i] = f16_from_f32(v);
        break;
    default:
        ((float *)y)[i] = v;
    }
}

void cast_ref(const void *args, const struct k_slice *s)
{
    const struct k_cast *a = args;
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++)
        number_put(a->y, a->to, i, number_get(a->x, a->from, i));
}

struct block {
    uint32_t v[4];
};

static struct block philox(struct block c, uint64_t seed)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        uint64_t a = (uint64_t)PHILOX_A * c.v[0], b = (uint64_t)PHILOX_B * c.v[2];
        c = (struct block){{(uint32_t)(b >> 32) ^ c.v[1] ^ k0, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c.v[3] ^ k1, (uint32_t)a}};
        k0 += PHILOX_K0;
        k1 += PHILOX_K1;
    }
    return c;
}

static uint32_t draw_at(uint64_t seed, uint32_t site, uint64_t key, int64_t j)
{
    struct block c = {
        {(uint32_t)(j / 64 * 16 + j % 16), site, (uint32_t)key, (uint32_t)(key >> 32)}};
    return philox(c, seed).v[j % 64 / 16];
}

void dropout_ref(const void *args, const struct k_slice *s)
{
    const struct k_dropout *a = args;
    uint32_t threshold = philox_threshold(a->p);
    float scale = 1.0f / (1.0f - a->p);
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            uint32_t draw = draw_at(a->seed, a->site, a->row_key[i], j);
            a->y[i * a->ld_y + j] = draw < threshold ? 0.0f : a->x[i * a->ld_x + j] * scale;
        }
    }
}

void noise_ref(const void *args, const struct k_slice *s)
{
    const struct k_noise *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float r = a->alpha / sqrtf((float)(a->seq_len[a->seq_of[i]] * a->d));
        for (int64_t j = 0; j < a->d; j++) {
            uint32_t draw = draw_at(a->seed, a->site, a->row_key[i], j);
            float u = (float)(draw >> 8) * 0x1p-23f - 1.0f;
            a->y[i * a->ld_y + j] = fmaf(r, u, a->x[i * a->ld_x + j]);
        }
    }
}
