/* SPDX-License-Identifier: Apache-2.0
 *
 * In f64, each sum in the order of the rows, so that neither the cut into micro-batches nor ranks
 * are seen.
 */
#include "engine/train/vector_loss.h"

#include <math.h>

#include "engine/base/mem.h"

static const double NORM_LEAST = 1e-12; /* PyTorch's, of a vector of zeros */

bool vector_loss_is_joint(const struct train_vectors *o)
{
    return o->loss == TRAIN_CONTRAST;
}

/* ---- contrast ------------------------------------------------------------------------------ */

struct contrast {
    int64_t n, n_each, d, n_other; /* examples; candidates */
    double *unit, *length;         /* [n_row, d], [n_row] */
    double *score, *slope;         /* [n_other] of the anchor at hand; [n_row, d] of unit */
};

static double dot(const double *a, const double *b, int64_t d)
{
    double sum = 0;
    for (int64_t k = 0; k < d; k++)
        sum += a[k] * b[k];
    return sum;
}

/* The row of candidate j: the positives first. */
static int64_t candidate(const struct contrast *c, int64_t j)
{
    return j % c->n * c->n_each + 1 + j / c->n;
}

static void normalise(struct contrast *c, const float *vector)
{
    for (int64_t i = 0; i < c->n * c->n_each; i++) {
        double *u = c->unit + i * c->d;
        for (int64_t k = 0; k < c->d; k++)
            u[k] = (double)vector[i * c->d + k];
        c->length[i] = fmax(sqrt(dot(u, u, c->d)), NORM_LEAST);
        for (int64_t k = 0; k < c->d; k++)
            u[k] /= c->length[i];
    }
}

/* Scores of anchor i, their softmax in place of them, and what that is worth. */
static struct vector_told score_of(const struct contrast *c, double scale, int64_t i)
{
    double most = -INFINITY, sum = 0, *s = c->score;
    int64_t best = 0;
    for (int64_t j = 0; j < c->n_other; j++) {
        s[j] = scale * dot(c->unit + i * c->n_each * c->d, c->unit + candidate(c, j) * c->d, c->d);
        if (s[j] > most)
            most = s[j], best = j;
    }
    for (int64_t j = 0; j < c->n_other; j++)
        sum += exp(s[j] - most);
    double all = most + log(sum), own = s[i];
    for (int64_t j = 0; j < c->n_other; j++)
        s[j] = exp(s[j] - all);
    return (struct vector_told){.loss = all - own, .right = best == i};
}

static void add_slopes(const struct contrast *c, double scale, int64_t i)
{
    int64_t d = c->d, a = i * c->n_each;
    for (int64_t j = 0; j < c->n_other; j++) {
        double by = (c->score[j] - (j == i)) * scale / (double)c->n;
        int64_t r = candidate(c, j);
        for (int64_t k = 0; k < d; k++) {
            c->slope[a * d + k] += by * c->unit[r * d + k];
            c->slope[r * d + k] += by * c->unit[a * d + k];
        }
    }
}

/* From slopes of unit vectors to those of the vectors. */
static void unroll(const struct contrast *c, float *grad)
{
    for (int64_t i = 0; i < c->n * c->n_each; i++) {
        const double *u = c->unit + i * c->d, *s = c->slope + i * c->d;
        double along = dot(u, s, c->d);
        for (int64_t k = 0; k < c->d; k++)
            grad[i * c->d + k] = (float)((s[k] - along * u[k]) / c->length[i]);
    }
}

static int contrast(const struct train_vectors *o, int64_t n_row, const float *vector, int64_t d,
                    float *grad, struct vector_told *told, struct err *e)
{
    static const char what[] = "a step's vectors";
    struct contrast c = {.n = n_row / o->n_each, .n_each = o->n_each, .d = d};
    c.n_other = c.n * (c.n_each - 1);
    c.unit = try_alloc((size_t)(n_row * d), sizeof *c.unit, what, e);
    c.length = try_alloc((size_t)n_row, sizeof *c.length, what, e);
    c.score = try_alloc((size_t)c.n_other, sizeof *c.score, what, e);
    c.slope = try_alloc((size_t)(n_row * d), sizeof *c.slope, what, e);
    int rc = c.unit && c.length && c.score && c.slope ? 0 : -1;
    for (int64_t i = 0; !rc && i < n_row * d; i++)
        c.slope[i] = 0;
    if (!rc)
        normalise(&c, vector);
    for (int64_t i = 0; !rc && i < c.n; i++) {
        struct vector_told one = score_of(&c, o->scale, i);
        if (told)
            told[i] = one;
        if (grad)
            add_slopes(&c, o->scale, i);
    }
    if (!rc && grad)
        unroll(&c, grad);
    mem_free(c.unit);
    mem_free(c.length);
    mem_free(c.score);
    mem_free(c.slope);
    return rc;
}

/* ---- labels -------------------------------------------------------------------------------- */

/* x: an example's numbers; each fills their slopes before the mean over examples. */
static struct vector_told classes(const float *x, const float *target, int64_t d, double *slope)
{
    double most = -INFINITY, sum = 0;
    int64_t best = 0, own = 0;
    for (int64_t k = 0; k < d; k++) {
        if ((double)x[k] > most)
            most = (double)x[k], best = k;
        own = target[k] > 0 ? k : own;
    }
    for (int64_t k = 0; k < d; k++)
        sum += exp((double)x[k] - most);
    double all = most + log(sum);
    for (int64_t k = 0; k < d; k++)
        slope[k] = exp((double)x[k] - all) - (k == own);
    return (struct vector_told){.loss = all - (double)x[own], .right = best == own};
}

static struct vector_told sigmoids(const float *x, const float *target, int64_t d, double *slope)
{
    struct vector_told t = {.loss = 0};
    for (int64_t k = 0; k < d; k++) {
        double v = (double)x[k], y = (double)target[k], tail = exp(-fabs(v));
        t.loss += (fmax(v, 0) - v * y + log1p(tail)) / (double)d;
        t.right += ((v > 0) == (y > 0.5)) / (double)d;
        slope[k] = ((v >= 0 ? 1 / (1 + tail) : tail / (1 + tail)) - y) / (double)d;
    }
    return t;
}

static struct vector_told squares(const float *x, const float *target, int64_t d, double *slope)
{
    struct vector_told t = {.loss = 0};
    for (int64_t k = 0; k < d; k++) {
        double apart = (double)x[k] - (double)target[k];
        t.loss += apart * apart / (double)d;
        t.right += (fabs(apart) < 0.5) / (double)d;
        slope[k] = 2 * apart / (double)d;
    }
    return t;
}

static int labels(const struct train_vectors *o, const struct train_row *row, int64_t n,
                  int64_t n_mean, const float *vector, int64_t d, float *grad,
                  struct vector_told *told, struct err *e)
{
    double *slope = try_alloc((size_t)d, sizeof *slope, "labels' numbers", e);
    if (!slope)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        const float *x = vector + i * d;
        struct vector_told one = o->loss == TRAIN_CLASSES    ? classes(x, row[i].target, d, slope)
                                 : o->loss == TRAIN_SIGMOIDS ? sigmoids(x, row[i].target, d, slope)
                                                             : squares(x, row[i].target, d, slope);
        if (told)
            told[i] = one;
        for (int64_t k = 0; grad && k < d; k++)
            grad[i * d + k] = (float)(slope[k] / (double)n_mean);
    }
    mem_free(slope);
    return 0;
}

int vector_loss(const struct train_vectors *o, const struct train_row *row, int64_t n_row,
                int64_t n_mean, const float *vector, int64_t d, float *grad,
                struct vector_told *told, struct err *e)
{
    ASSERT(train_has_vectors(o) && n_row % o->n_each == 0);
    ASSERT(!vector_loss_is_joint(o) || n_mean == n_row / o->n_each);
    return o->loss == TRAIN_CONTRAST ? contrast(o, n_row, vector, d, grad, told, e)
                                     : labels(o, row, n_row, n_mean, vector, d, grad, told, e);
}

int vector_sum(const struct train_vectors *o, const struct train_row *row, int64_t n_row,
               const struct vector_told *told, struct train_result *out, struct err *e)
{
    for (int64_t i = 0; i < n_row; i++) {
        const struct train_row *r = &row[i];
        const struct vector_told *x = &told[i / o->n_each];
        bool is_first = i % o->n_each == 0;
        for (int64_t k = 0; r->logprob && k < r->n; k++)
            r->logprob[k] = r->label[k] >= 0 && is_first ? (float)-x->loss : 0;
        out->n_tok += r->n;
        out->n_label++;
        out->loss += is_first ? x->loss : 0;
        out->accuracy += is_first ? x->right : 0;
    }
    out->loss /= out->weight;
    out->accuracy /= out->weight;
    return isfinite(out->loss) ? 0 : err_set(e, ERR_DIVERGED, "the loss is not finite");
}
