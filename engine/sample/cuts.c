/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions: top-n-sigma (Tang et al. 2024), dynamic temperature and XTC as llama.cpp has
 * them, locally typical sampling (Meister et al. 2022), mirostat 2 (Basu et al. 2021).
 */
#include "engine/sample/cuts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

void cut_sigma(float *row, int64_t n, double n_sigma)
{
    double sum = 0, square = 0, max = -INFINITY, n_finite = 0;
    for (int64_t i = 0; i < n; i++)
        if (row[i] > -INFINITY) {
            sum += (double)row[i];
            n_finite += 1;
            max = fmax(max, (double)row[i]);
        }
    for (int64_t i = 0; i < n; i++)
        if (row[i] > -INFINITY)
            square += ((double)row[i] - sum / n_finite) * ((double)row[i] - sum / n_finite);
    double least = max - n_sigma * sqrt(square / n_finite);
    for (int64_t i = 0; i < n; i++)
        if ((double)row[i] < least)
            row[i] = -INFINITY;
}

double cut_temperature(const float *row, int64_t n, double at, double range, double exponent)
{
    double max = -INFINITY, sum = 0, mean = 0, n_finite = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, (double)row[i]);
    for (int64_t i = 0; i < n; i++)
        if (row[i] > -INFINITY) {
            double e = exp((double)row[i] - max);
            sum += e;
            mean += e * ((double)row[i] - max);
            n_finite += 1;
        }
    double entropy = log(sum) - mean / sum, low = fmax(at - range, 0), high = at + range;
    double even = n_finite > 1 ? fmin(fmax(entropy / log(n_finite), 0), 1) : 0;
    return low + (high - low) * pow(even, exponent);
}

static double sum_of(const float *prob, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)prob[i];
    return sum;
}

/* [lo, hi) comes first. */
static int32_t keep(int32_t *id, float *prob, int32_t lo, int32_t hi)
{
    memmove(id, id + lo, (size_t)(hi - lo) * sizeof *id);
    memmove(prob, prob + lo, (size_t)(hi - lo) * sizeof *prob);
    return hi - lo;
}

/* Surprise rises along the candidates, so those nearest to any value stand side by side. */
int32_t cut_typical(int32_t *id, float *prob, int32_t n, double p)
{
    double sum = sum_of(prob, n), entropy = 0, have = 0;
    int32_t lo = 0, hi;
    for (int32_t i = 0; i < n; i++)
        if (prob[i] > 0)
            entropy -= (double)prob[i] / sum * log((double)prob[i] / sum);
    while (lo < n && -log((double)prob[lo] / sum) < entropy)
        lo++;
    for (hi = lo; hi == lo || (have < p * sum && (lo > 0 || hi < n));) {
        double below = lo > 0 ? entropy + log((double)prob[lo - 1] / sum) : INFINITY;
        double above = hi < n ? -log((double)prob[hi] / sum) - entropy : INFINITY;
        bool is_down = lo > 0 && (hi == n || below <= above); /* both may be without end */
        have += (double)(is_down ? prob[--lo] : prob[hi++]);
    }
    return keep(id, prob, lo, hi);
}

int32_t cut_tail(const float *prob, int32_t n, double p, double least)
{
    double sum = sum_of(prob, n), have = 0;
    int32_t left = 0;
    while (left < n && (left == 0 || have < p * sum))
        have += (double)prob[left++];
    while (left > 1 && (double)prob[left - 1] < least * (double)prob[0])
        left--;
    return left;
}

int32_t cut_top(int32_t *id, float *prob, int32_t n, double threshold)
{
    double sum = sum_of(prob, n);
    int32_t high = 0;
    while (high < n && (double)prob[high] >= threshold * sum)
        high++;
    return high > 1 ? keep(id, prob, high - 1, n) : n;
}

int32_t cut_surprise(const float *prob, int32_t n, double mu)
{
    double sum = sum_of(prob, n);
    int32_t left = 1;
    while (left < n && -log2((double)prob[left] / sum) <= mu)
        left++;
    return left < n ? left : n;
}

double cut_bits(const float *prob, int32_t n, int64_t at)
{
    return -log2((double)prob[at] / sum_of(prob, n));
}
