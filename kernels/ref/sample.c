/* SPDX-License-Identifier: Apache-2.0
 *
 * A token of a row by its draw, as a definition: entries have a rank, the best the lowest and no
 * two the same; each cut, and the draw, is the lowest rank up to which the row's entries come to so
 * and so much. It is found by bisection, a sum over the row for each step, so no room is needed.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

/* ---- edits --------------------------------------------------------------------------------- */

static float clamped(double x)
{
    return (float)fmin(fmax(x, -(double)FLT_MAX), (double)FLT_MAX);
}

static float penalised(const struct k_edit_row *h, float logit, float n_answer)
{
    double x = (double)logit;
    x = x > 0 ? x / h->repetition : x * h->repetition;
    x -= h->frequency * (double)n_answer;
    return clamped(x - (n_answer > 0 ? h->presence : 0));
}

static void edit_row(const struct k_logit_edit *a, const struct k_edit_row *h)
{
    const struct k_edit *seen = a->edit + h->at, *bias = seen + h->n_seen, *ban = bias + h->n_bias;
    float *x = a->logits + h->row * a->ld;
    for (int32_t i = 0; i < h->n_seen; i++)
        x[seen[i].id] = penalised(h, x[seen[i].id], seen[i].by);
    for (int32_t i = 0; i < h->n_bias; i++)
        x[bias[i].id] = clamped((double)x[bias[i].id] + (double)bias[i].by);
    for (int32_t i = 0; i < h->n_ban; i++)
        if (ban[i].id >= 0 && ban[i].id < a->n)
            x[ban[i].id] = -INFINITY;
}

void logit_edit_ref(const void *args, const struct k_slice *s)
{
    const struct k_logit_edit *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        edit_row(a, &a->how[i]);
}

/* ---- the draw ------------------------------------------------------------------------------ */

struct row {
    const float *x;
    int64_t n, best;
    const struct k_sample_how *how;
};

/* Numbers over the temperature, the largest at 0; as they are where it is 1: only differences
 * count. */
static float value(const struct row *r, int64_t j)
{
    float max = r->x[r->best];
    if (!(r->how->scale < 1) && !(r->how->scale > 1))
        return r->x[j];
    return r->x[j] == max ? 0 : (r->x[j] - max) * r->how->scale;
}

static double weight(const struct row *r, int64_t j)
{
    float v = value(r, j), top = value(r, r->best);
    return v == top ? 1 : exp((double)v - (double)top);
}

/* Falls as the number rises, then rises with the id. NaN and -infinity have none. */
static uint64_t rank(const struct row *r, int64_t j)
{
    float v = value(r, j) + 0.0f; /* there is one zero */
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    u = u & 0x80000000u ? u : ~u & 0x7fffffffu;
    return (uint64_t)u << 32 | (uint64_t)j;
}

/* Of the entries up to `last`: how many, or what those that weigh at least so much come to. */
static double amount(const struct row *r, uint64_t last, bool counts, double least)
{
    double sum = 0;
    for (int64_t j = 0; j < r->n; j++) {
        if (!(value(r, j) > -INFINITY) || rank(r, j) > last)
            continue;
        double w = weight(r, j);
        sum += counts ? 1 : w >= least || j == r->best ? w : 0;
    }
    return sum;
}

/* The lowest rank up to which they come to `need`, or where is_over to more. */
static uint64_t reach(const struct row *r, double need, bool is_over, bool counts, double least)
{
    uint64_t lo = 0, hi = UINT64_MAX;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        double a = amount(r, mid, counts, least);
        if (a > need || (!is_over && a > 0 && a >= need))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* u of a sum, which is always below it. */
static double share(double u, double sum)
{
    return fmin(u * sum, sum * (1 - 0x1p-52));
}

static int32_t draw_of_all(const struct row *r)
{
    double left = share(r->how->u, amount(r, UINT64_MAX, false, 0));
    int64_t last = r->best;
    for (int64_t j = 0; j < r->n && left >= 0; j++) {
        double w = value(r, j) > -INFINITY ? weight(r, j) : 0;
        left -= w;
        last = w > 0 ? j : last;
    }
    return (int32_t)last;
}

static int32_t draw(const struct row *r)
{
    const struct k_sample_how *h = r->how;
    uint64_t last = UINT64_MAX, at;
    double least = h->min_p;
    if (h->top_k == 0 && h->top_p >= 1 && h->min_p <= 0)
        return draw_of_all(r);
    if (h->top_k > 0)
        last = reach(r, h->top_k, false, true, 0);
    if (h->top_p < 1) {
        at = reach(r, (double)h->top_p * amount(r, last, false, 0), false, false, 0);
        last = at < last ? at : last;
    }
    at = reach(r, share(h->u, amount(r, last, false, least)), true, false, least);
    return (int32_t)(uint32_t)at;
}

static int32_t sample_row(const struct k_sample *a, int64_t row)
{
    struct row r = {.x = a->logits + row * a->ld, .n = a->n, .best = -1, .how = &a->how[row]};
    bool is_known = a->best && !r.how->is_edited;
    if (is_known)
        r.best = a->best[row].id;
    for (int64_t j = 0; j < a->n && !is_known; j++)
        if (r.x[j] > (r.best < 0 ? -INFINITY : r.x[r.best]))
            r.best = j;
    return r.best < 0 || r.how->scale <= 0 ? (int32_t)r.best : draw(&r);
}

void sample_ref(const void *args, const struct k_slice *s)
{
    const struct k_sample *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        a->id[i] = sample_row(a, i);
}

/* ---- what goes with it --------------------------------------------------------------------- */

void pick_ref(const void *args, const struct k_slice *s)
{
    const struct k_pick *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        for (int64_t j = 0; j < a->n_id; j++) {
            int64_t id = a->id[i * a->n_id + j];
            a->y[i * a->n_id + j] = id >= 0 && id < a->n ? a->x[i * a->ld + id] : 0;
        }
}

void token_feed_ref(const void *args, const struct k_slice *s)
{
    const struct k_token_feed *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        if (a->from[i] >= 0)
            a->token[i] = a->id[a->from[i]] > 0 ? a->id[a->from[i]] : 0;
}
