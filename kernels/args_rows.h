/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of the kernels on rows and elements. Pointers are borrowed for the call; strides (ld_*)
 * count numbers. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_ROWS_H
#define KERNELS_ARGS_ROWS_H

#include "kernels/args_linear.h"
#include "kernels/types.h"

struct k_embed {
    const int32_t *token; /* [m] */
    struct k_weight table;
    float *y; /* [m, table.k] */
    int64_t ld_y, m;
    int64_t lo;    /* the table has tokens [lo, lo + table.n); of another one the row is zeros */
    int64_t known; /* tokens from here on are read as token 0; 0: all are what they are */
    const struct k_saved *saved; /* [n_saved] disjoint rows, and the tables that these have */
    int64_t n_saved;
};

struct k_embed_bwd { /* unit: a run of columns, so that equal tokens add in row order */
    const int32_t *token;
    const float *dy;
    int64_t ld_dy, m, n, k;
    int64_t lo;    /* tokens [lo, lo + n) count */
    float *dtable; /* [n, k], added to */
};

/* rmsnorm, layernorm. With residual, x + residual is normalised and kept in sum; rmsnorm without a
 * weight has ones. */
struct k_norm {
    const float *x, *residual, *weight, *bias;
    float *y, *sum; /* sum: NULL without residual; may be x */
    float *stat;    /* [m, n_head] 1/rms, or [m, n_head, 2] mean and 1/std; NULL: not wanted */
    int64_t ld_x, ld_residual, ld_y, ld_sum, m, d;
    int64_t n_head; /* a row is n_head runs of d, each normalised by itself under one weight[d] */
    float eps;
    bool plus_one; /* rmsnorm: by 1 + weight */
};

struct k_norm_bwd { /* *_bwd: dx (+)=; *_dw: dweight, dbias +=, either may be NULL */
    const float *x, *weight, *dy, *stat;
    float *dx, *dweight, *dbias;
    int64_t ld_x, ld_dy, ld_dx, m, d;
    int64_t n_head; /* as in k_norm */
    bool add;
    bool plus_one; /* as in k_norm */
};

struct k_rope { /* y may be x */
    const float *x;
    float *y;
    int64_t ld_x, ld_y, m;
    int32_t n_head, d_head, d_rot; /* d_rot of each head turn, */
    int32_t at;                    /* from its number `at` on */
    const int32_t *pos;            /* [m] rows of the table */
    const float *cos, *sin;        /* [row, d_rot / 2] */
    bool interleaved;              /* pairs (2i, 2i+1) instead of (i, i + d_rot/2) */
    bool inverse;                  /* the backward */
};

struct k_swiglu { /* y[m, d] = silu(gate) * up; glu: sigmoid(gate) * up. y may be either */
    const float *gate, *up;
    float *y;
    int64_t ld_gate, ld_up, ld_y, m, d;
};

struct k_swiglu_bwd { /* swiglu_bwd, glu_bwd */
    const float *gate, *up, *dy;
    float *dgate, *dup;
    int64_t ld_gate, ld_up, ld_dy, ld_dgate, ld_dup, m, d;
};

struct k_row_scale { /* y[i] = scale[pos[i]] x[i]; y may be x. The backward is the same of dy */
    const float *x, *scale;
    float *y;
    const int32_t *pos; /* [m] */
    int64_t ld_x, ld_y, m, d;
};

struct k_row_gate { /* y[m, d] = sigmoid(gate[i]) * x[i, :]; y may be x */
    const float *x, *gate;
    float *y;
    int64_t ld_x, ld_gate, ld_y, m, d;
};

struct k_row_gate_bwd { /* dx and dgate: NULL where not wanted */
    const float *x, *gate, *dy;
    float *dx, *dgate;
    int64_t ld_x, ld_gate, ld_dy, ld_dx, ld_dgate, m, d;
};

/* y[m, d] = g sigmoid(alpha g) (u + 1): g the gate where it is at most `limit`, else that; u: up,
 * kept within -limit and limit. swiglu_clamped_bwd: dgate, dup from dy; what was clamped has none.
 */
struct k_swiglu_clamped {
    const float *gate, *up, *dy;
    float *y, *dgate, *dup;
    int64_t ld_gate, ld_up, ld_dy, ld_y, ld_dgate, ld_dup, m, d;
    float limit, alpha;
};

struct k_gelu { /* gelu_bwd: y is dx, and dy is read */
    const float *x, *dy;
    float *y;
    int64_t ld_x, ld_dy, ld_y, m, d;
    bool tanh;
};

struct k_softcap { /* y = cap tanh(x / cap); softcap_bwd: x is that y, y = dy (1 - (x / cap)^2) */
    const float *x, *dy;
    float *y; /* may be x; of softcap_bwd dy too */
    int64_t ld_x, ld_dy, ld_y, m, d;
    float cap;
};

struct k_binary { /* add, mul: y = a op b; a stride of 0 repeats one row. y may be a or b */
    const float *a, *b;
    float *y;
    int64_t ld_a, ld_b, ld_y, m, d;
};

struct k_scale {
    const float *x;
    float *y;
    int64_t n;
    float s;
};

struct k_cast {
    const void *x;
    void *y;
    enum k_type from, to; /* one of them K_F32 */
    int64_t n;
};

struct k_copy {     /* y = x, or 0 where x is NULL */
    const float *x; /* a stride of 0 repeats one row */
    float *y;
    int64_t ld_x, ld_y, m, d;
};

struct k_fold {     /* y[i] = ((x[0, i] + x[1, i]) + x[2, i]) + ... */
    const float *x; /* [n_x, n], ld_x from one to the next */
    float *y;       /* [n]; may be one of them */
    int64_t ld_x, n_x, n;
};

struct k_gather { /* gather: y[i] = x[index[i]]; scatter_add: y[index[i]] += x[i], i ascending */
    const float *x;
    const int32_t *index; /* [m] */
    float *y;
    int64_t ld_x, ld_y, m, d;
};

struct k_col_sum { /* y[j] += sum over i of x[i, j] */
    const float *x;
    int64_t ld_x, m, d;
    float *y;
};

struct k_softmax { /* softmax, log_softmax; y may be x */
    const float *x;
    float *y;
    int64_t ld_x, ld_y, m, d;
};

#endif
