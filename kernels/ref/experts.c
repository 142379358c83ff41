/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts: who goes where, the products of those rows, and their gradients. Sums are in
 * f64 but for the products', which are the reference's own, and where each step is an addition in
 * memory.
 */
#include <math.h>

#include "kernels/experts_grid.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

static double row_sum(const float *x, int64_t n, float *max)
{
    double sum = 0;
    *max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        *max = x[j] > *max ? x[j] : *max;
    for (int64_t j = 0; j < n; j++)
        sum += exp((double)x[j] - (double)*max);
    return sum;
}

static bool is_among(const int32_t *list, int64_t n, int64_t j)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == j)
            return true;
    return false;
}

/* The largest entry that is not among the n picked ones. NaN is larger than nothing, but where
 * nothing else is left it is picked: an expert that there is. */
static int32_t largest_left(const float *x, int64_t n_x, const int32_t *picked, int64_t n)
{
    int32_t best = -1;
    for (int64_t j = 0; j < n_x; j++)
        if (!is_among(picked, n, j) && (best < 0 || x[j] > x[best]))
            best = (int32_t)j;
    return best;
}

/* Of a row's logits: their largest, and the sum of all exp(x - largest). */
struct row_of {
    const float *x;
    double all;
    float max;
};

static double score_of(const struct k_route *a, const struct row_of *r, int64_t j)
{
    double x = (double)r->x[j];
    return a->is_sigmoid ? 1 / (1 + exp(-x)) : exp(x - (double)r->max) / r->all;
}

/* What a group of n choices is measured by: its best, or its best two. */
static float group_score(const float *choice, int64_t n, int32_t n_best)
{
    float best = -INFINITY, next = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        float low = choice[j] > best ? best : choice[j];
        best = choice[j] > best ? choice[j] : best;
        next = low > next ? low : next;
    }
    return n_best == 2 && n > 1 ? best + next : best;
}

/* Nothing is picked of groups that are not among the best. */
static void close_groups(const struct k_route *a, float *choice)
{
    float score[K_ROUTE_GROUPS];
    int32_t open[K_ROUTE_GROUPS];
    int64_t n = a->n / a->n_group;
    for (int32_t g = 0; g < a->n_group; g++)
        score[g] = group_score(choice + g * n, n, a->group_best);
    for (int32_t i = 0; i < a->top_group; i++)
        open[i] = largest_left(score, a->n_group, open, i);
    for (int64_t j = 0; j < a->n; j++)
        if (!is_among(open, a->top_group, j / n))
            choice[j] = -INFINITY;
}

/* What experts are picked by: numbers in the order of score + bias. room: [n] */
static const float *choices(const struct k_route *a, const struct row_of *r, float *room)
{
    if (!a->bias && a->n_group < 2)
        return r->x;
    for (int64_t j = 0; j < a->n; j++)
        room[j] = (float)score_of(a, r, j) + (a->bias ? a->bias[j] : 0);
    if (a->n_group > 1)
        close_groups(a, room);
    return room;
}

void route_ref(const void *args, const struct k_slice *s)
{
    const struct k_route *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct row_of r = {.x = a->x + i * a->ld_x};
        int32_t *expert = a->map.expert + i * a->top;
        float *weight = a->map.weight + i * a->top;
        double sum = 0;
        r.all = row_sum(r.x, a->n, &r.max);
        const float *choice = choices(a, &r, s->scratch);
        for (int64_t j = 0; j < a->top; j++) {
            expert[j] = largest_left(choice, a->n, expert, j);
            weight[j] = (float)score_of(a, &r, expert[j]);
            sum += (double)weight[j];
        }
        for (int64_t j = 0; j < a->top && a->normalises; j++)
            weight[j] = (float)((double)weight[j] / (a->is_sigmoid ? sum + 1e-20 : sum));
        for (int64_t j = 0; j < a->top; j++)
            weight[j] *= a->scale;
        for (int64_t j = 0; j < a->top && a->each; j++) {
            a->map.share[i * a->top + j] = weight[j];
            weight[j] *= a->each[expert[j]];
        }
    }
}

/* Counts, their sums, and each pair in its turn. */
void route_sort_ref(const void *args, const struct k_slice *s)
{
    const struct k_route *a = args;
    int64_t n_pair = a->m * a->top;
    int32_t *start = a->map.start;
    if (s->lo >= s->hi)
        return;
    for (int64_t e = 0; e <= a->n; e++)
        start[e] = 0;
    for (int64_t i = 0; i < n_pair; i++)
        start[a->map.expert[i]]++;
    for (int64_t e = 0, at = 0; e <= a->n; e++) { /* to where the first of each goes */
        int32_t n = start[e];
        start[e] = (int32_t)at;
        at += n;
    }
    for (int64_t i = 0; i < n_pair; i++) {
        int32_t at = start[a->map.expert[i]]++;
        a->map.place[i] = at;
        a->map.from[at] = (int32_t)i;
    }
    for (int64_t e = a->n; e > 0; e--) /* they stand one further now */
        start[e] = start[e - 1];
    start[0] = 0;
}

/* Of softmax p and picked weights: normalised w the others cancel, dx = w (dw - sum w dw) at those
 * picked; else dx = p (d - sum p d), d being dw there and 0 elsewhere. Of sigmoids those picked
 * alone have any, times 1 - sigmoid. Weights come with `scale` and `each` in them, and what is
 * normalised are shares. */
void route_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_route_bwd *a = args;
    const struct k_route *f = &a->fwd;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = f->x + i * f->ld_x, *dw = a->dweight + i * f->top;
        const float *w = f->map.weight + i * f->top;
        const float *share = f->each ? f->map.share + i * f->top : w;
        const int32_t *expert = f->map.expert + i * f->top;
        float *dx = a->dx + i * a->ld_dx, max;
        double all = row_sum(x, f->n, &max), dot = 0;
        bool is_apart = f->normalises || f->is_sigmoid;
        for (int64_t j = 0; j < f->top; j++)
            dot += (double)w[j] * (double)dw[j];
        for (int64_t j = 0; j < f->n; j++) {
            double p = is_apart ? 0 : exp((double)x[j] - (double)max) / all;
            dx[j] = (a->add ? dx[j] : 0) - (float)(p * dot);
        }
        for (int64_t j = 0; j < f->top; j++) {
            double slope = f->is_sigmoid ? 1 / (1 + exp((double)x[expert[j]])) : 1;
            double mean = f->normalises ? dot / (double)f->scale : 0;
            dx[expert[j]] +=
                (float)(slope * ((double)w[j] * (double)dw[j] - (double)share[j] * mean));
        }
    }
}

static double pairs_of(const struct k_route_balance *a, int64_t e)
{
    double n = 0;
    for (int64_t l = 0; l < a->n_layer; l++) {
        const int32_t *start = a->start + l * (a->n + 1);
        n += start[e + 1] - start[e];
    }
    return n;
}

void route_balance_ref(const void *args, const struct k_slice *s)
{
    const struct k_route_balance *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float *dx = a->dx + i * a->ld_dx, max;
        double all = row_sum(x, a->n, &max), dot = 0;
        for (int64_t j = 0; j < a->n; j++)
            dot += exp((double)x[j] - (double)max) / all * pairs_of(a, j);
        for (int64_t j = 0; j < a->n; j++)
            dx[j] += (float)((double)a->by * exp((double)x[j] - (double)max) / all *
                             (pairs_of(a, j) - dot));
    }
}

void experts_pack_ref(const void *args, const struct k_slice *s)
{
    experts_pack_runs(args, s, rows_pack_ref);
}

void experts_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_products(a, s, kernel_rows_ref[k_format(a->stack.w.type)->linear].fn);
}

void experts_dx_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_gradients(a, s, kernel_rows_ref[k_format(a->stack.w.type)->dx].fn);
}

void experts_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_dw *a = args;
    int64_t lo = a->start[a->expert], hi = a->start[a->expert + 1];
    for (int64_t o = s->lo * K_NR; o < linear_min(a->n, s->hi * K_NR); o++) {
        for (int64_t j = 0; j < a->k; j++) {
            float sum = 0;
            for (int64_t i = lo; i < hi; i++)
                sum += a->dy[experts_row(a->from_dy, a->top, i) * a->ld_dy + o] *
                       a->x[experts_row(a->from_x, a->top, i) * a->ld_x + j];
            a->dw[o * a->k + j] += sum;
        }
    }
}

void experts_sum_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_sum *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float *y = a->y + i * a->ld_y;
        for (int64_t c = 0; c < a->d; c++) {
            float sum = 0;
            for (int64_t j = i * a->top; j < (i + 1) * a->top; j++)
                sum += (a->weight ? a->weight[j] : 1.0f) * a->x[a->place[j] * a->ld_x + c];
            y[c] = a->add ? y[c] + sum : sum;
        }
    }
}

void experts_weigh_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_weigh *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float *h = a->h + i * a->d, *dh = a->dh + i * a->d, w = a->weight[a->from[i]];
        double dot = 0;
        for (int64_t j = 0; j < a->d; j++) {
            dot += (double)h[j] * (double)dh[j];
            h[j] *= w;
            dh[j] *= w;
        }
        a->dweight[a->from[i]] = (float)dot;
    }
}

void experts_rows_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_rows *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + experts_row(a->from, a->top, i) * a->ld_x;
        float w = a->weight ? a->weight[a->from[i]] : 1.0f;
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->d + j] = w * x[j];
    }
}

/* Of an expert what a group's adapter has, for routed rows [lo, hi). */
static struct k_lora_group group_of(const struct k_experts_groups *a, const struct k_lora_group *g,
                                    int64_t expert, int64_t lo, int64_t hi)
{
    int64_t half_a = expert * g->rank * a->k, half_b = expert * g->rank * a->n;
    int64_t panels = expert * g->rank * linear_panels(a->n) * K_NR;
    return (struct k_lora_group){.row_lo = lo,
                                 .row_hi = hi,
                                 .rank = g->rank,
                                 .scale = g->scale,
                                 .a = g->a ? g->a + half_a : NULL,
                                 .b = g->b ? g->b + half_b : NULL,
                                 .b_panels = g->b_panels ? g->b_panels + panels : NULL,
                                 .a_bf16 = g->a_bf16 ? g->a_bf16 + half_a : NULL,
                                 .b_panels_bf16 =
                                     g->b_panels_bf16 ? g->b_panels_bf16 + panels : NULL,
                                 .da = g->da ? g->da + half_a : NULL,
                                 .db = g->db ? g->db + half_b : NULL};
}

/* An expert's routed rows ascend in the rows that they are, as the groups do. */
void experts_groups_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_groups *a = args;
    int32_t n = 0;
    if (s->lo >= s->hi)
        return;
    for (int64_t e = 0; e < a->n_expert; e++) {
        int64_t at = a->start[e], end = a->start[e + 1];
        for (int64_t i = 0; i < a->n_group && at < end; i++) {
            const struct k_lora_group *g = &a->group[i];
            while (at < end && experts_row(a->from, a->top, at) < g->row_lo)
                at++;
            int64_t lo = at;
            while (at < end && experts_row(a->from, a->top, at) < g->row_hi)
                at++;
            if (lo < at && g->rank > 0 && (g->a || g->a_bf16))
                a->to[n++] = group_of(a, g, e, lo, at);
        }
    }
    *a->n_used = n;
}

/* The expert whose routed row i is. */
static int64_t expert_of(const int32_t *start, int64_t i)
{
    int64_t e = 0;
    while (start[e + 1] <= i)
        e++;
    return e;
}

void experts_bias_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_bias *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *bias = a->bias + expert_of(a->start, i) * a->ld_bias;
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] += bias[j];
    }
}

void experts_bias_dot_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_bias *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *bias = a->bias + expert_of(a->start, i) * a->ld_bias;
        const float *dy = a->dy + a->from[i] / a->top * a->ld_dy;
        double dot = 0;
        for (int64_t j = 0; j < a->d; j++)
            dot += (double)dy[j] * (double)bias[j];
        a->dweight[a->from[i]] += (float)dot;
    }
}

void experts_bias_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_experts_bias_dw *a = args;
    int64_t lo = a->start[a->expert], hi = a->start[a->expert + 1];
    for (int64_t j = s->lo * ROWS_COLS; j < rows_min(a->n, s->hi * ROWS_COLS); j++) {
        double sum = 0;
        for (int64_t i = lo; i < hi; i++)
            sum += (a->from ? (double)a->weight[a->from[i]] : 1) *
                   (double)a->dy[experts_row(a->from, a->top, i) * a->ld_dy + j];
        a->dbias[j] += (float)sum;
    }
}
