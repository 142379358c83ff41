/* SPDX-License-Identifier: Apache-2.0
 *
 * See scores.h.
 */
#include "server/answer/scores.h"

#include <math.h>

static void softmax(const float *x, size_t n, double *out)
{
    double most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < n; i++)
        sum += out[i] = exp((double)x[i] - most);
    for (size_t i = 0; i < n; i++)
        out[i] /= sum;
}

void scores_show(enum config_scores how, const float *x, size_t n, double *out)
{
    if (how == SCORES_SOFTMAX) {
        softmax(x, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = how == SCORES_SIGMOID ? 1 / (1 + exp(-(double)x[i])) : (double)x[i];
}

double scores_alike(const float *x, const float *y, size_t n)
{
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}
