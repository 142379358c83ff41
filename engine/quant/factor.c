/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns are done from the last to the first, by blocks: the block's triangle, then its columns in
 * all rows above, then what those take from the columns that are still to come.
 */
#include "engine/quant/factor.h"

#include <math.h>

enum { BLOCK = 64, LANES = 8, TILE = 16 };

static const float DAMP = 0.01f; /* of the mean of the diagonal */

struct factor {
    float *h;
    int64_t k, lo, hi; /* columns of the block */
    bool failed;
};

static float dot(const float *a, const float *b, int64_t n)
{
    float part[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            part[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int j = 0; j < LANES; j++)
        sum += part[j];
    return sum;
}

static void do_triangle(struct factor *f)
{
    for (int64_t c = f->hi - 1; c >= f->lo; c--) {
        float *own = f->h + c * f->k;
        float d = own[c] - dot(own + c + 1, own + c + 1, f->hi - c - 1);
        if (!(d > 0)) {
            f->failed = true;
            return;
        }
        own[c] = sqrtf(d);
        for (int64_t r = f->lo; r < c; r++) {
            float *row = f->h + r * f->k;
            row[c] = (row[c] - dot(row + c + 1, own + c + 1, f->hi - c - 1)) / own[c];
        }
    }
}

/* The block's columns of rows above it, and what they take from the columns before it. */
static void do_rows(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct factor *f = ctx;
    (void)thread;
    int64_t last = hi * TILE < f->lo ? hi * TILE : f->lo;
    for (int64_t r = lo * TILE; r < last; r++) {
        float *row = f->h + r * f->k;
        for (int64_t c = f->hi - 1; c >= f->lo; c--) {
            const float *own = f->h + c * f->k;
            row[c] = (row[c] - dot(row + c + 1, own + c + 1, f->hi - c - 1)) / own[c];
        }
    }
}

static void update_rows(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct factor *f = ctx;
    (void)thread;
    for (int64_t first = lo * TILE; first < hi * TILE && first < f->lo; first += TILE)
        for (int64_t c = first; c < f->lo; c++) {
            const float *other = f->h + c * f->k + f->lo;
            for (int64_t r = first; r < first + TILE && r <= c; r++)
                f->h[r * f->k + c] -= dot(f->h + r * f->k + f->lo, other, f->hi - f->lo);
        }
}

static bool try_factor(float *h, int64_t k, struct pool *pool)
{
    struct factor f = {.h = h, .k = k, .hi = k};
    for (; f.hi > 0 && !f.failed; f.hi = f.lo) {
        f.lo = f.hi > BLOCK ? f.hi - BLOCK : 0;
        int64_t tiles = (f.lo + TILE - 1) / TILE;
        do_triangle(&f);
        if (f.failed)
            break;
        pool_run(pool, do_rows, &f, tiles, 1);
        pool_run(pool, update_rows, &f, tiles, 1);
    }
    return !f.failed;
}

/* The lower half keeps the sums while the upper one is tried on; the diagonal is kept apart by who
 * calls, in `diagonal`. */
static void restore(float *h, const float *diagonal, int64_t k, float add)
{
    for (int64_t r = 0; r < k; r++) {
        for (int64_t c = r + 1; c < k; c++)
            h[r * k + c] = h[c * k + r];
        h[r * k + r] = diagonal[r] + add;
    }
}

int quant_factor(float *h, float *diagonal, int64_t k, struct pool *pool)
{
    double mean = 0;
    for (int64_t i = 0; i < k; i++) {
        diagonal[i] = h[i * k + i];
        mean += (double)diagonal[i] / (double)k;
    }
    if (!(mean > 0) || mean > 1e30)
        return -1;
    for (float damp = DAMP; damp < 2; damp *= 10) {
        restore(h, diagonal, k, damp * (float)mean);
        if (try_factor(h, k, pool))
            return 0;
    }
    return -1;
}
