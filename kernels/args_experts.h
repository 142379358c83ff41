/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of mixtures of experts. A router gives each of m rows `top` of n experts; the m * top
 * pairs, sorted by expert and within one by row, are the routed rows. How many an expert has is
 * made on the device: the bounds lie in memory, and no launch depends on them. Pointers are
 * borrowed for the call. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_EXPERTS_H
#define KERNELS_ARGS_EXPERTS_H

#include "kernels/args_linear.h"

/* Who goes where: route fills expert and weight, route_sort from them the rest. */
struct k_route_map {
    int32_t *expert; /* [m, top] of each row, the likeliest first */
    float *weight;   /* [m, top] */
    float *share;    /* [m, top] weights before `each` multiplies them; NULL where there is none */
    int32_t *place;  /* [m, top]: of the pair among the routed rows */
    int32_t *from;   /* [m * top] by place: row * top + which of its experts */
    int32_t *start;  /* [n + 1]: the first routed row of each expert */
};

enum { K_ROUTE_GROUPS = 64 }; /* of experts, at most */

/* route: the softmax, or the sigmoids, of a row's logits, of which the `top` largest count (of
 * equal ones the first; with `normalises` divided by their sum), times `scale`. Picked they are by
 * score + bias, and where experts are in groups (n_group above 1, n / n_group each, one behind the
 * other) among the top_group groups alone whose best, or best two together, are the largest. At
 * last an expert's weight is multiplied by its `each`, whose gradient the caller has of `share`.
 * route_sort: one unit. */
struct k_route {
    const float *x;    /* [m, n] */
    const float *bias; /* [n]; NULL: none */
    const float *each; /* [n]; NULL: ones */
    int64_t ld_x, m, n, top;
    int32_t n_group, top_group, group_best; /* group_best: 1 or 2 */
    float scale;
    bool is_sigmoid, normalises;
    struct k_route_map map;
};

struct k_route_bwd { /* unit: a row */
    struct k_route fwd;
    const float *dweight; /* [m, top] */
    float *dx;            /* [m, n] */
    int64_t ld_dx, m;     /* m: fwd.m again */
    bool add;
};

/* Of f[e], the pairs that went to expert e in all n_layer maps, dx += by * p (f - p . f), p being
 * the softmax of a row of x: the gradient of sum f p. Unit: a row. */
struct k_route_balance {
    const float *x;       /* [m, n] */
    const int32_t *start; /* [n_layer, n + 1] of the maps */
    float *dx;            /* [m, n] */
    int64_t ld_x, ld_dx, m, n, n_layer;
    float by;
};

/* What the routed rows of an expert are multiplied with: expert e's weight is `w` moved by e times
 * so many bytes, or the matrix saved[e], and where that has no data its rows are left out. */
struct k_stack {
    struct k_weight w;
    int64_t data_bytes, scale_bytes; /* from one to the next */
    const struct k_saved *saved;     /* [n_expert]; NULL: all are w, moved */
    const int32_t *start;            /* of the map; NULL: costs alone are asked for */
    int64_t n_expert;
};

/* experts_pack: routed rows, rounded and blocked for a stack: of an expert, each run of
 * EXPERTS_RUN_ROWS (kernels/experts_grid.h) is packed as rows_pack does rows of their own. */
struct k_experts_pack {
    const float
        *x; /* routed rows [m, k]; with `from` those of before: routed row i is from[i] / top
             */
    int64_t ld_x, m, k;
    const int32_t *from; /* NULL: x is in their order */
    int64_t top;
    const int32_t *start;
    int64_t n_expert;
    enum k_type type; /* K_F32 or K_BF16 */
    void *rows;
};

/* experts: y[m, n] = each routed row times its expert's w^T, with the bits that linear_<format>
 * gives it alone. experts_dx: rows are dy [m, n], and y[m, k] (+)= dy w. */
struct k_experts {
    const void *rows; /* of experts_pack */
    struct k_stack stack;
    float *y;
    int64_t ld_y, m;
    bool add; /* of experts_dx */
};

/* dw[n, k] += dy^T x over the routed rows of one expert, in their order. */
struct k_experts_dw {
    const float *dy, *x; /* routed rows, or where from_* is there those of before */
    int64_t ld_dy, ld_x;
    const int32_t *from_dy, *from_x;
    int64_t top;
    const int32_t *start;
    int64_t expert, n, k;
    float *dw; /* row-major */
};

/* y[i] (+)= sum over j of weight[i, j] * x[place[i, j]], j ascending from zero; no weight: 1. */
struct k_experts_sum {
    const float *x; /* routed rows [m * top, d] */
    const float *weight;
    const int32_t *place;
    float *y;
    int64_t ld_x, ld_y, m, top, d;
    bool add;
};

/* Of routed row i, which row * top + j = from[i] is the gradient of: dweight[from[i]] = h[i] .
 * dh[i], then both times weight[from[i]]. */
struct k_experts_weigh {
    const float *weight;
    const int32_t *from;
    float *h, *dh; /* [m, d] */
    float *dweight;
    int64_t m, d;
};

/* experts_bias: y[i] += the bias of routed row i's expert. experts_bias_dot, of dy of the rows that
 * `from` names: dweight[from[i]] += dy[from[i] / top] . bias. */
struct k_experts_bias {
    const float *bias;   /* of expert 0; those of the next are ld_bias floats further */
    const float *dy;     /* of experts_bias_dot */
    const int32_t *from; /* experts_bias_dot: NULL is not allowed */
    const int32_t *start;
    float *y, *dweight;
    int64_t ld_bias, ld_y, ld_dy, n_expert, top, m, d;
};

/* experts_rows: y[i] = row from[i] / top of x, times weight[from[i]] where there are weights:
 * routed rows of numbers, for adapters. Unit: a row. */
struct k_experts_rows {
    const float *x;
    const int32_t *from;
    const float *weight; /* [m]; NULL: none */
    const int32_t
        *n_used; /* of experts_groups: where it is 0 nobody reads them, and none are made */
    float *y;    /* [m, d] */
    int64_t ld_x, top, m, d;
};

/* experts_groups: from groups of rows, of which each expert has halves of its own that stand behind
 * those of the expert before, the groups of routed rows that have an adapter and are not empty. One
 * unit. */
struct k_experts_groups {
    const struct k_lora_group *group; /* [n_group] disjoint, ascending rows */
    const int32_t *from, *start;
    struct k_lora_group *to; /* [n_group * n_expert] */
    int32_t *n_used;         /* how many there are */
    int64_t n_group, n_expert, top;
    int64_t n, k; /* outputs and inputs of an expert's halves */
};

/* dbias[n] += the routed rows of one expert in their order; those that `from` names are weighed. */
struct k_experts_bias_dw {
    const float *dy;     /* routed rows; with `from` those of before */
    const float *weight; /* with `from`: [m, top] */
    const int32_t *from, *start;
    int64_t ld_dy, top, expert, n;
    float *dbias;
};

#endif
