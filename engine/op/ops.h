/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary in which models are written: one maker per op. Each adds a node to the builder
 * and returns its value; see the op's file for what it computes.
 *
 * Thread: that of the builder.
 */
#ifndef ENGINE_OP_OPS_H
#define ENGINE_OP_OPS_H

#include "engine/op/builder.h"

enum op_ids { OP_IDS_TOKEN, OP_IDS_POS, OP_IDS_SEGMENT };

struct op_rope_attr {
    const float *cos, *sin; /* [position, d_rot / 2] */
    int32_t n_head, d_head, d_rot, interleaved;
    int32_t at; /* the first number of a head that turns */
};

/* Of heads of d_head columns each [lo, lo + n), and behind these n_tail more. */
struct op_heads_attr {
    int32_t n_head, d_head, lo, n, n_tail;
};

struct op_attn_attr {
    int32_t layer, n_head, n_kv_head, d_head, window, causal;
    float scale, softcap;
    const struct param *sink; /* [n_head]; NULL: none */
};

struct op_conv_attr {
    const struct param *weight, *bias; /* of weight->n_tap taps; bias NULL: none */
    int64_t layer;                     /* whose cells hold the rows of steps before */
};

/* Heads of a mixer whose memory is states. */
struct op_state_heads {
    int64_t layer;              /* whose slots hold states of steps before */
    int32_t n_k, n_v, d_k, d_v; /* heads of keys, and of values: so many to one of keys */
};

struct op_delta_attr {
    const struct param *a_log, *dt_bias; /* vectors of n_v */
    struct op_state_heads heads;
};

struct op_scan_attr {
    const struct param *a_log, *dt_bias, *skip; /* vectors of n_v */
    struct op_state_heads heads;
    float lo, hi; /* bounds of a step */
};

/* Rows as they come: dt [n_v] before it is a step. */
struct op_scan_in {
    struct val q, k, v, dt;
};

/* Rows as they come: q and k without unit length, a and b [n_v] before they are rates. */
struct op_delta_in {
    struct val q, k, v, a, b;
};

enum op_experts_gelu { EXPERTS_NO_GELU, EXPERTS_GELU, EXPERTS_GELU_TANH };

/* A mixture of experts: arrays of n_expert parameters each, which lie in memory one behind the
 * other at one distance. */
struct op_experts_attr {
    const struct param *gate, *up, *down;
    const struct param *gate_bias, *up_bias, *down_bias; /* vectors; NULL: there are none */
    const struct param *choice_bias; /* vector [n_expert], of what they are picked by; or NULL */
    const struct param *each;        /* vector [n_expert], of their weights; or NULL */
    int32_t n_expert, top;
    int32_t n_group, top_group; /* as in struct k_route */
    int32_t slot;               /* which of the batch's loads is this layer's */
    float limit, alpha; /* of kernel swiglu_clamped, which is their gate; limit 0: swiglu is */
    float scale;        /* of a row's weights */
    int8_t group_best;
    bool is_sigmoid;
    bool normalises;  /* the weights of a row's experts, so that they sum to 1 */
    int8_t gelu;      /* enum op_experts_gelu, in place of silu(gate x) */
    int32_t rank_max; /* of adapters; 0: there are none. The maker says it */
};

struct op_mix_attr {
    int32_t n, k;
    float plus;
};

struct op_reduce_attr;
struct op_collect_attr;
struct op_spread_attr;

struct val op_embed(struct builder *b, enum op_ids ids, const struct param *table);
/* By token, of the table that adapters may have for themselves. */
struct val op_embed_tokens(struct builder *b, const struct param *table);
/* By token, of a table that has the first ones only: others are read as its first. */
struct val op_embed_known(struct builder *b, const struct param *table);
/* Id 0 is row `from` of the table. */
struct val op_embed_from(struct builder *b, enum op_ids ids, const struct param *table,
                         int32_t from);
struct val op_slice(struct builder *b, struct val x, int64_t lo, int64_t n);
/* Columns of x are n_head runs of part[0] + part[1] + ...: of the result all heads' part[0] come
 * first, then all heads' part[1], ... */
struct val op_regroup(struct builder *b, struct val x, int32_t n_head, const int32_t *part,
                      int n_part);
struct val op_reorder(struct builder *b, struct val x, const struct param_order *order);
/* scale: a number for each position. */
struct val op_row_scale(struct builder *b, struct val x, const float *scale);
/* tail: of n_tail columns, for all heads; id -1: zeros. */
struct val op_heads(struct builder *b, struct val x, struct val tail,
                    const struct op_heads_attr *attr);
struct val op_gather(struct builder *b, struct val x);
struct val op_round(struct builder *b, struct val x, enum k_type type);
struct val op_bias(struct builder *b, struct val x, const struct param *bias);
struct val op_add(struct builder *b, struct val x, struct val y);
struct val op_mul(struct builder *b, struct val x, struct val y);
struct val op_scale(struct builder *b, struct val x, float s);
struct val op_rmsnorm(struct builder *b, struct val x, const struct param *weight, float eps,
                      bool plus_one);
/* Each run of d columns, by its own weights of as many as there are columns. */
struct val op_rmsnorm_groups(struct builder *b, struct val x, const struct param *weight, int64_t d,
                             float eps);
/* Each run of d columns, by no weights. */
struct val op_rmsnorm_bare(struct builder *b, struct val x, int64_t d, float eps);
struct val op_layernorm(struct builder *b, struct val x, const struct param *weight,
                        const struct param *bias, float eps);
struct val op_rope(struct builder *b, struct val x, const struct op_rope_attr *attr);
struct val op_attn(struct builder *b, struct val q, struct val k, struct val v,
                   const struct op_attn_attr *attr);
struct val op_conv(struct builder *b, struct val x, const struct op_conv_attr *attr);
struct val op_delta(struct builder *b, const struct op_delta_in *in,
                    const struct op_delta_attr *attr);
struct val op_scan(struct builder *b, const struct op_scan_in *in, const struct op_scan_attr *attr);
struct val op_swiglu(struct builder *b, struct val gate, struct val up);
struct val op_glu(struct builder *b, struct val x, struct val gate);
/* gate: one column. */
struct val op_row_gate(struct builder *b, struct val x, struct val gate);
/* logits: of the router, [rows of x, n_expert]. */
struct val op_experts(struct builder *b, struct val x, struct val logits,
                      const struct op_experts_attr *attr);
/* Of n runs of columns of base and k of x, all as wide: base_i + sum of (c[i * k + j] + plus) x_j.
 * c: a number for each pair; id -1: plus alone. */
struct val op_mix(struct builder *b, struct val base, struct val x, struct val c,
                  const struct op_mix_attr *attr);
/* x, as large as `like` in root mean square, whose own is taken for `least` where it is less. */
struct val op_match(struct builder *b, struct val x, struct val like, float least);
/* max(x - mean - times * std, 0) of each row. */
struct val op_cutoff(struct builder *b, struct val x, float times);
struct val op_col_scale(struct builder *b, struct val x, const struct param *by);
struct val op_gelu(struct builder *b, struct val x, bool tanh);
struct val op_softcap(struct builder *b, struct val x, float cap);
struct val op_dropout(struct builder *b, struct val x, float p, uint32_t site);

/* To each number one between -1 and 1 times alpha / sqrt(tokens of its sequence * columns). */
struct val op_noise(struct builder *b, struct val x, float alpha);
struct val op_reduce(struct builder *b, struct val x, const struct op_reduce_attr *attr);
struct val op_collect(struct builder *b, struct val x, const struct op_collect_attr *attr);
struct val op_spread(struct builder *b, struct val x, const struct op_spread_attr *attr);
struct val op_mean_pool(struct builder *b, struct val x);
struct val op_l2norm(struct builder *b, struct val x, float eps);

/* The whole of a linear layer: rounding, the product, adapters where the builder has them, and the
 * bias where there is one (NULL: none). */
struct val op_lora(struct builder *b, struct val y, struct val x, const struct param *w);
struct val op_linear(struct builder *b, struct val x, const struct param *w,
                     const struct param *bias);

/* y times what the rows' adapters have for each output of w, but for the bias in it (NULL: none).
 */
struct val op_dora(struct builder *b, struct val y, const struct param *w,
                   const struct param *bias);

/* Rows of y, which are x by the lm_head, by the lm_head that their adapter has where it has one. */
struct val op_saved(struct builder *b, struct val y, struct val x, const struct param *lm_head);

/* Head, softcap of its logits (cap 0: none) and loss: one struct k_ce_state per row of DIM_OUT, as
 * K_CE_STATE_COLS floats. */
struct val op_ce(struct builder *b, struct val x, const struct param *lm_head, float cap);
size_t op_ce_work_bytes(const struct param *lm_head, int64_t n_row); /* beside its values */

enum { OP_CE_COLS = (int)(sizeof(struct k_ce_state) / sizeof(float)) };

#endif
