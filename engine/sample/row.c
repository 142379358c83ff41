/* SPDX-License-Identifier: Apache-2.0
 *
 * In runs of a constant length, which compilers turn into vectors; and in blocks, so that the place
 * of what was found is looked for in one block only.
 */
#include "engine/sample/row.h"

#include <string.h>

enum { LANES = 16, BLOCK = 1024 };

typedef float row_lanes __attribute__((vector_size(LANES * sizeof(float))));

void row_scale(const float *x, float *y, int64_t n, float max, float scale)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        row_lanes v; /* read whole before it is written: y may be x */
        memcpy(&v, x + i, sizeof v);
        v = (v - max) * scale;
        memcpy(y + i, &v, sizeof v);
    }
    for (; i < n; i++)
        y[i] = (x[i] - max) * scale;
}

static double block_sum(const float *x, int64_t n)
{
    double sum[8] = {0}, all = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            sum[l] += (double)x[i + l];
    for (int l = 0; i < n; i++, l++)
        sum[l] += (double)x[i];
    for (int l = 0; l < 8; l++)
        all += sum[l];
    return all;
}

static double total(const float *weight, int64_t n)
{
    double sum = 0;
    for (int64_t lo = 0; lo < n; lo += BLOCK)
        sum += block_sum(weight + lo, n - lo < BLOCK ? n - lo : BLOCK);
    return sum;
}

/* The entry of a block at which `left` is passed. Where the sum of the block and of its entries one
 * by one round apart: its last with weight. */
static int64_t draw_in(const float *weight, int64_t n, double left)
{
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(weight[i] > 0))
            continue;
        last = i;
        left -= (double)weight[i];
        if (left < 0)
            break;
    }
    return last;
}

int64_t row_draw(const float *weight, int64_t n, double u)
{
    double left = u * total(weight, n);
    int64_t last = 0; /* block with weight */
    for (int64_t lo = 0; lo < n; lo += BLOCK) {
        double sum = block_sum(weight + lo, n - lo < BLOCK ? n - lo : BLOCK);
        if (sum > 0)
            last = lo;
        if (left < sum)
            break;
        left -= sum;
    }
    return last + draw_in(weight + last, n - last < BLOCK ? n - last : BLOCK, left);
}
