/* SPDX-License-Identifier: Apache-2.0
 *
 * See matrix.h. Inputs are taken in their order. To take those first whose sums are largest, with
 * scales that are found before any feedback, made the divergence of a small real model 2% less and
 * its perplexity worse: not kept.
 */
#include "engine/quant/matrix.h"

#include <string.h>

static void round_rows(const struct quant_matrix *m, struct quant_rows *to)
{
    float *scale = to->scale;
    for (int64_t at = 0; at < to->n * m->k; at += m->group, scale++) {
        const float *x = to->x + at;
        *scale = quant_scale(m->target, m->scale_type, x, NULL, m->group);
        for (int64_t i = 0; i < m->group; i++) {
            int code = quant_code(m->target, x[i], *scale);
            double d = (double)x[i] - (double)*scale * (double)quant_value(m->target, code);
            to->code[at + i] = (int8_t)code;
            to->error += d * d;
        }
    }
}

/* Where an input's number would leave no error: it, and what the errors before want of it. */
static float aim(const struct quant_matrix *m, const struct quant_rows *to, int64_t row, int64_t i)
{
    return to->x[row * m->k + i] + to->behind[row * m->k + i] / m->r[i * m->k + i];
}

/* The scale of the group that begins at input i, by what its inputs aim at now. */
static float scale_at(const struct quant_matrix *m, struct quant_rows *to, int64_t row, int64_t i)
{
    for (int64_t c = 0; c < m->group; c++) {
        float r = m->r[(i + c) * m->k + i + c];
        to->aim[c] = aim(m, to, row, i + c);
        to->weight[c] = r * r;
    }
    return quant_scale(m->target, m->scale_type, to->aim, to->weight, m->group);
}

static void feed_back(const struct quant_matrix *m, struct quant_rows *to, int64_t row, int64_t i)
{
    const float *r = m->r + i * m->k;
    float *scale = to->scale + row * (m->k / m->group) + i / m->group;
    float *behind = to->behind + row * m->k;
    if (i % m->group == 0)
        *scale = scale_at(m, to, row, i);
    float want = aim(m, to, row, i);
    int code = quant_code(m->target, want, *scale);
    float value = *scale * quant_value(m->target, code), d = to->x[row * m->k + i] - value;
    double left = (double)(want - value) * (double)r[i];
    to->code[row * m->k + i] = (int8_t)code;
    to->error += left * left;
    for (int64_t c = i + 1; c < m->k; c++)
        behind[c] += d * r[c];
}

void quant_matrix_rows(const struct quant_matrix *m, struct quant_rows *rows)
{
    rows->error = 0;
    if (!m->r) {
        round_rows(m, rows);
        return;
    }
    memset(rows->behind, 0, (size_t)(rows->n * m->k) * sizeof *rows->behind);
    for (int64_t i = 0; i < m->k; i++)
        for (int64_t row = 0; row < rows->n; row++)
            feed_back(m, rows, row, i);
}
